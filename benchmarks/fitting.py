"""Fit the cost of each factor of what was measured, by least squares."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["Model", "fit"]


@attrs.frozen
class Model:
    """A linear model.

    Attributes:
        costs: the cost of each factor, in seconds.
        errors: the standard error of each cost; 0 for a factor that costs nothing.
        r_squared: the part of the variance of the logarithms of the times that the model explains.
        worst: the largest difference between a fitted time and the measured one, relative to the measured one.
    """

    costs: dict[str, float]
    errors: dict[str, float]
    r_squared: float
    worst: float

    def predict(self, factors: Mapping[str, float]) -> float:
        """Return the time of what contains each factor so often, in seconds."""
        return sum(self.costs[name] * count for name, count in factors.items())


def fit(factors: Sequence[Mapping[str, float]], seconds: Sequence[float]) -> Model:
    """Return the model whose relative residuals have the least squares, and in which no cost is negative.

    A factor whose cost would be negative costs nothing, and the others are fitted again without it.

    Args:
        factors: how often each factor occurs in each of the things that were measured.
        seconds: how long each of them took.

    Example:
        >>> model = fit([{"start": 1, "row": 1}, {"start": 1, "row": 3}, {"start": 1, "row": 7}], [5, 9, 17])
        >>> {name: round(cost, 6) for name, cost in model.costs.items()}
        {'start': 3.0, 'row': 2.0}
    """
    names = list(factors[0])
    times = np.array(seconds, float)
    relative = np.array([[counts[name] for name in names] for counts in factors], float) / times[:, None]
    kept = list(range(len(names)))
    while True:
        sizes = np.linalg.norm(relative[:, kept], axis=0)  # costs differ by a factor of 10,000
        scaled = relative[:, kept] / sizes
        solved: NDArray[np.float64] = np.linalg.lstsq(scaled, np.ones(len(times)))[0]
        if (solved >= 0).all():
            break
        del kept[int(np.argmin(solved))]
    costs, errors = np.zeros(len(names)), np.zeros(len(names))
    costs[kept] = solved / sizes
    fitted = relative @ costs
    variance = np.sum((fitted - 1) ** 2) / max(1, len(times) - len(kept))
    errors[kept] = np.sqrt(variance * np.diag(np.linalg.pinv(scaled.T @ scaled))) / sizes
    logarithms = np.log(times)
    unexplained = np.sum(np.log(fitted) ** 2) / np.sum((logarithms - logarithms.mean()) ** 2)
    return Model(
        dict(zip(names, costs.tolist(), strict=True)),
        dict(zip(names, errors.tolist(), strict=True)),
        float(1 - unexplained),
        float(np.abs(fitted - 1).max()),
    )
