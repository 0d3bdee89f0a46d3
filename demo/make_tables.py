"""Write the tables of this folder, always the same ones: `python demo/make_tables.py`.

blob_p, blob_q      Blob-D of Liu et al. (2020): nine Gaussian modes on a grid; in Q each mode
                    leans its own way.
orders_*_month      A shop's orders, in columns whose scales differ by five orders of magnitude.
                    Each column by itself looks nearly the same in both months. What changed: the
                    dear orders used to be the heavy ones and no longer are, and the countries
                    shifted a little.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parent
BLOB_ROWS = 720  # 80 a mode; a test with a split has 40 of them, a setting of the paper
ROWS = 600
COUNTRIES = ["DE", "FR", "NL", "PL", "SE"]


def blob(rng: np.random.Generator, *, leaning: bool) -> NDArray[np.float64]:
    """Draw nine modes with covariance 0.03 I, or [[0.03, d], [d, 0.03]] with d of each mode."""
    lean = np.array([-0.020, -0.022, -0.024, -0.026, 0.0, 0.020, 0.022, 0.024, 0.026])
    modes = rng.integers(9, size=BLOB_ROWS)
    correlation = (lean[modes] if leaning else np.zeros(BLOB_ROWS)) / 0.03
    u, v = rng.normal(size=(2, BLOB_ROWS))
    leaning_v = correlation * u + np.sqrt(1 - correlation**2) * v  # of variance 1, like u
    offsets = np.sqrt(0.03) * np.stack([u, leaning_v], axis=1)
    centres = np.stack([modes // 3, modes % 3], axis=1)
    return centres + offsets


def orders(
    rng: np.random.Generator, *, correlation: float, countries: list[float]
) -> list[list[object]]:
    """Draw orders whose log price and log weight correlate as given.

    Each of the two by itself keeps its distribution.
    """
    u, v = rng.normal(size=(2, ROWS))
    price = np.exp(9.2 + 0.6 * u)
    heaviness = correlation * u + np.sqrt(1 - correlation**2) * v
    weight = np.exp(-0.7 + 0.5 * heaviness)
    evening = rng.random(ROWS) < 0.6
    late = rng.normal(19.5, 2.0, ROWS)
    early = rng.normal(11.0, 2.5, ROWS)
    hour = np.where(evening, late, early).clip(0, 23.9).astype(int)
    country = rng.choice(COUNTRIES, size=ROWS, p=countries)
    returning = rng.random(ROWS) < 0.35
    lead_time = rng.gamma(4.0, 30_000.0, ROWS)
    return [
        [
            round(price[i]),
            f"{weight[i]:.3f}",
            hour[i],
            country[i],
            str(returning[i]).lower(),
            round(lead_time[i]),
        ]
        for i in range(ROWS)
    ]


def write(name: str, header: list[str], rows: list[list[object]]) -> None:
    """Write one table."""
    with (HERE / name).open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def main() -> None:
    """Write all four."""
    rng = np.random.default_rng(2020)
    for name, leaning in (("blob_p.csv", False), ("blob_q.csv", True)):
        points = blob(rng, leaning=leaning)
        write(name, ["x", "y"], [[f"{x:.4f}", f"{y:.4f}"] for x, y in points])
    header = [
        "price_cents",
        "weight_kg",
        "hour",
        "country",
        "returning_customer",
        "lead_time_seconds",
    ]
    last = orders(rng, correlation=0.75, countries=[0.42, 0.22, 0.16, 0.12, 0.08])
    this = orders(rng, correlation=0.0, countries=[0.38, 0.23, 0.17, 0.13, 0.09])
    write("orders_last_month.csv", header, last)
    write("orders_this_month.csv", header, this)


if __name__ == "__main__":
    main()
