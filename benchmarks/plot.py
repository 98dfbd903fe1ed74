"""A plot on two logarithmic axes, as SVG that reads on light and dark pages."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 760, 460
LEFT, RIGHT, TOP, BOTTOM = 70, 130, 40, 60
COLOURS = ("#d9480f", "#1c7ed6", "#2b8a3e", "#862e9c", "#868e96")
STEPS = (1, 2, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    x: float
    y: float
    label: str


@dataclass(frozen=True, slots=True)
class _Axis:
    """From a value to a pixel; `start` and `end` are pixels of `low` and `high`."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def around(cls, values: Sequence[float], start: float, end: float) -> "_Axis":
        return cls(min(values) / 1.25, max(values) * 1.25, start, end)

    def at(self, value: float) -> float:
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self) -> list[float]:
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        every = [step * 10.0**power for power in powers for step in STEPS]
        return [each for each in every if self.low <= each <= self.high]


def log_log(lines: Mapping[str, Sequence[Point]], *, title: str, x_label: str, y_label: str) -> str:
    """`lines`: at least one point in all, every coordinate above 0."""
    points = [point for each in lines.values() for point in each]
    across = _Axis.around([point.x for point in points], LEFT, WIDTH - RIGHT)
    up = _Axis.around([point.y for point in points], HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12" role="img" aria-label="{escape(title)}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        _text(LEFT, 24, title, size=15),
    ]
    for tick in across.ticks():
        x = across.at(tick)
        parts.append(_grid_line(x, TOP, x, HEIGHT - BOTTOM))
        parts.append(_text(x, HEIGHT - BOTTOM + 18, _number(tick), anchor="middle"))
    for tick in up.ticks():
        y = up.at(tick)
        parts.append(_grid_line(LEFT, y, WIDTH - RIGHT, y))
        parts.append(_text(LEFT - 8, y + 4, _number(tick), anchor="end"))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 16, x_label, anchor="middle"))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(
        f'<text x="18" y="{middle}" text-anchor="middle" transform="rotate(-90 18 {middle})">'
        f"{escape(y_label)}</text>"
    )
    for number, (name, line) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        places = [(across.at(point.x), up.at(point.y)) for point in line]
        path = " ".join(f"{x},{y}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for (x, y), point in zip(places, line, strict=True):
            parts.append(f'<circle cx="{x}" cy="{y}" r="3.5" fill="{colour}"/>')
            parts.append(_text(x + 6, y - 6, point.label, colour=colour, size=10))
        legend = TOP + 14 + 20 * number
        parts.append(f'<circle cx="{WIDTH - RIGHT + 20}" cy="{legend - 4}" r="4" fill="{colour}"/>')
        parts.append(_text(WIDTH - RIGHT + 30, legend, name))
    return "\n".join((*parts, "</svg>")) + "\n"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _grid_line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#dee2e6"/>'


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", colour: str = "#212529", size: int = 12
) -> str:
    place = f'x="{x}" y="{y}" text-anchor="{anchor}"'
    return f'<text {place} fill="{colour}" font-size="{size}">{escape(text)}</text>'
