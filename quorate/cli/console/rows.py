"""The one style of tables. Nothing in them is ever cut.

On a terminal too narrow for a table its cells wrap, between words only. Where even that does not fit, because
of a long name, path or id, each row is told in lines of `column: value`.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

_GAP: Final = 2
_NUMBER: Final = re.compile(r"-?[0-9][0-9,]*(\.[0-9]+)?")
_UNKNOWN: Final = ("", "-", "?", "unknown", "none")


class Rows:
    """Rows of cells, for rich to print. None is an empty cell. Columns of numbers are aligned right."""

    def __init__(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
        *,
        title: str = "",
        folds: bool = False,
    ) -> None:
        """`folds`: what is longer than a line goes on in the next, for `rich.live`, which crops at the edge.
        Otherwise print with `crop=False`: the terminal wraps it, and it can be copied whole."""
        self._columns = columns
        self._rows = [["" if cell is None else str(cell) for cell in row] for row in rows]
        self._title = title
        self._folds = folds

    @property
    def needed(self) -> int:
        """The width in which no cell wraps."""
        lines = (max(map(cell_len, column)) for column in self._by_column())
        return max(cell_len(self._title), sum(lines) + self._gaps)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, self.needed).with_maximum(options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._title:
            yield Text(self._title, style="italic")
        widths = self._widths(options.max_width)
        if widths is None:
            yield from self._records()
            return
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        for name, width, cells in zip(self._columns, widths, self._by_column(), strict=True):
            right = _are_numbers(cells[1:])
            # Every word fits, so nothing folds. rich's default has an ellipsis in place of a trailing space,
            # where characters are two cells wide.
            table.add_column(Text(name), justify="right" if right else "left", width=width, overflow="fold")
        for row in self._rows:
            # A name may hold what rich takes for markup.
            table.add_row(*map(Text, row))
        yield table

    @property
    def _gaps(self) -> int:
        return _GAP * (len(self._columns) - 1)

    def _by_column(self) -> list[tuple[str, ...]]:
        """Return the cells of each column, its name first."""
        return list(zip(self._columns, *self._rows, strict=True))

    def _widths(self, available: int) -> list[int] | None:
        """Return widths in which no word is broken. None: there are none."""
        columns = self._by_column()
        widths = [
            max(cell_len(word) for cell in column for word in cell.split() or [""]) for column in columns
        ]
        left = available - sum(widths) - self._gaps
        if left < 0:
            return None
        wanted = [max(map(cell_len, column)) - width for column, width in zip(columns, widths, strict=True)]
        # Those that want little get it first, and what they leave goes to the others.
        for number, index in enumerate(sorted(range(len(widths)), key=wanted.__getitem__)):
            given = min(wanted[index], left // (len(widths) - number))
            widths[index] += given
            left -= given
        return widths

    def _records(self) -> Iterable[Text]:
        names = max(map(cell_len, self._columns)) + 1
        for number, row in enumerate(self._rows):
            if number:
                yield Text("")
            for name, cell in zip(self._columns, row, strict=True):
                if cell:
                    label = f"{name}:{' ' * (names - cell_len(name))}"
                    yield Text(
                        f"{label}{cell}",
                        no_wrap=not self._folds,
                        overflow="fold" if self._folds else "ignore",
                    )


def _are_numbers(cells: Sequence[str]) -> bool:
    known = [cell for cell in cells if cell not in _UNKNOWN]
    return bool(known) and all(_NUMBER.fullmatch(cell) for cell in known)
