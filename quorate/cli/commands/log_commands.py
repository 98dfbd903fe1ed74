"""`quorate log`: the content of a log file, and the way past a batch in it."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from quorate.cli.commands.batches import batches_of, damage_reported, map_file, print_batch
from quorate.cli.commands.options import JsonLinesOption, JsonOption, RecordsOption
from quorate.cli.console.cli_errors import user_errors, wrong_usage
from quorate.cli.console.output import print_json

app = typer.Typer(
    no_args_is_help=True,
    help="Log files.",
    epilog="Example: quorate log dump 00000000000000000000.log --json",
)


@app.command(epilog="Example: quorate log dump data/1/__cluster_metadata-0/00000000000000000000.log --json")
def dump(
    file: Annotated[Path, typer.Argument(help="A .log file.", exists=True, dir_okay=False)],
    as_json: JsonLinesOption = False,
    records: RecordsOption = True,
) -> None:
    """Print the batches of a log file and their records. Decodes the records of the metadata log.

    The node may be running. The end of its file may then be incomplete.
    """
    if file.suffix != ".log":
        raise wrong_usage(f"{file} is no .log file; give a segment, such as {'0' * 20}.log")
    metadata = file.resolve().parent.name.startswith("__cluster_metadata")
    with user_errors(), damage_reported(file, "the rest is damaged, or was being written"):
        for batch in batches_of(map_file(file)):
            print_batch(batch, metadata=metadata, as_json=as_json, with_records=records)


@app.command(epilog="Example: quorate log skip ./quorate-data/1/data --offset 17 --epoch 3")
def skip(
    folder: Annotated[
        Path,
        typer.Argument(
            help="The folder of a stopped node, with meta.properties.", exists=True, file_okay=False
        ),
    ],
    offset: Annotated[int, typer.Option("--offset", min=0, help="The offset of the batch's first record.")],
    epoch: Annotated[
        int, typer.Option("--epoch", min=0, help="The epoch of the leader that appended the batch.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Make a stopped node skip a committed batch that its state machine can't apply. Its records are lost.

    Use it only if every node stops at the same batch and no version of the program can apply it. Stop all
    nodes and run it on each. If one node applies the batch and another skips it, their states differ from
    then on. Refuses an offset and epoch that name no batch, and a node that has applied the batch.
    """
    with user_errors():
        import trio

        from quorate.raft.storage.skipping import skip_batch
        from quorate.runtime.real import SyncStrategy, real_runtime
        from quorate.types import Epoch, Offset

        runtime = real_runtime(sync=SyncStrategy.INLINE)
        skipped = trio.run(
            partial(skip_batch, runtime, str(folder), offset=Offset(offset), epoch=Epoch(epoch))
        )
    if as_json:
        print_json([{"offset": each.offset, "epoch": each.epoch} for each in skipped])
        return
    listed = ", ".join(f"offset {each.offset} of epoch {each.epoch}" for each in skipped)
    typer.echo(f"{folder} leaves out: {listed}. Give every other node of the cluster the same skip")
