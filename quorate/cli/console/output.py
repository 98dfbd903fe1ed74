"""Tables and JSON on standard output."""

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


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
