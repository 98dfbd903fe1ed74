"""Kafka's checkpoint files: a version line, a count line, and one line per entry.

`replication-offset-checkpoint` (high watermarks), `recovery-point-offset-checkpoint` (what is durable),
`log-start-offset-checkpoint` (where logs start in the middle of a segment) and `cleaner-offset-checkpoint`
(what is compacted) hold `topic partition offset`, one file per data directory. `leader-epoch-checkpoint`
holds `epoch startOffset`, one file per log.
"""

from collections.abc import Mapping

from quorate.log.log_errors import AS_NEW_REPLICA, NEWER_WROTE_IT, START_NEWER, LogError
from quorate.runtime import Disk, read_file, write_file_atomically
from quorate.types import Offset

HIGH_WATERMARKS = "replication-offset-checkpoint"
"""The name of the file with the high watermarks of a directory's partitions."""
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
"""The name of the file with the recovery points of a directory's partitions."""
LOG_STARTS = "log-start-offset-checkpoint"
"""The name of the file with the log starts of a directory's partitions that no file name tells."""
CLEANED = "cleaner-offset-checkpoint"
"""The name of the file with the ends of what is compacted, of a directory's partitions."""
_VERSION = "0"
_DIGITS_MAX = 18
"""The most digits of a number. So it is always an int64."""
_SHOWN_MAX = 60
"""The most characters of a line in a message."""

TopicPartition = tuple[str, int]


class UnreadableCheckpointError(LogError):
    """A checkpoint file exists but can't be read. The message names the fault and the remedy."""

    def __init__(self, path: str, problem: str) -> None:
        if problem.endswith(NEWER_WROTE_IT):
            remedy = START_NEWER
        elif path.endswith(HIGH_WATERMARKS):
            remedy = "Restore the file, or move it away: high watermarks are learned again from the replicas"
        elif path.endswith(CLEANED):
            remedy = "Restore the file, or move it away: logs are then compacted anew"
        elif path.endswith(LOG_STARTS):
            remedy = (
                "Restore the file, or move it away and repeat DeleteRecords: without it records that were "
                "deleted may be readable again"
            )
        else:
            # Without it damage could not be told from what a crash leaves, and would be cut off.
            remedy = f"Restore the file from this node's disk, {AS_NEW_REPLICA}"
        super().__init__(f"{path}: {problem}. {remedy}")
        self.path = path
        self.problem = problem

    @property
    def is_newer(self) -> bool:
        """True if a newer version of quorate wrote the file: it is whole, but this version can't read it."""
        return self.problem.endswith(NEWER_WROTE_IT)


def encode_lines(entries: list[str]) -> bytes:
    """Return the content of a checkpoint file with these entries, one per line."""
    return "".join(f"{line}\n" for line in (_VERSION, str(len(entries)), *entries)).encode()


def decode_lines(path: str, data: bytes) -> list[str]:
    """Return the entries of a checkpoint file, one per line. Raises `UnreadableCheckpointError`."""
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        raise UnreadableCheckpointError(path, f"not text ({error})") from error
    if lines[-1] != "" or len(lines) < 3:
        raise UnreadableCheckpointError(path, "truncated")
    if lines[0] != _VERSION:
        newer = f": {NEWER_WROTE_IT}" if lines[0].isdecimal() else ""
        raise UnreadableCheckpointError(path, f"version {_shown(lines[0])} is not {_VERSION}{newer}")
    entries = lines[2:-1]
    if lines[1] != str(len(entries)):
        raise UnreadableCheckpointError(
            path, f"{len(entries)} entries, but its second line states {_shown(lines[1])}"
        )
    return entries


def _shown(line: str) -> str:
    return repr(line if len(line) <= _SHOWN_MAX else f"{line[:_SHOWN_MAX]}...")


def is_number(field: str) -> bool:
    """Return True if `field` can be an offset, an epoch or a partition. `int` would fail on thousands of
    digits."""
    return field.isascii() and field.isdecimal() and len(field) <= _DIGITS_MAX


def load_offsets(disk: Disk, path: str) -> dict[TopicPartition, Offset]:
    """Read an offset checkpoint. Returns an empty dictionary if there is no file. Raises
    `UnreadableCheckpointError`."""
    try:
        data = read_file(disk, path)
    except FileNotFoundError:
        return {}
    offsets: dict[TopicPartition, Offset] = {}
    for line in decode_lines(path, data):
        fields = line.split(" ")
        if len(fields) != 3 or not is_number(fields[1]) or not is_number(fields[2]):
            raise UnreadableCheckpointError(path, f"{_shown(line)} is not 'topic partition offset'")
        partition = (fields[0], int(fields[1]))
        if partition in offsets:
            raise UnreadableCheckpointError(path, f"{_shown(line)} is the second entry of its partition")
        offsets[partition] = Offset(int(fields[2]))
    return offsets


async def store_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Write an offset checkpoint atomically. It is durable when this returns. Raises `DiskError`."""
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    await write_file_atomically(disk, path, encode_lines(lines))
