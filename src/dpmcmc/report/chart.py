"""Small charts in SVG whose colours follow the page's style: light, dark or on paper.

A chart is 340 units wide, about what a phone shows, so that its letters can be read there; wide screens set several
side by side. What is drawn can also be read out: every chart has a title and a sentence that says what it shows, and
the values under the pointer come from the numbers that it carries.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from markupsafe import Markup, escape
from matplotlib.ticker import MaxNLocator

WIDTH, HEIGHT = 340, 190
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 28, 44
LETTER, MOST_LETTERS = 6.4, 14
"""Units of a letter below the axis, and letters of a name that stand there."""


@dataclass
class Chart:
    """One chart: its ranges, how its axes are called, and what was drawn on it so far. An axis may have no name.

    `x_names` gives the places 0, 1, ... of the horizontal axis names in place of numbers.
    """

    x_range: tuple[float, float]
    y_range: tuple[float, float]
    x_label: str
    y_label: str
    log_y: bool = False
    y_ticks: bool = True
    x_names: Sequence[str] = ()
    height: int = HEIGHT
    parts: list[str] = field(default_factory=list[str])
    readings: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def left(self) -> int:
        """Where the axis begins: further out if no numbers stand beside it."""
        return LEFT if self.y_ticks else RIGHT

    @property
    def top(self) -> int:
        """Where the drawing begins: below the name of the vertical axis, if it has one."""
        return TOP if self.y_label else 6

    @property
    def floor(self) -> int:
        """Where the drawing ends: above the numbers and the name of the horizontal axis, if it has one."""
        return self.height - (BOTTOM if self.x_label else BOTTOM - 20)

    @property
    def aslant(self) -> int:
        """How far names of places reach below the others' line where they have no room side by side."""
        widest = LETTER * max((min(len(name), MOST_LETTERS) for name in self.x_names), default=0)
        has_room = widest <= (WIDTH - self.left - RIGHT) / max(len(self.x_names), 1)
        return 0 if has_room else round(widest * math.sqrt(0.5))

    def x(self, value: Any) -> Any:
        """Return where a value lies from the left."""
        low, high = self.x_range
        return self.left + (np.asarray(value, float) - low) / (high - low or 1.0) * (WIDTH - self.left - RIGHT)

    def y(self, value: Any) -> Any:
        """Return where a value lies from the top."""
        low, high = np.log10(self.y_range) if self.log_y else self.y_range
        with np.errstate(divide="ignore"):
            value = np.log10(value) if self.log_y else np.asarray(value, float)
        share = np.clip((value - low) / (high - low or 1.0), -0.02, 1.0)
        return self.top + (1 - share) * (self.floor - self.top)

    def line(self, x: Any, y: Any, style: str) -> None:
        """Draw a line."""
        self.parts.append(f'<polyline class="{style}" points="{self._points(x, y)}"/>')

    def area(self, x: Any, low: Any, high: Any, style: str) -> None:
        """Fill between two lines."""
        there, back = self._points(x, high), self._points(np.asarray(x)[::-1], np.asarray(low)[::-1])
        self.parts.append(f'<polygon class="{style}" points="{there} {back}"/>')

    def bar(self, x: tuple[float, float], y: tuple[float, float], style: str, words: str = "") -> None:
        """Fill a rectangle, wide enough to be seen."""
        left, right = self.x(x)
        bottom, top = self.y(y)
        width = max(right - left, 4.0)
        self.parts.append(
            f'<rect class="{style}" x="{(left + right - width) / 2:.1f}" y="{top:.1f}" width="{width:.1f}" '
            f'height="{bottom - top:.1f}" rx="2">{_hint(words)}</rect>'
        )

    def whisker(self, x: float, low: float, high: float, style: str, words: str = "") -> None:
        """Draw a vertical line between two values."""
        at, (bottom, top) = self.x(x), self.y((low, high))
        self.parts.append(
            f'<line class="{style}" x1="{at:.1f}" x2="{at:.1f}" y1="{bottom:.1f}" y2="{top:.1f}">{_hint(words)}</line>'
        )

    def rule(self, x: float, style: str, words: str = "") -> None:
        """Draw a vertical line over the whole height."""
        self.whisker(x, *self.y_range, style, words)

    def dot(self, x: float, y: float, style: str, words: str = "") -> None:
        """Draw a point."""
        self.parts.append(
            f'<circle class="{style}" cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="4">{_hint(words)}</circle>'
        )

    def read(self, x: Any, label: str, **lines: Any) -> None:
        """Let the values of some lines be read off under the pointer."""
        self.readings = {
            "label": label,
            "span": [self.top, self.floor],
            "x": [float(f"{value:.5g}") for value in np.asarray(x, float)],
            "at": [round(float(at), 1) for at in self.x(x)],
            "lines": {
                name: [float(f"{value:.4g}") for value in np.asarray(values, float)] for name, values in lines.items()
            },
        }

    def svg(self, title: str, sentence: str) -> Markup:
        """Return the chart, with its title and what it shows in words."""
        readings = f" data-readings='{escape(json.dumps(self.readings))}'" if self.readings else ""
        label, height = escape(f"{title}. {sentence}"), self.height + self.aslant
        return Markup(  # noqa: S704  # every text in it is escaped, and the rest are numbers and our own names
            f'<svg class="chart" role="img" aria-label="{label}" viewBox="0 0 {WIDTH} {height}"{readings}>'
            f"{''.join(self._axes())}{''.join(self.parts)}</svg>"
        )

    def _points(self, x: Any, y: Any) -> str:
        return " ".join(f"{left:.1f},{top:.1f}" for left, top in zip(self.x(x), self.y(y), strict=True))

    def _axes(self) -> list[str]:
        floor, left, right = self.floor, self.left, WIDTH - RIGHT
        drawn = [f'<line class="axis" x1="{left}" x2="{right}" y1="{floor}" y2="{floor}"/>']
        places = list(enumerate(self.x_names)) or [(tick, written(tick)) for tick in ticks(self.x_range, 5)]
        for place, name in places:
            drawn.append(_text(float(self.x(place)), floor + 17, shortened(name, MOST_LETTERS), aslant=self.aslant > 0))
        marks = _powers(self.y_range) if self.log_y else ticks(self.y_range, 4)
        for tick in marks if self.y_ticks else ():
            top = float(self.y(tick))
            drawn.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{top:.1f}" y2="{top:.1f}"/>')
            drawn.append(_text(left - 6, top + 5, _power(tick) if self.log_y else written(tick), anchor="end"))
        drawn.append(_text((left + right) / 2, self.height + self.aslant - 6, self.x_label, style="label"))
        drawn.append(_text(left if not self.y_ticks else 4, 14, self.y_label, anchor="start", style="label"))
        return drawn


def ticks(limits: tuple[float, float], most: int) -> list[float]:
    """Return round numbers between two limits."""
    low, high = limits
    found = MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    slack = 1e-9 * (high - low)
    return [float(tick) for tick in found if low - slack <= tick <= high + slack]


def _powers(limits: tuple[float, float]) -> list[float]:
    low, high = (int(np.floor(np.log10(limit))) for limit in limits)
    step = max(1, (high - low) // 4)
    return [10.0**power for power in range(high, low, -step)]


def _power(value: float) -> str:
    """Write a power of ten."""
    power = str(round(np.log10(value)))
    return f"10{power.translate(str.maketrans('-0123456789', '⁻⁰¹²³⁴⁵⁶⁷⁸⁹'))}" if value != 1 else "1"


def written(value: float) -> str:
    """Write a number beside an axis."""
    return f"{value:.4g}".replace("-", "−").replace("e−0", "e−") if value else "0"


def shortened(name: str, most: int) -> str:
    """Return a name without its middle if it is too long: levels of one column differ at their end."""
    half = most // 2
    return name if len(name) <= most else f"{name[: half - 1]}…{name[-half:]}"


def _text(x: float, y: float, words: str, anchor: str = "middle", style: str = "tick", aslant: bool = False) -> str:
    turned = f' transform="rotate(-45 {x:.1f} {y:.1f})"' if aslant else ""
    anchor = "end" if aslant else anchor
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{turned}>{escape(words)}</text>'


def _hint(words: str) -> str:
    return f"<title>{escape(words)}</title>" if words else ""
