"""The position of a stream in the log, as Spark stores it in its checkpoint."""

from collections.abc import Mapping
from dataclasses import dataclass

from quorate.spark_source.spark_errors import SourceError


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Spark compares offsets as JSON text: `as_dict` has always the same keys in the same order."""

    offset: int
    """The next to read: everything below was read."""
    epoch: int
    """Of the record before it: tells whether the log is still the same. -1: unknown, or none before."""
    cluster: str

    def as_dict(self) -> dict[str, object]:
        return {"offset": self.offset, "epoch": self.epoch, "cluster": self.cluster}

    @classmethod
    def parse(cls, raw: Mapping[str, object]) -> "Position":
        """Raises `SourceError` for a checkpoint that is not ours."""
        match raw:
            case {"offset": int(offset), "epoch": int(epoch), "cluster": str(cluster)} if offset >= 0:
                return cls(offset=offset, epoch=epoch, cluster=cluster)
        raise SourceError(
            f"{dict(raw)!r} is not an offset of this source; the checkpoint belongs to another: use a new one"
        )
