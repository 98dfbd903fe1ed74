"""The proof that a directory has everything that the broker wrote to it in one life: the mark of an orderly
shutdown, and the mark that the page cache is complete."""

import json
import uuid
from collections.abc import Iterable
from typing import Final, NamedTuple

from quorate.runtime import Disk, parse_uuid, read_file, uuid_text, write_file_atomically

CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
PAGE_CACHE: Final = ".quorate_page_cache"
"""Not in Kafka: while a broker runs, the file says which epoch's data is in the page cache of which boot."""


class Proof(NamedTuple):
    """A proof that a folder has everything that the broker wrote to it in one life."""

    broker_epoch: int
    """The broker epoch of that life; -1: nothing is proven."""
    directories: frozenset[uuid.UUID]
    """All directories of the broker in that life. The proof doesn't cover those that are missing now."""


NO_PROOF: Final = Proof(-1, frozenset())


def newest_proof(directories: Iterable[tuple[uuid.UUID, Proof | None]]) -> Proof:
    """Return the newest life whose data is all in these directories, but for those that are missing now;
    `NO_PROOF` if that isn't sure. `directories`: each with the life that it proves."""
    found = tuple(directories)
    newest = max((proof for _, proof in found if proof is not None), default=NO_PROOF)
    for directory, proof in found:
        # One that was added since proves nothing, and has nothing of that life either.
        if directory in newest.directories and proof != newest:
            return NO_PROOF
    return newest


def store_page_cache(disk: Disk, log_directory: str, proof: Proof, *, boot_id: str) -> None:
    """Mark this folder's files as complete for the broker's epoch, for as long as the host runs. The file is
    not synced: after a power loss it names another boot. Raises `DiskError`."""
    path = f"{log_directory}/{PAGE_CACHE}"
    temporary = f"{path}.tmp"
    if disk.exists(temporary):
        disk.remove(temporary)
    file = disk.open(temporary, create=True)
    try:
        file.append([json.dumps(_encoded_proof(proof) | {"bootId": boot_id}).encode()])
    finally:
        file.close()
    disk.rename(temporary, path)


def load_page_cache(disk: Disk, log_directory: str, *, boot_id: str) -> Proof | None:
    """Return the life whose data the page cache has in full; None if nothing is known of this boot."""
    try:
        content = read_file(disk, f"{log_directory}/{PAGE_CACHE}")
    except FileNotFoundError:
        return None
    fields = _parsed(content)
    return _proof(fields) if fields.get("bootId") == boot_id else None


def drop_page_cache(disk: Disk, log_directory: str) -> None:
    """Remove the mark: a disk that failed to write may have dropped data from the page cache. Raises
    `DiskError`."""
    path = f"{log_directory}/{PAGE_CACHE}"
    if disk.exists(path):
        disk.remove(path)


async def store_clean_shutdown(disk: Disk, log_directory: str, proof: Proof) -> None:
    """Write the last file of an orderly shutdown, in Kafka's format (KIP-966) with the directories added."""
    await write_file_atomically(
        disk, f"{log_directory}/{CLEAN_SHUTDOWN}", json.dumps(_encoded_proof(proof)).encode()
    )


def load_clean_shutdown(disk: Disk, log_directory: str) -> Proof | None:
    """Return the proof of the orderly shutdown, or None if there was none. A file without the directories
    proves clean logs, but not that any directory is complete."""
    try:
        content = read_file(disk, f"{log_directory}/{CLEAN_SHUTDOWN}")
    except FileNotFoundError:
        return None
    return _proof(_parsed(content))


def _encoded_proof(proof: Proof) -> dict[str, object]:
    return {
        "version": 0,
        "brokerEpoch": proof.broker_epoch,
        "directories": sorted(map(uuid_text, proof.directories)),
    }


def _parsed(content: bytes) -> dict[str, object]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _proof(fields: dict[str, object]) -> Proof | None:
    epoch, directories = fields.get("brokerEpoch"), fields.get("directories", [])
    if not isinstance(epoch, int) or not isinstance(directories, list):
        return None
    try:
        return Proof(epoch, frozenset(parse_uuid(str(each)) for each in directories))
    except ValueError:
        return None


async def remove_clean_shutdown(disk: Disk, log_directory: str) -> None:
    """Mark the folder durably as dirty."""
    path = f"{log_directory}/{CLEAN_SHUTDOWN}"
    if disk.exists(path):
        disk.remove(path)
        await disk.sync_folder(log_directory)
