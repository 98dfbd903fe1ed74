"""The progress of a directory's scrub, over restarts of the broker."""

from collections.abc import Container
from typing import Final, NamedTuple

from quorate.log import TopicPartition, UnreadableCheckpointError, decode_lines, encode_lines, is_number
from quorate.runtime import Disk, DiskError, Slices, get_logger, read_file, write_file_atomically
from quorate.types import Offset

log = get_logger(__name__)

SCRUB_CHECKPOINT: Final = "quorate-scrub-checkpoint"
"""Ours: lines of `topic partition checkedMs nextOffset`."""


class LastCheck(NamedTuple):
    """What is known of one replica."""

    at_ms: int = 0
    """When its last whole check ended, on the wall clock; 0: never."""
    next_offset: Offset = Offset(0)
    """At the base of which segment a check under way goes on; 0: none is."""


NEVER: Final = LastCheck()


class ScrubProgress:
    """Mutable; owned by the scrub of the directory. Nothing depends on the file: without it everything is
    checked anew."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._path = f"{folder}/{SCRUB_CHECKPOINT}"
        self._checked: dict[TopicPartition, LastCheck] = {}
        self._dirty = False

    async def load(self) -> None:
        """Read the file, if there is one that can be read."""
        try:
            slices = Slices()
            for line in decode_lines(self._path, read_file(self._disk, self._path)):
                fields = line.split(" ")
                if len(fields) != 4 or not all(map(is_number, fields[1:])):
                    raise UnreadableCheckpointError(self._path, f"{line[:60]!r} is no line of it")
                self._checked[fields[0], int(fields[1])] = LastCheck(int(fields[2]), Offset(int(fields[3])))
                await slices.pause()
        except FileNotFoundError:
            pass
        except (UnreadableCheckpointError, DiskError) as error:
            log.warning(
                "a checkpoint can't be read; the scrub begins anew", path=self._path, reason=str(error)
            )
            self._checked.clear()

    def of(self, key: TopicPartition) -> LastCheck:
        return self._checked.get(key, NEVER)

    def note(self, key: TopicPartition, checked: LastCheck) -> None:
        """Remember how far a replica is."""
        if self.of(key) != checked:
            self._checked[key] = checked
            self._dirty = True

    def keep(self, keys: Container[TopicPartition]) -> None:
        """Forget all replicas but these."""
        removed = [key for key in self._checked if key not in keys]
        for key in removed:
            del self._checked[key]
            self._dirty = True

    async def store(self) -> None:
        """Write the file durably, unless nothing changed. Raises `DiskError`."""
        if not self._dirty:
            return
        self._dirty = False
        lines, slices = list[str](), Slices()
        for (topic, partition), checked in list(self._checked.items()):
            lines.append(f"{topic} {partition} {checked.at_ms} {checked.next_offset}")
            await slices.pause()
        await write_file_atomically(self._disk, self._path, encode_lines(lines))
