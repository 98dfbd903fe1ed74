"""The first records of a new cluster: what `quorate storage format` leaves for the first active controller
(KIP-778, KIP-900; Kafka's bootstrap.checkpoint).

Each controller has a file of its own. The first that is active in a cluster without a metadata.version writes
its records together with that.
"""

import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Final

from quorate.broker.metadata.metadata_records import Record
from quorate.broker.metadata.record_codec import RecordDecodeError, decode, encode
from quorate.broker.node_config.properties_file import ServerConfigError
from quorate.runtime import Disk, write_file_atomically

FILE: Final = "first-records"
"""Its name, beside meta.properties."""
_HEADER_BYTES: Final = 8


async def write_first_records(disk: Disk, folder: str, records: Sequence[Record]) -> None:
    """Write the file, or remove an older one if there are no records. Raises `DiskError`."""
    path = f"{folder}/{FILE}"
    if records:
        disk.make_folder(folder)
        await write_file_atomically(disk, path, b"".join(_framed(encode(each)) for each in records))
    elif disk.exists(path):
        disk.remove(path)


def _framed(record: bytes) -> bytes:
    return len(record).to_bytes(4, "big") + zlib.crc32(record).to_bytes(4, "big") + record


def load_first_records(disk: Disk, folder: str) -> tuple[Record, ...]:
    """Return the records of the file, none if there is no file. Raises `ServerConfigError`, `DiskError`."""
    path = f"{folder}/{FILE}"
    try:
        with closing(disk.open_read_only(path)) as file:
            data = file.read_at(0, file.size)
    except FileNotFoundError:
        return ()
    try:
        return tuple(map(decode, _records_in(data)))
    except (ValueError, RecordDecodeError):
        raise ServerConfigError(
            f"{path} is damaged; if its cluster is new, run quorate storage format anew in another folder, "
            "else move it away: it has no effect any more"
        ) from None


def _records_in(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        size, checksum = (int.from_bytes(data[each : each + 4], "big") for each in (at, at + 4))
        record = data[at + _HEADER_BYTES : at + _HEADER_BYTES + size]
        if len(record) < size or zlib.crc32(record) != checksum:
            raise ValueError("a record is cut or changed")
        yield record
        at += _HEADER_BYTES + size
