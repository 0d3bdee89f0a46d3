"""What is said to users, in their words: names of options, seeds, sentences."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import twosample
from twosample import plots, testing
from twosample._insight.held_out import _rounded
from twosample.bench import datasets
from twosample.bench.datasets import blob

# `seed` and `random_state`


def _taking_rng() -> Iterator[tuple[str, Callable[..., object]]]:
    """Every public function and method with an option `rng`, by its name."""
    for module in (twosample, testing, plots, datasets):
        for name in getattr(module, "__all__", dir(module)):
            value = getattr(module, name)
            home = getattr(value, "__module__", "")
            if name.startswith("_") or not home.startswith("twosample"):
                continue
            is_listed = name in getattr(module, "__all__", ())
            if home != module.__name__ and not is_listed:
                continue  # imported from elsewhere
            members = [(name, value)]
            if inspect.isclass(value):
                methods = inspect.getmembers(value, inspect.isfunction)
                members = [(f"{name}.{each}", method) for each, method in methods]
            for full_name, function in members:
                is_public = not full_name.rpartition(".")[2].startswith("_")
                if not is_public or not inspect.isfunction(function):
                    continue
                if "rng" in inspect.signature(function).parameters:
                    yield full_name, function


TAKING_RNG = dict(_taking_rng())


def test_the_functions_that_take_an_rng_are_found():
    known = {"two_sample_test", "compare", "explain", "TwoSampleTest.run", "TwoSampleTest.fit"}
    assert known <= set(TAKING_RNG)
    assert {"FittedTest.test", "TwoSampleResult.report", "assert_same_distribution", "blob"} <= set(
        TAKING_RNG
    )


@pytest.mark.parametrize("other", ["seed", "random_state"])
@pytest.mark.parametrize("name", TAKING_RNG)
def test_other_names_of_rng_are_answered(name, other):
    with pytest.raises(twosample.UnknownOption, match=rf"no option `{other}`; use rng=7\.") as told:
        TAKING_RNG[name](**{other: 7})
    assert isinstance(told.value, TypeError)  # as for any option that does not exist
    assert isinstance(told.value, twosample.InputError)


# The seed that repeats a run


def test_a_run_without_a_seed_draws_one_and_says_it():
    X, Y = blob(60, rng=0)
    first = twosample.two_sample_test(X, Y, "mmd-median", permutations=99)
    again = twosample.two_sample_test(X, Y, "mmd-median", permutations=99, rng=first.seed)
    assert isinstance(first.seed, int)
    np.testing.assert_array_equal(first.null_distribution, again.null_distribution)
    assert again.seed == first.seed == first.to_dict()["seed"]


def test_two_runs_without_a_seed_draw_two():
    X, Y = blob(60, rng=0)
    seeds = {twosample.mmd_median(permutations=19).run(X, Y).seed for _ in range(3)}
    assert len(seeds) == 3


def test_a_generator_has_no_seed_to_tell():
    X, Y = blob(60, rng=0)
    result = twosample.two_sample_test(X, Y, "mmd-median", rng=np.random.default_rng(3))
    assert result.seed is None
    assert twosample.two_sample_test(X, Y, "mmd-median", rng=np.int64(3)).seed == 3


def test_a_comparison_and_a_fitted_test_know_their_seeds():
    X, Y = blob(60, rng=0)
    comparison = twosample.compare(X, {"a": Y}, "mmd-median", permutations=99)
    assert isinstance(comparison.seed, int)
    again = twosample.compare(X, {"a": Y}, "mmd-median", permutations=99, rng=comparison.seed)
    assert again.pvalues == comparison.pvalues
    assert again.seeds == comparison.seeds
    assert comparison.to_dict()["seed"] == comparison.seed
    fitted = twosample.mmd_median(permutations=19).fit(X, Y, rng=0)
    result = fitted.test(X, Y)
    assert fitted.test(X, Y, rng=result.seed).pvalue == result.pvalue


def _fact(page: str, name: str) -> str:
    """What the part "To repeat it" of a page says under a name."""
    found = re.search(rf"<dt>{name}</dt>\s*<dd[^>]*>(?:<code>)?([^<]*)", page)
    assert found is not None, name
    return found[1].strip()


def test_a_report_says_the_seed_though_nobody_gave_one(tmp_path):
    X, Y = blob(60, rng=0)
    result = twosample.two_sample_test(X, Y, "mmd-median", permutations=99)
    page = result.report(tmp_path / "page.html").read_text()
    assert _fact(page, "Seed") == str(result.seed)
    by_generator = twosample.two_sample_test(
        X, Y, "mmd-median", permutations=99, rng=np.random.default_rng(0)
    )
    page = by_generator.report(tmp_path / "page.html").read_text()
    assert "generator" in _fact(page, "Seed")


# Numbers


@pytest.mark.parametrize(("value", "error"), [(-1e-9, 1e-7), (-0.0, 0.0), (-0.4, 1.0)])
def test_no_value_is_minus_zero(value, error):
    assert f"{_rounded(value, error):.4g}" == "0"
