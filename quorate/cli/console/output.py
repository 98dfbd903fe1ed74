"""Tables and JSON on standard output."""

import datetime
import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


def time_text(timestamp_ms: int, show: Callable[[datetime.datetime], str]) -> str:
    """Return a time of this machine's clock as `show` writes it. A damaged or hostile file may have one that
    no calendar has, which is shown in ms."""
    try:
        return show(datetime.datetime.fromtimestamp(timestamp_ms / 1000))
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"


def print_json(value: object) -> None:
    """Print a line of JSON, for programs."""
    print(json.dumps(value), flush=True)


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table for people. None is an empty cell."""
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns)
    for row in rows:
        # A name may hold what rich takes for markup.
        table.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
    print_table(table)


def print_table(table: "Table") -> None:
    """Print as wide as the terminal; in a pipe or a file as wide as the table needs, so that nothing is
    cut."""
    from rich.console import Console
    from rich.measure import Measurement

    console = Console()
    if not console.is_terminal:
        needed = Measurement.get(console, console.options.update(max_width=10_000), table).maximum
        console.width = max(console.width, needed)
    console.print(table)
