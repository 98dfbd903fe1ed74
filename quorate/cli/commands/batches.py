"""Record batches of a file, printed for people or as JSON: what `log dump` and `snapshot dump` share."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from quorate.cli.console.cli_errors import ExitCode, fail
from quorate.cli.console.output import print_json

if TYPE_CHECKING:
    from quorate.log.batches.batch import Batch

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_BLOCK = 1024 * 1024


def print_batch(batch: "Batch", *, metadata: bool, as_json: bool, with_records: bool) -> None:
    """A line, and one for each record; or one line of JSON. `metadata`: its records are decoded. Raises
    `InvalidBatchError`."""
    header = batch.header
    shown: dict[str, object] = {
        "baseOffset": header.base_offset,
        "lastOffset": header.end_offset - 1,
        "count": header.count,
        "position": header.position,
        "size": header.size,
        "leaderEpoch": header.leader_epoch,
        "isControl": header.is_control,
        "compression": _CODECS[header.codec] if header.codec < len(_CODECS) else str(header.codec),
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "baseSequence": header.base_sequence,
        "crc": header.crc,
    }
    entries = _records(batch, metadata=metadata) if with_records else None
    if as_json:
        print_json({**shown, "records": entries})
        return
    typer.echo(" ".join(f"{name}: {value}" for name, value in shown.items()))
    for entry in entries or ():
        typer.echo("  | " + " ".join(f"{name}: {value}" for name, value in entry.items()))


@contextmanager
def damage_reported(file: Path, rest: str) -> Iterator[None]:
    """End the command with a message about the damage in `file`, its place, and the state of the rest."""
    from quorate.log import InvalidBatchError

    try:
        yield
    except InvalidBatchError as error:
        raise fail(f"{file}: {error}. What comes before is whole; {rest}", ExitCode.STORAGE) from None


def batches_of(view: memoryview) -> "Iterator[Batch]":
    """Yield whole batches up to the zeros that a file may end in, room made ahead. Raises
    `InvalidBatchError`."""
    from quorate.log.batches.batch import HEADER_BYTES, Batch, read_header

    position = 0
    while position < len(view):
        if not any(view[position : position + HEADER_BYTES]) and _all_zeros(view[position:]):
            return
        header = read_header(view, position, dense=False)
        yield Batch(header, view[position : position + header.size])
        position += header.size


def _all_zeros(view: memoryview) -> bool:
    zeros = bytes(_BLOCK)
    return all(
        view[start : start + _BLOCK] == zeros[: len(view) - start] for start in range(0, len(view), _BLOCK)
    )


def _records(batch: "Batch", *, metadata: bool) -> list[dict[str, object]] | None:
    """Return the records, or None for compressed ones, which are not decoded."""
    from quorate.history import DamagedRecordError, entries_of, record_json
    from quorate.log import InvalidBatchError
    from quorate.log.batches.records import records_of

    header = batch.header
    if header.codec:
        return None
    if metadata:
        try:
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
        except DamagedRecordError as error:
            # Its CRC fits: somebody wrote it so.
            raise InvalidBatchError(str(error), position=header.position) from error
    return [
        {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": None if record.key is None else record.key.hex(),
            "value": None if record.value is None else record.value.hex(),
        }
        for record in records_of(batch)
    ]


def map_file(file: Path) -> memoryview:
    """Map the file's bytes, which are read on access."""
    import mmap

    with file.open("rb") as opened:
        if not file.stat().st_size:
            return memoryview(b"")
        return memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))
