"""`quorate log`: what is in a log file."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from quorate.cli.errors import ExitCode, fail, user_errors
from quorate.log.batch import Batch, read_header
from quorate.log.errors import InvalidBatchError
from quorate.log.records import records_of
from quorate.spark_source.entries import entries_of, record_json

app = typer.Typer(no_args_is_help=True, help="Log files.")


@app.callback()
def log() -> None:
    """Log files."""


def _batches(data: bytes) -> Iterator[Batch | InvalidBatchError]:
    """Up to the first damaged one, or to the zeros that an unfinished file may end in."""
    position, view = 0, memoryview(data)
    while position < len(data) and any(view[position : position + 61]):
        try:
            header = read_header(data, position, dense=False)
        except InvalidBatchError as error:
            yield error
            return
        yield Batch(header, view[position : position + header.size])
        position += header.size


def _records(batch: Batch, *, metadata: bool) -> list[dict[str, object]]:
    header = batch.header
    if metadata:
        return [
            {
                "offset": entry.offset,
                "timestamp": entry.timestamp_ms,
                "type": entry.type,
                "version": entry.version,
                "record": json.loads(record_json(entry) or "null"),
            }
            for entry in entries_of(batch, start=header.base_offset, end=header.end_offset)
        ]
    if header.codec:
        return []
    return [
        {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": None if record.key is None else record.key.hex(),
            "value": None if record.value is None else record.value.hex(),
        }
        for record in records_of(batch)
    ]


@app.command(epilog="Example: quorate log dump data/1/__cluster_metadata-0/00000000000000000000.log --json")
def dump(
    file: Annotated[Path, typer.Argument(help="A .log file.", exists=True, dir_okay=False)],
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON per batch.")] = False,
    records: Annotated[bool, typer.Option("--records/--no-records", help="Decode records too.")] = True,
) -> None:
    """Print the batches of a log file and their records; those of the metadata log are decoded."""
    metadata = file.resolve().parent.name.startswith("__cluster_metadata")
    with user_errors():
        data = file.read_bytes()
        for found in _batches(data):
            if isinstance(found, InvalidBatchError):
                raise fail(f"{file}: {found}", ExitCode.STORAGE)
            header = found.header
            shown: dict[str, object] = {
                "baseOffset": header.base_offset,
                "lastOffset": header.end_offset - 1,
                "count": header.count,
                "position": header.position,
                "size": header.size,
                "leaderEpoch": header.leader_epoch,
                "isControl": header.is_control,
                "producerId": header.producer_id,
                "producerEpoch": header.producer_epoch,
                "baseSequence": header.base_sequence,
                "crc": header.crc,
            }
            entries = _records(found, metadata=metadata) if records else []
            if as_json:
                typer.echo(json.dumps({**shown, "records": entries}))
            else:
                typer.echo(" ".join(f"{name}: {value}" for name, value in shown.items()))
                for entry in entries:
                    typer.echo("  | " + " ".join(f"{name}: {value}" for name, value in entry.items()))
