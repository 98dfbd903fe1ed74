"""`python -m tests.traces 23_figure_8 --save figure-8.jsonl`: a golden trace, to be stepped through."""

from pathlib import Path
from typing import Annotated

import typer

from tests.simulator.retelling.retold_trace import retell_trace
from tests.simulator.retelling.teller import CannotRetell

FOLDER = Path(__file__).parent


def main(
    trace: Annotated[str, typer.Argument(help="Its name, as in tests/traces.")],
    save: Annotated[Path, typer.Option(help="Where to write the script.")],
    cluster: Annotated[int, typer.Option(help="Which of the trace's clusters.", min=1)] = 1,
) -> None:
    """Write a golden trace as a script for quorate raft play."""
    file = FOLDER / f"{trace}.txt"
    if not file.is_file():
        raise typer.BadParameter(f"there is no {trace}, only {', '.join(names())}")
    try:
        scripts = list(retell_trace(file.read_text("utf-8"), title=title_of(file)))
    except CannotRetell as error:
        raise typer.BadParameter(str(error)) from None
    if cluster > len(scripts):
        raise typer.BadParameter(f"{trace} has {len(scripts)} clusters")
    save.write_text(scripts[cluster - 1], "utf-8")
    typer.echo(f"Step through it: quorate raft play {save}")


def names() -> list[str]:
    """Return the names of all traces."""
    return sorted(each.stem for each in FOLDER.glob("*.txt"))


def title_of(file: Path) -> str:
    number, _, words = file.stem.partition("_")
    return f"Trace {int(number)}: {words.replace('_', ' ')}"


if __name__ == "__main__":
    typer.run(main)
