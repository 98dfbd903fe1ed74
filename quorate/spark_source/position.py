"""The position of a stream in the log, as Spark stores it in its checkpoint."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from quorate.history import BatchMark
from quorate.log.snapshots.snapshot_file import name_of, parse_name
from quorate.spark_source.spark_errors import SourceError
from quorate.types import SnapshotId

_NONE: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Spark compares offsets as JSON text: `as_dict` has always the same keys in the same order."""

    offset: int
    """The next to read: everything below was read. 0: nothing was."""
    before: BatchMark | None
    """The batch of the record before it. None: unknown, or there is none."""
    cluster: str
    view: str
    opening: SnapshotId | None = None
    """The snapshot whose state comes first in the batch that ends here. None: it goes on from the last."""

    def as_dict(self) -> dict[str, object]:
        """Return what Spark stores."""
        return {
            "offset": self.offset,
            "epoch": _NONE if self.before is None else self.before.leader_epoch,
            "batchCrc": _NONE if self.before is None else self.before.crc,
            "cluster": self.cluster,
            "view": self.view,
            "opening": "" if self.opening is None else name_of(self.opening),
        }

    @classmethod
    def parse(cls, raw: Mapping[str, object]) -> "Position":
        """Raises `SourceError` for a checkpoint that is not ours."""
        match raw:
            case {
                "offset": int(offset),
                "epoch": int(epoch),
                "batchCrc": int(crc),
                "cluster": str(cluster),
                "view": str(view),
                "opening": str(opening),
            } if offset >= 0 and (not opening or parse_name(opening)):
                return cls(
                    offset=offset,
                    before=None if epoch == _NONE else BatchMark(epoch, crc),
                    cluster=cluster,
                    view=view,
                    opening=parse_name(opening),
                )
        raise SourceError(
            f"{dict(raw)!r} is not an offset of this source; the checkpoint belongs to another, or to an "
            "older version of quorate: use a new one"
        )
