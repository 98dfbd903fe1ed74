"""`quorate snapshot`: the snapshots in a node's folder."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.cli.commands.batches import batches_of, damage_reported, map_file, print_batch
from quorate.cli.commands.options import (
    BrokersOption,
    ControllersOption,
    JsonLinesOption,
    JsonOption,
    RecordsOption,
    TimeoutOption,
)
from quorate.cli.console.cli_errors import CommandError, ExitCode, fail, user_errors
from quorate.cli.console.connections import ask_quorum
from quorate.cli.console.output import print_json, print_rows, time_text

if TYPE_CHECKING:
    from quorate.broker.admin.controllers import Controllers
    from quorate.log.batches.batch import Batch
    from quorate.log.snapshots.snapshot_file import SnapshotContents
    from quorate.types import NodeId, SnapshotId

_METADATA = "__cluster_metadata-0"

app = typer.Typer(
    no_args_is_help=True,
    help="Snapshots of the metadata log.",
    epilog="Example: quorate snapshot list ./quorate-data/1/data",
)


@app.command(epilog="Example: quorate snapshot take -b localhost:9092")
def take(
    node: Annotated[
        int | None,
        typer.Option("--node", "-n", min=0, help="The voter that takes the snapshot. Default: the leader."),
    ] = None,
    brokers: BrokersOption = None,
    controllers: ControllersOption = None,
    timeout_ms: TimeoutOption = 60_000,
    as_json: JsonOption = False,
) -> None:
    """Make a running node take a snapshot of its applied state. Returns when it is durable.

    Nodes take snapshots by themselves. This one shortens the node's next start. If the latest snapshot
    already has all applied records, there is no new one. It uses the controller listeners, also with
    --bootstrap-server.
    """

    async def at_controllers(found: "Controllers") -> "tuple[NodeId, SnapshotId]":
        from quorate.types import NodeId

        return await found.take_snapshot(None if node is None else NodeId(node))

    asked, snapshot = ask_quorum(brokers, controllers, timeout_ms=timeout_ms, at_controllers=at_controllers)
    if as_json:
        print_json({"nodeId": asked, "endOffset": snapshot.end_offset, "epoch": snapshot.epoch})
        return
    from quorate.log.snapshots.snapshot_file import name_of

    typer.echo(f"node {asked} has {name_of(snapshot)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A snapshot file. Exactly one of `contents` and `problem` is set."""

    snapshot: "SnapshotId"
    file: Path
    contents: "SnapshotContents | None"
    problem: str | None

    def as_dict(self) -> dict[str, object]:
        contents = self.contents
        voters = None if contents is None else contents.voters
        return {
            "file": self.file.name,
            "endOffset": self.snapshot.end_offset,
            "epoch": self.snapshot.epoch,
            "size": self.file.stat().st_size,
            "lastTimestamp": None if contents is None else contents.last_timestamp_ms,
            "voters": None if voters is None else [voter.key.id for voter in voters],
            "problem": self.problem,
        }


@app.command(name="list", epilog="Example: quorate snapshot list ./quorate-data/1/data --json")
def list_snapshots(
    folder: Annotated[
        Path, typer.Argument(help=f"A node's folder, or the {_METADATA} in it.", exists=True, file_okay=False)
    ],
    as_json: JsonOption = False,
) -> None:
    """List the snapshots in a folder, oldest first, and check every byte of them.

    The node may be running. The exit code is 4 if one is damaged.
    """
    with user_errors():
        found = _survey(folder)
    if as_json:
        print_json([each.as_dict() for each in found])
    else:
        _print_found(found)
    for each in found:
        if each.problem is not None:
            raise fail(
                f"{each.file} is damaged: {each.problem}. The node can do without it where an older snapshot "
                "and the log after that are whole; it says so when it starts",
                ExitCode.STORAGE,
            )


def _survey(folder: Path) -> list[_Found]:
    """Read every byte of the snapshots in a folder."""
    from quorate.log import DamagedSnapshotError
    from quorate.log.snapshots.snapshot_file import SnapshotReader, parse_name
    from quorate.runtime.real import open_read_only

    home = folder if folder.resolve().name == _METADATA else folder / _METADATA
    if not home.is_dir():
        raise CommandError(
            f"{folder} holds no {_METADATA}; give the folder that log.dirs or metadata.log.dir names",
            ExitCode.STORAGE,
        )
    found = []
    for file in sorted(home.iterdir()):
        snapshot = parse_name(file.name)
        if snapshot is None:
            continue
        contents: SnapshotContents | None = None
        problem: str | None = None
        try:
            with SnapshotReader(open_read_only(str(file)), snapshot) as reader:
                for _ in reader:
                    pass
                contents = reader.contents
        except DamagedSnapshotError as error:
            problem = f"at byte {error.position}, {error.problem}"
        except FileNotFoundError:
            continue  # The node has deleted it since.
        found.append(_Found(snapshot=snapshot, file=file, contents=contents, problem=problem))
    return found


def _print_found(found: list[_Found]) -> None:
    print_rows(
        ("end offset", "epoch", "bytes", "last record", "voters", "state"),
        [
            (
                each.snapshot.end_offset,
                each.snapshot.epoch,
                each.file.stat().st_size,
                _last_record(each.contents),
                "-"
                if each.contents is None or each.contents.voters is None
                else ",".join(str(voter.key.id) for voter in each.contents.voters),
                "whole" if each.problem is None else "damaged",
            )
            for each in found
        ],
    )


def _last_record(contents: "SnapshotContents | None") -> str:
    if contents is None or not contents.last_timestamp_ms:
        return "-"
    return time_text(contents.last_timestamp_ms, lambda at: at.isoformat(" ", "seconds"))


@app.command(
    epilog="Example: quorate snapshot dump "
    "data/1/__cluster_metadata-0/00000000000000001024-0000000003.checkpoint --json"
)
def dump(
    file: Annotated[Path, typer.Argument(help="A .checkpoint file.", exists=True, dir_okay=False)],
    as_json: JsonLinesOption = False,
    records: RecordsOption = True,
) -> None:
    """Print the batches of a snapshot and the records in them, as `quorate log dump` does of a log.

    Offsets count from 0 in the file. State that is not metadata, of a service with a quorum of its own, is
    shown in hexadecimal.
    """
    with user_errors():
        from quorate.history import snapshot_of

        snapshot_of(str(file))
        ended = False
        with damage_reported(file, "the rest is damaged"):
            for batch in batches_of(map_file(file)):
                ended = _is_footer(batch)
                metadata = records and _holds_metadata(batch)
                print_batch(batch, metadata=metadata, as_json=as_json, with_records=records)
        if not ended:
            raise fail(f"{file} has no SnapshotFooter: its end is missing", ExitCode.STORAGE)


def _is_footer(batch: "Batch") -> bool:
    from quorate.log.batches.control import ControlType, control_records_of

    return batch.header.is_control and any(
        kind is ControlType.SNAPSHOT_FOOTER for _, kind in control_records_of(batch)
    )


def _holds_metadata(batch: "Batch") -> bool:
    """Return whether all records are metadata's, or Raft's own."""
    from quorate.history import DamagedRecordError, entries_of

    header = batch.header
    if header.is_control:
        return True
    try:
        for _ in entries_of(batch, start=header.base_offset, end=header.end_offset):
            pass
    except DamagedRecordError:
        return False
    return True
