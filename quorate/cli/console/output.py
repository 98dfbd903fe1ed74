"""Tables and JSON on standard output."""

import datetime
import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from quorate.cli.console.rows import Rows


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
    from quorate.cli.console.rows import Rows

    print_table(Rows(columns, rows))


def print_table(table: "Rows", console: "Console | None" = None) -> None:
    """Print in the width of the terminal; in a pipe or a file as wide as the table needs."""
    if console is None:
        from rich.console import Console

        console = Console()
    if not console.is_terminal:
        console.width = max(console.width, table.needed)
    console.print(table, crop=False)
