"""The file with the committed batches that this node skips on an operator's command."""

import json
from dataclasses import dataclass
from typing import Final

from quorate.quorum_state.quorum_state_errors import UnreadableStateError
from quorate.runtime import Disk, get_logger, read_file, write_file_atomically
from quorate.types import Epoch, Offset

log = get_logger(__name__)

SKIPPED_BATCHES: Final = "skipped-batches"
_VERSION = 1
_RESTORE = (
    "Restore it as it is on the other nodes: a node that applies what they leave out has another state than "
    "they."
)


@dataclass(frozen=True, slots=True, order=True)
class SkippedBatch:
    """A skipped batch: the offset of its first record, and the epoch of the leader that appended it. Both
    together name the batch in every log of the cluster."""

    offset: Offset
    epoch: Epoch


class SkippedBatches:
    """The committed batches that one node skips."""

    __slots__ = ("_epochs",)

    def __init__(self, batches: tuple[SkippedBatch, ...] = ()) -> None:
        self._epochs = {each.offset: each.epoch for each in batches}

    def __bool__(self) -> bool:
        return bool(self._epochs)

    def as_tuple(self) -> tuple[SkippedBatch, ...]:
        """Return the skipped batches, in ascending order."""
        return tuple(sorted(SkippedBatch(offset, epoch) for offset, epoch in self._epochs.items()))

    def skips(self, offset: Offset, epoch: Epoch) -> bool:
        """Return whether the batch at this offset is skipped, and log it if a skip names the offset. A
        batch of another epoch is another batch: the one that the skip named was never committed."""
        named = self._epochs.get(offset)
        if named is None:
            return False
        if named != epoch:
            log.warning(
                "a skip names another batch; this one is applied", offset=offset, epoch=epoch, named=named
            )
            return False
        log.warning("a committed batch is skipped, not applied", offset=offset, epoch=epoch)
        return True


def load_skipped(disk: Disk, log_folder: str) -> SkippedBatches:
    """Read the skipped batches of the node whose log is in `log_folder`: none if there is no file. Raises
    `UnreadableStateError`."""
    path = f"{log_folder}/{SKIPPED_BATCHES}"
    try:
        data = read_file(disk, path)
    except FileNotFoundError:
        return SkippedBatches()
    return parse_skipped(path, data)


def parse_skipped(path: str, data: bytes) -> SkippedBatches:
    """Decode the content of the file at `path`. Raises `UnreadableStateError`."""
    try:
        content = json.loads(data)
        if content["version"] != _VERSION:
            problem = f"version is {content['version']}, this quorate knows {_VERSION}"
            raise UnreadableStateError(path, problem, _RESTORE)
        batches = tuple(
            SkippedBatch(Offset(_whole_number(each["offset"])), Epoch(_whole_number(each["epoch"])))
            for each in content["skipped"]
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        problem = f"it can't be read ({type(error).__name__}: {error})"
        raise UnreadableStateError(path, problem, _RESTORE) from error
    return SkippedBatches(batches)


def _whole_number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is not a whole number")
    return value


async def store_skipped(disk: Disk, log_folder: str, skipped: tuple[SkippedBatch, ...]) -> None:
    """Write the skipped batches of a node. They are durable when this returns."""
    content = {
        "version": _VERSION,
        "skipped": [{"offset": each.offset, "epoch": each.epoch} for each in skipped],
    }
    await write_file_atomically(disk, f"{log_folder}/{SKIPPED_BATCHES}", json.dumps(content).encode() + b"\n")
