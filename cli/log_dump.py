"""`quorate log`: what is in a log file."""

from pathlib import Path
from typing import Annotated

import typer

from quorate.cli.batches import batches_of, map_file, print_batch
from quorate.cli.errors import ExitCode, fail, user_errors

app = typer.Typer(
    no_args_is_help=True,
    help="Log files.",
    epilog="Example: quorate log dump 00000000000000000000.log --json",
)


@app.callback()
def log() -> None:
    """Log files."""


@app.command(epilog="Example: quorate log dump data/1/__cluster_metadata-0/00000000000000000000.log --json")
def dump(
    file: Annotated[Path, typer.Argument(help="A .log file.", exists=True, dir_okay=False)],
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON per batch.")] = False,
    records: Annotated[bool, typer.Option("--records/--no-records", help="Decode records too.")] = True,
) -> None:
    """Print the batches of a log file and their records; those of the metadata log are decoded.

    Reads a file of a running node too: what it has just written may be cut off at the end.
    """
    if file.suffix != ".log":
        raise fail(f"{file} is no .log file; give a segment, such as {'0' * 20}.log", ExitCode.USAGE)
    metadata = file.resolve().parent.name.startswith("__cluster_metadata")
    with user_errors():
        from quorate.log.errors import InvalidBatchError

        try:
            for batch in batches_of(map_file(file)):
                print_batch(batch, metadata=metadata, as_json=as_json, with_records=records)
        except InvalidBatchError as error:
            raise fail(
                f"{file}: {error}. What comes before is whole; the rest is damaged, or was being written",
                ExitCode.STORAGE,
            ) from None
