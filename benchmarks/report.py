"""What a suite found: tables for people, JSON for programs."""

import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

WIDTH = 150
LABELS = {"pysyncobj": "pysyncobj, never syncs"}
ALIGNED_LEFT = ("measure", "aim", "met", "by")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One figure of each system. `values` has None where a system can't do it."""

    name: str
    unit: str
    values: dict[str, float | None]
    aim: str = ""
    met: bool | None = None
    """None where there is no aim, or nothing to compare with."""

    @property
    def ratio(self) -> float | None:
        """quorate's figure over etcd's."""
        ours, theirs = self.values.get("quorate"), self.values.get("etcd")
        return None if ours is None or not theirs else ours / theirs


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table of figures of quorate alone."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    title: str
    systems: Sequence[str]
    measures: list[Measure] = field(default_factory=list)
    grids: list[Grid] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    rounds: list[dict[str, object]] = field(default_factory=list)
    """Every single figure, before medians were taken."""

    def _rows(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        systems = (LABELS.get(system, system) for system in self.systems)
        columns = ("measure", "unit", *systems, "quorate/etcd", "aim", "met")
        used = [
            number
            for number, column in enumerate(columns)
            if (column != "quorate/etcd" or any(each.ratio is not None for each in self.measures))
            and (column not in ("aim", "met") or any(each.aim for each in self.measures))
        ]
        rows = [
            (
                each.name,
                each.unit,
                *(number(each.values.get(system)) for system in self.systems),
                "" if each.ratio is None else f"{each.ratio:.2f}",
                each.aim,
                "" if not each.aim else {True: "met", False: "missed", None: "-"}[each.met],
            )
            for each in self.measures
        ]
        return tuple(columns[n] for n in used), [tuple(row[n] for n in used) for row in rows]

    def show(self) -> None:
        console = Console(width=WIDTH)
        grids = list(self.grids)
        if self.measures:
            columns, rows = self._rows()
            grids.insert(0, Grid(title=f"{self.title} ({machine()})", columns=columns, rows=rows))
        for grid in grids:
            table = Table(title=grid.title, title_justify="left")
            for column in grid.columns:
                table.add_column(column, justify="left" if column in ALIGNED_LEFT else "right")
            for row in grid.rows:
                table.add_row(*row)
            console.print(table)
        for note in self.notes:
            console.print(note)

    def markdown(self) -> str:
        parts = [machine()]
        if self.measures:
            parts.append(_markdown(*self._rows()))
        for grid in self.grids:
            parts.append(f"{grid.title}\n\n{_markdown(grid.columns, grid.rows)}")
        return "\n\n".join((*parts, *self.notes)) + "\n"

    def write(self, file: Path) -> None:
        """`file` gets JSON; the tables as Markdown go beside it."""
        file.parent.mkdir(parents=True, exist_ok=True)
        measures = [{**asdict(each), "ratio": each.ratio} for each in self.measures]
        content = {
            "title": self.title,
            "machine": machine(),
            "measures": measures,
            "grids": [asdict(grid) for grid in self.grids],
            "notes": self.notes,
            "rounds": self.rounds,
        }
        file.write_text(json.dumps(content, indent=2) + "\n")
        file.with_suffix(".md").write_text(self.markdown())


def number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def median_or_none(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def machine() -> str:
    return (
        f"{os.cpu_count()} CPUs, {platform.machine()}, Linux {platform.release()}, "
        f"Python {platform.python_version()} of {sys.base_prefix}"
    )


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---" if column in ALIGNED_LEFT else "---:" for column in columns], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
