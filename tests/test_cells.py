"""A column of numbers never becomes a category without a word."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

from twosample import Columns, InputError, as_samples, two_sample_test
from twosample._data.streams import Stream
from twosample._files.opening import ReadOptions, open_file

KINDS = ["csv", "tsv", "csv.gz", "jsonl", "parquet", "arrow"]


def ages(mean: float, seed: int) -> list[str]:
    return [str(int(age)) for age in np.random.default_rng(seed).normal(mean, 8, 300)]


def written(folder, name: str, kind: str, cells: list[str]) -> str:
    """The path of a file with these cells in its only column."""
    path = folder / f"{name}.{kind}"
    frame = pd.DataFrame({"age": cells})
    if kind == "jsonl":
        path.write_text("".join(json.dumps({"age": cell}) + "\n" for cell in cells))
    elif kind in ("parquet", "arrow"):
        table = pl.DataFrame({"age": cells})
        table.write_parquet(path) if kind == "parquet" else table.write_ipc(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
    return str(path)


def p_value(folder, kind: str, x: list[str], y: list[str], **options) -> float:
    read = ReadOptions(**options)
    paths = [written(folder, name, kind, cells) for name, cells in (("x", x), ("y", y))]
    X, Y = (open_file(path, read) for path in paths)
    result = two_sample_test(X, Y, "mmd-median", permutations=999, rng=0, columns=read.rules)
    return result.pvalue


def with_odd(cells: list[str], odd: str) -> list[str]:
    return [*cells[:5], odd, *cells[6:]]


@pytest.mark.parametrize("kind", KINDS)
def test_one_cell_that_is_no_number_is_named(tmp_path, kind):
    """It took the verdict from 0.009 to 0.076, silently."""
    x = with_odd(ages(40, 0), "?")
    y = with_odd(ages(41.5, 1), "?")
    where = {"parquet": "row 5", "arrow": "row 5", "jsonl": "line 6"}.get(kind, "line 7")
    message = rf"'age' holds numbers, but not in all cells: .*x\.{kind} has '\?' at {where}; "
    with pytest.raises(InputError, match=message) as error:
        p_value(tmp_path, kind, x, y)
    assert "--type age=category" in str(error.value)
    assert "--drop age" in str(error.value)


@pytest.mark.parametrize("missing", ["drop", "indicator"])
def test_it_is_no_missing_value_either(tmp_path, missing):
    """Nobody said so, and "1,5" among numbers would be lost."""
    x = with_odd(ages(40, 0), "?")
    with pytest.raises(InputError, match="holds numbers, but not in all cells"):
        p_value(tmp_path, "csv", x, x, rules=Columns(missing=missing))


def test_a_cell_in_a_row_that_is_left_out_is_named_too(tmp_path):
    cells = with_odd(ages(40, 0), "?")
    frame = pd.DataFrame({"age": cells, "height": 1.5})
    frame.loc[5, "height"] = np.nan
    with pytest.raises(InputError, match=r"X has '\?' at row 5; Y has '\?' at row 5"):
        as_samples(frame, frame, columns=Columns(missing="drop"))


@pytest.mark.parametrize("odd", ["?", "1,5", "$5", "5%", "5 kg", "1,234.5", "41\0", "ERROR", "-"])
def test_whatever_it_is(tmp_path, odd):
    x = with_odd(ages(40, 0), odd)
    y = with_odd(ages(41.5, 1), odd)
    with pytest.raises(InputError, match="holds numbers, but not in all cells") as error:
        p_value(tmp_path, "csv", x, y)
    assert repr(odd) in str(error.value)


@pytest.mark.parametrize(
    "form", ["{},500", "${}", "{} €", "{}%", "{} kg", "{}kg", "1,0{}", "1'0{}.5", "EUR {}", "{}\0"]
)
@pytest.mark.parametrize("rows", [24, 300])
def test_numbers_written_in_another_way_are_named(tmp_path, form, rows):
    x = [form.format(age) for age in ages(40, 0)[:rows]]
    y = [form.format(age) for age in ages(41.5, 1)[:rows]]
    with pytest.raises(InputError, match="holds numbers, but not as they are read here") as error:
        p_value(tmp_path, "csv", x, y)
    assert f"{x[0]!r} at line 2" in str(error.value)
    assert f"{rows} in all" in str(error.value)


@pytest.mark.parametrize(
    "levels",
    [
        ["A1", "B2", "C3"],
        ["10-20", "20-30", "30-40"],
        ["02139", "K1A", "K2B", "SW7"],
        ["1st", "2nd", "3rd", "4th"],
        ["1A", "1B", "2A", "2B"],
        ["2 doors", "4 doors"],
        ["0", "A", "B", "AB"],
        ["1.2.3", "1.2.4", "2.0.0"],
        ["10.0.0.1", "10.0.0.2", "10.0.0.3"],
        ["yes", "no"],
    ],
)
def test_honest_categories_stay_categories(tmp_path, levels):
    cells = levels * 20
    assert p_value(tmp_path, "csv", cells, cells) == 1.0


def test_codes_are_categories_and_numbers_as_text_are_not(tmp_path):
    codes = [f"0{number}139" for number in range(10)] * 5
    assert p_value(tmp_path, "parquet", codes, codes) == 1.0
    assert p_value(tmp_path, "parquet", ["1", "2", "3"] * 9, ["1", "2", "3"] * 9) == 1.0
    with pytest.raises(InputError, match="have numbers as text in column 'age'; read them as"):
        p_value(tmp_path, "parquet", ages(40, 0), ages(41, 1))


def test_dates_but_for_a_cell(tmp_path):
    cells = ["2024-01-01", "2024-01-02", "2024-01-03"] * 9
    with pytest.raises(InputError, match=r"holds dates, but not in all cells: .* at line 7"):
        p_value(tmp_path, "csv", with_odd(cells, "?"), with_odd(cells, "?"))


def test_the_user_decides(tmp_path):
    x = with_odd(ages(40, 0), "?")
    asked = Columns(kinds={"age": "category"})
    assert 0 < p_value(tmp_path, "csv", x, x, rules=asked) <= 1
    names = [f"id{number}" for number in range(24)]
    assert 0 < p_value(tmp_path, "csv", names, names, rules=asked) <= 1


def test_what_the_data_call_a_category_is_one():
    cells = pd.Series(["1", "2", "3", "?"] * 9, dtype="category")
    frame = pd.DataFrame({"age": cells})
    assert as_samples(frame, frame).schema.columns[0].kind == "category"
    batches = [frame[:20], frame[20:]]
    result = two_sample_test(Stream.batches(iter(batches)), frame, "mmd-median", rng=0)
    assert result.fitted.schema.columns[0].kind == "category"


def test_one_file_of_numbers_and_one_of_nearly_only_numbers(tmp_path):
    x, y = ages(40, 0), with_odd(with_odd(ages(41, 1), "?"), "1,5")
    message = (
        r"x.csv has numbers in column 'age' but .*y.csv has strings or categories; convert both "
        r"the same way; the cells that are no numbers: '1,5' at line 7\."
    )
    with pytest.raises(InputError, match=message):
        p_value(tmp_path, "csv", x, y)


def test_a_fitted_test_names_the_cells():
    frame = pd.DataFrame({"age": np.arange(40.0)})
    later = pd.DataFrame({"age": with_odd(ages(40, 0), "?")})
    fitted = two_sample_test(frame, frame, "mmd-median", rng=0).fitted
    with pytest.raises(InputError, match=r"takes numbers; the cells that are no numbers: '\?' at"):
        fitted.test(later, later)


def test_cells_of_all_batches_count():
    """No batch alone is at fault: the first has only numbers."""
    frame = pd.DataFrame({"age": with_odd(ages(40, 0)[::-1], "x")[::-1]})
    batches = [frame[start : start + 50] for start in range(0, 300, 50)]
    with pytest.raises(InputError, match=r"X has 'x' at row 294; Y has 'x' at row 294"):
        two_sample_test(Stream.batches(batches), Stream.batches(iter(batches)), "mmd-median", rng=0)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_level_for_every_row_tells_nothing(tmp_path, kind):
    x = [f"id{number}" for number in range(24)]
    y = [f"id{number}" for number in range(20, 44)]
    with pytest.raises(InputError, match=r"'age' .44 different values in 48 cells") as it:
        p_value(tmp_path, kind, x, y)
    for remedy in ("--type age=number", "--type age=category"):
        assert remedy in str(it.value)
