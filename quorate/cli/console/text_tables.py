"""Tables on standard output."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


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
