"""An axis of a chart: from where to where, on which scale, with which numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

#: Steps between numbers that people count in.
_STEPS = (1.0, 2.0, 5.0, 10.0)
#: On a logarithmic axis of at most so many decades, three times a power of ten has a number too.
_FEW_DECADES = 3
#: How much of an axis that goes logarithmically from its threshold lies below it, in decades.
_BELOW_THRESHOLD = 0.5 / 0.9


@dataclass
class Axis:
    """Where values lie, and which of them are written.

    Attributes
    ----------
    label : str
    low, high : float or None
        Its ends; None: as the shown values ask for. A `low` above `high` turns it round.
    scale : {"linear", "log", "symlog"}
        ``"symlog"`` is linear from zero to `threshold` and logarithmic from there.
    threshold : float
    margin : float
        Beyond the values, as a share of what they span.
    most : int
        Steps between the written numbers.
    whole : bool
        Whether only whole numbers are written.
    text : function, optional
        How a number is written.
    names : tuple of (str, str)
        Written at 0, 1, 2, … instead of numbers, each with its colour.
    grid : bool
    bare : bool
        Whether nothing is written.
    values : list of float
        Which must be seen.
    """

    label: str = ""
    low: float | None = None
    high: float | None = None
    scale: Literal["linear", "log", "symlog"] = "linear"
    threshold: float = 1.0
    margin: float = 0.05
    most: int = 9
    whole: bool = False
    text: Callable[[float], str] | None = None
    names: tuple[tuple[str, str], ...] = ()
    grid: bool = False
    bare: bool = False
    values: list[float] = field(default_factory=list)

    def show(self, *values: float) -> None:
        """Make room for values."""
        self.values += values

    @property
    def ends(self) -> tuple[float, float]:
        """Its first and its last value."""
        if self.low is not None and self.high is not None:
            return self.low, self.high
        seen = [v for v in self.values if math.isfinite(v) and (v > 0.0 or self.scale != "log")]
        least, most = (self._at(f(seen)) if seen else 0.0 for f in (min, max))
        if self.low is not None:
            least = self._at(self.low)
        room = self.margin * (most - least)
        if not most - least > 1e-9 * max(abs(least), abs(most)):  # of one value: around it
            room = 0.05 * abs(most) or 0.5
        low = least if self.low is not None else least - room
        return self._value(low), self._value(most + room)

    def placing(self) -> Callable[[float], float]:
        """A function that says where a value lies: 0 at the first end, 1 at the last."""
        first, last = map(self._at, self.ends)
        return lambda value: (self._at(value) - first) / (last - first)

    def ticks(self) -> list[tuple[float, str]]:
        """The values that are written, and how."""
        if self.bare:
            return []
        if self.names:
            return [(float(i), name) for i, (name, _) in enumerate(self.names)]
        low, high = self.ends
        if self.scale != "linear":
            return [(value, self._written(value, "{:g}")) for value in self._decades(low, high)]
        step = _step((high - low) / self.most)
        if math.floor(high / step) * step < low:  # none of its multiples is seen
            step = _step(0.4 * step)  # the next smaller one
        if self.whole:
            step = max(step, 1.0)
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        plain = "{:.3g}" if high - low > 1e7 or digits > 6 else f"{{:.{digits}f}}"
        values = [index * step for index in range(first, last + 1)]
        return [(value, self._written(value, plain)) for value in values]

    def _written(self, value: float, plain: str) -> str:
        """A number with a minus sign, not a hyphen."""
        text = self.text(value) if self.text is not None else plain.format(value)
        return text.replace("-", "\N{MINUS SIGN}")

    def _decades(self, low: float, high: float) -> list[float]:
        """Zero, if it is there, powers of ten, and three times those if there are few."""
        start = math.floor(math.log10(max(low, self.threshold) if self.scale == "symlog" else low))
        end = math.floor(math.log10(high))
        every = math.ceil((end - start + 1) / self.most)
        times = (1.0, 3.0) if self.scale == "log" and end - start <= _FEW_DECADES else (1.0,)
        found = [m * 10.0**k for k in range(start, end + 1, every) for m in times]
        zero = [0.0] if low <= 0.0 else []
        return zero + [v for v in found if low * (1.0 - 1e-9) <= v <= high * (1.0 + 1e-9)]

    def _at(self, value: float) -> float:
        """A value on the axis's scale."""
        if self.scale == "log":
            return math.log10(value)
        if self.scale == "symlog" and value > self.threshold:
            return _BELOW_THRESHOLD + math.log10(value / self.threshold)
        return value * _BELOW_THRESHOLD / self.threshold if self.scale == "symlog" else value

    def _value(self, at: float) -> float:
        """The value that lies there."""
        if self.scale == "log":
            return math.pow(10.0, at)
        if self.scale == "symlog" and at > _BELOW_THRESHOLD:
            return self.threshold * math.pow(10.0, at - _BELOW_THRESHOLD)
        return at * self.threshold / _BELOW_THRESHOLD if self.scale == "symlog" else at


def _step(least: float) -> float:
    """The smallest step that people count in and that is not below `least`."""
    power = math.pow(10.0, math.floor(math.log10(least)))
    return next(step * power for step in _STEPS if step * power >= least * (1.0 - 1e-9))
