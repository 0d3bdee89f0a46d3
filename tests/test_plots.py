"""Figures, and the numbers that figures and report draw."""

from __future__ import annotations

import re
import sys

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure

import twosample
from twosample import plots
from twosample._show.charts import null_of, power_over_sizes, training_of
from twosample._show.findings import on_fewer_points
from twosample._show.maps import _main_axes, point_map
from twosample._show.marginals import Densities, marginal_of
from twosample._show.pictures import shades
from twosample._show.report import render
from twosample._show.svg import Drawn, Scale, element
from twosample._show.svg_charts import map_chart, null_chart, power_chart, training_chart
from twosample.bench.datasets import blob
from twosample.errors import IncompatibleParts, InputError, MissingDependency


@pytest.fixture(scope="module", autouse=True)
def no_window():
    before = mpl.get_backend()
    mpl.use("agg")
    yield
    plt.close("all")
    mpl.use(before)


@pytest.fixture(scope="module")
def blobs():
    return twosample.two_sample_test(
        *blob(180, 150, rng=0), twosample.mmd_d(steps=20, validation_fraction=0.3), rng=0
    )


@pytest.fixture(scope="module")
def orders():
    rng = np.random.default_rng(0)
    samples = [
        pl.DataFrame(
            {
                "price": rng.lognormal(0, 1, 150).round(2),
                "weight": rng.normal(shift, 1, 150),
                "country": rng.choice(["DE", "FR"], 150),
                "returning": rng.random(150) < 0.3,
            }
        )
        for shift in (0.0, 1.0)
    ]
    return samples, twosample.two_sample_test(*samples, "mmd-median", rng=0)


@pytest.fixture(scope="module")
def digits():
    rng = np.random.default_rng(1)
    X = rng.integers(0, 256, (30, 8, 10, 3), dtype=np.uint8)
    Y = rng.integers(90, 256, (30, 8, 10, 3), dtype=np.uint8)
    return twosample.two_sample_test(X, Y, "mmd-median", permutations=99, rng=0)


def axes():
    return Figure().add_subplot()


# Figures


def test_null_distribution_shows_draws_threshold_and_observed(blobs):
    ax = plots.null_distribution(blobs, axes(), alpha=0.01)
    heights = sum(bar.get_height() for bar in ax.patches)
    assert heights == pytest.approx(1)
    threshold_line, observed_line = ax.lines
    threshold = threshold_line.get_xdata()[0]
    assert observed_line.get_xdata()[0] == blobs.statistic
    assert np.mean(blobs.null_distribution > threshold) < 0.01
    assert np.mean(blobs.null_distribution >= threshold) >= 0.01
    assert blobs.plot(axes()).get_xlabel() == "MMD²"


@pytest.mark.parametrize("alpha", [0.001, 0.0101, 0.05, 0.2, 0.999])
def test_a_value_above_the_threshold_is_what_is_rejected(alpha):
    values = np.sort(np.random.default_rng(0).normal(size=199))
    just_above = values[[-1, -2, -3, -10, -11, -40, 0]] + 1e-6
    for observed in (values[-1] + 1, *just_above):
        result = twosample.TwoSampleResult(
            statistic=observed,
            pvalue=(1 + int((values >= observed).sum())) / 200,
            null_distribution=values,
            method="none",
            calibration="none",
            sizes=(2, 2),
            train_sizes=None,
            effect=twosample.Effect(),
            training=None,
        )
        threshold = null_of(result).threshold(alpha)
        assert result.reject(alpha) == (threshold is not None and observed > threshold.value)


def test_a_law_is_drawn_where_there_are_no_draws():
    rng = np.random.default_rng(2)
    result = twosample.me(steps=0, asymptotic=True).run(
        rng.normal(size=(80, 2)), rng.normal(size=(80, 2)), rng=0
    )
    null = null_of(result)
    assert null.symbol == "T²"
    assert null.shares.sum() == pytest.approx(1, abs=0.01) and null.shares.min() >= 0
    # chi-squared, 5 degrees of freedom
    assert null.threshold(0.05).value == pytest.approx(11.07, abs=0.01)
    assert len(plots.null_distribution(result, axes()).patches) == len(null.shares)


def test_power_curve_passes_through_what_was_predicted(blobs):
    predicted = twosample.predict_power(blobs)
    ax = plots.power_curve(predicted, axes(), power=0.8, alpha=0.1)
    line, here, needed = ax.lines
    sizes, power = line.get_data()
    n, m = blobs.sizes
    assert here.get_xdata()[0] == n
    pairs = [(size, max(2, round(size * m / n))) for size in sizes.astype(int).tolist()]
    expected = [predicted.power(of_x, of_y, 0.1) for of_x, of_y in pairs]
    assert power == pytest.approx(expected)
    assert needed.get_xdata()[0] == predicted.samples_needed(0.8, 0.1, ratio=m / n)


def test_training_curve_shows_batches_validation_and_what_was_kept(blobs):
    train, validation, kept = plots.training_curve(blobs, axes()).lines
    assert tuple(train.get_ydata()) == blobs.training.objective
    assert list(zip(*validation.get_data(), strict=True)) == list(blobs.training.validation)
    assert kept.get_xdata()[0] == blobs.training.best_step


def test_column_ranking_fills_the_bars_of_columns_that_differ(orders):
    explanation = twosample.explain(orders[1], rng=0)
    ax = plots.column_ranking(explanation, axes(), most=3)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names[0] == "weight" and len(names) == 3
    assert [bar.get_fill() for bar in ax.patches] == [True, False, False]
    assert ax.texts[0].get_text() == "p = 0.004"


def test_witness_map_in_the_plane_has_a_field_and_all_points(blobs):
    ax = plots.witness_map(twosample.explain(blobs, shuffles=0, rng=0), axes(), rng=0)
    field, of_x, of_y = ax.collections
    assert (len(of_x.get_offsets()), len(of_y.get_offsets())) == blobs.sizes
    assert len(field.get_paths()) > 3
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("0", "1")


def test_kernel_contours_lie_around_the_modes(blobs):
    ax = plots.kernel_contours(blobs, axes(), rng=0)
    centres = np.column_stack(ax.lines[-1].get_data())
    modes = np.indices((3, 3)).reshape(2, 9).T
    assert len(centres) == 9
    assert np.abs(centres[:, None] - modes).sum(2).min(0).max() < 0.35
    assert len(ax.collections) == 9


def test_image_grid_holds_the_telling_images(digits):
    explanation = twosample.explain(digits, rows=4, rng=0)
    picture = plots.image_grid(explanation, axes()).images[0].get_array()
    assert picture.shape == (2 * 8 + 1, 4 * 11 - 1, 3)
    assert np.array_equal(picture[:8, :10], explanation.rows_x[0].pixels)
    assert np.array_equal(picture[-8:, 11:21], explanation.rows_y[1].pixels)


def test_a_figure_of_its_own_where_none_is_given(blobs):
    before = len(plt.get_fignums())
    ax = blobs.plot()
    assert len(plt.get_fignums()) == before + 1
    plt.close(ax.figure)


def test_what_cannot_be_drawn_is_a_sentence(orders, digits, monkeypatch):
    table = twosample.explain(orders[1], shuffles=0, rng=0)
    image = twosample.explain(digits, shuffles=0, rng=0)
    with pytest.raises(InputError, match="mmd-median took no training steps"):
        plots.training_curve(orders[1], axes())
    with pytest.raises(InputError, match="images have no columns"):
        plots.column_ranking(image, axes())
    with pytest.raises(InputError, match="no images among"):
        plots.image_grid(table, axes())
    with pytest.raises(InputError, match="two columns of numbers"):
        plots.kernel_contours(orders[1], axes())
    with pytest.raises(InputError, match="there is no column 'size'; there are country, price"):
        marginal_of(orders[1], "size")
    result = twosample.c2st_l(steps=3, permutations=19).run(*blob(40, rng=0), rng=0)
    with pytest.raises(IncompatibleParts, match="c2st-l compares features"):
        plots.kernel_contours(result, axes(), rng=0)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingDependency, match=r"pip install 'twosample\[plots\]'"):
        digits.plot()


# What they draw


def test_page_and_figure_show_the_same(blobs):
    """The marks, the corners of a curve and the points of a map are those of one description."""
    ax = plots.null_distribution(blobs, axes(), alpha=0.1)
    page = null_chart(null_of(blobs), (0.1,), 0.1)
    drawn_bars = [bar for bar in ax.patches if bar.get_height() > 0]
    assert page.count("<rect") == len(drawn_bars)
    assert ax.get_title() in render(blobs, rng=0)

    predicted = twosample.predict_power(blobs)
    line, here, needed = plots.power_curve(predicted, axes()).lines
    page = power_chart({0.05: power_over_sizes(predicted)}, 0.05, "rows", ("X", "Y"))
    assert path_corners(page, "line") == len(line.get_xdata())
    assert f"here: {here.get_xdata()[0]:,.0f}<" in page
    assert f">{needed.get_xdata()[0]:,.0f} for power 0.9<" in page

    ax = plots.training_curve(blobs, axes())
    page = training_chart(training_of(blobs))
    assert path_corners(page, "line thin") == len(ax.lines[0].get_xdata())
    assert path_corners(page, "line other") == len(ax.lines[1].get_xdata())

    explanation = twosample.explain(blobs, shuffles=0, rng=0)
    ax = plots.witness_map(explanation, axes(), rng=0)
    points = point_map(explanation, rng=0)
    assert (ax.get_xlim(), ax.get_ylim()) == points.limits
    assert map_chart(points).count('class="w') == points.inside.sum()


def path_corners(page: str, name: str) -> int:
    """How many corners a path of this class has."""
    outline = re.search(rf'<path d="([^"]*)" class="{name}">', page)
    return outline[1].count("L") + 1


def test_marginals_are_those_of_the_tables(orders):
    (X, Y), result = orders
    country = marginal_of(result, "country")
    assert country.levels == ("DE", "FR", "other")
    assert country.x == pytest.approx(
        [(X["country"] == "DE").mean(), (X["country"] == "FR").mean(), 0]
    )
    returning = marginal_of(result, "returning")
    assert returning.levels == ("false", "true") and returning.y[1] == pytest.approx(
        Y["returning"].mean()
    )
    weight = marginal_of(result, "weight")
    assert isinstance(weight, Densities)
    step = weight.at[1] - weight.at[0]
    assert weight.x.sum() * step == pytest.approx(1, abs=0.03)
    assert (weight.at * weight.y).sum() * step == pytest.approx(Y["weight"].mean(), abs=0.1)


def test_the_witness_of_a_point_is_that_without_itself(orders):
    result = orders[1]
    explanation = twosample.explain(result, shuffles=0, rng=0)
    drawn = point_map(explanation, most=60, rng=0)
    assert len(drawn.positions) == 60 and drawn.total == 300
    assert drawn.axes[0] == "like Y on the left, like X on the right" and drawn.share is None
    assert np.corrcoef(drawn.positions[:, 0], drawn.witness)[0, 1] == pytest.approx(1)
    n = result.sizes[0]
    X, Y = orders[0]
    # These count the point itself, too: w = (1 + (n - 1) of the others) / n - ..., as k(x, x) = 1.
    at_x = twosample.witness(result, X[drawn.rows[~drawn.of_y].tolist()])
    at_y = twosample.witness(result, Y[drawn.rows[drawn.of_y].tolist()])
    drawn_x = drawn.witness[~drawn.of_y]
    drawn_y = drawn.witness[drawn.of_y]
    assert np.corrcoef(at_x, drawn_x)[0, 1] > 0.99
    assert np.corrcoef(at_y, drawn_y)[0, 1] > 0.99
    assert np.abs(at_x - drawn_x).max() < 1.5 / n


def test_main_axes_have_the_share_of_variance_that_they_say():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 4))
    Y = rng.normal(size=(200, 4))
    X[:, 1] = X[:, 0] + 0.1 * X[:, 1]
    Y[:, 1] = Y[:, 0] + 0.1 * Y[:, 1]
    pooled = np.concatenate([X, Y])
    pooled = (pooled - pooled.mean(0)) / pooled.std(0)
    _, share = _main_axes(pooled)
    eigenvalues = np.linalg.eigvalsh(np.cov(pooled.T))
    assert share == pytest.approx(eigenvalues[-2:].sum() / eigenvalues.sum(), rel=1e-4)


def test_fewer_points_are_a_test_of_their_own_with_their_rows(orders):
    (X, _), result = orders
    fewer = on_fewer_points(result, 40, rng=0)
    assert fewer.sizes == (40, 40) and on_fewer_points(result, 150, rng=0) is result
    assert fewer.pvalue <= 0.05
    first = twosample.explain(fewer, shuffles=0, rows=1, rng=0).rows_x[0]
    assert first.values["weight"] == pytest.approx(X["weight"][first.row], rel=1e-5)


def test_floats_share_one_scale_and_bytes_stay():
    dark = np.array([[0.0, 0.25]])
    light = np.array([[0.5, 1.0]])
    dark, light = shades([dark, light])
    assert dark.tolist() == [[0, 64]]
    assert light.tolist() == [[128, 255]]
    byte = np.array([[7]], dtype=np.uint8)
    assert shades([byte])[0].tolist() == [[7]]


# SVG


def test_elements_escape_what_is_not_drawn():
    inner = element("b", "<")
    assert element("a", inner, '"<', title='"><script>') == (
        '<a title="&quot;&gt;&lt;script&gt;"><b>&lt;</b>&quot;&lt;</a>'
    )
    assert isinstance(inner, Drawn) and inner.__html__() is inner


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (-3.7, 12.2), (1e-7, 3e-7), (5e5, 9e6), (-2, -1.999)]
)
def test_ticks_are_few_and_between_the_ends(low, high):
    scale = Scale(low, high, 0, 100)
    ticks = scale.ticks(5)
    assert 2 <= len(ticks) <= 6
    assert min(ticks) >= low - 1e-9 * abs(low)
    assert max(ticks) <= high + 1e-9 * abs(high)
    assert np.allclose(np.diff(ticks), ticks[1] - ticks[0])
    assert scale([low, high]).tolist() == [0, 100]


def test_logarithmic_ticks():
    assert Scale(4, 600, 0, 1, log=True).ticks() == [5, 10, 20, 50, 100, 200, 500]
    assert Scale(4, 60_000, 0, 1, log=True).ticks() == [10, 100, 1000, 10_000]
