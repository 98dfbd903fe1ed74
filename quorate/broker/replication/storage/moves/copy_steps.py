"""The next step of a copy of one log to another on the same broker, by the rules of a follower: their last
common epoch says how much of the copy is the original's (KIP-101, KIP-279)."""

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from quorate.types import EpochEnd, EpochStart, Offset


class LogView(Protocol):
    """What the rules ask of a log."""

    @property
    def log_start_offset(self) -> Offset: ...

    @property
    def end_offset(self) -> Offset: ...

    @property
    def epochs(self) -> tuple[EpochStart, ...]: ...

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd | None: ...


@dataclass(frozen=True, slots=True)
class Restart:
    """Empty the copy, and begin at this offset."""

    offset: Offset


@dataclass(frozen=True, slots=True)
class Cut:
    """Cut the copy to this end offset."""

    end_offset: Offset


@dataclass(frozen=True, slots=True)
class ReadFrom:
    """Append what the original has from this offset on."""

    offset: Offset


@dataclass(frozen=True, slots=True)
class Equal:
    """The copy has everything."""


CopyStep: TypeAlias = Restart | Cut | ReadFrom | Equal


def next_step(original: LogView, copy: LogView) -> CopyStep:
    """Return what brings the copy closer to the original, as both are now."""
    if copy.end_offset < original.log_start_offset:
        return Restart(original.log_start_offset)
    end = _common_end(original, copy)
    if end < copy.end_offset:
        return Cut(end) if end > copy.log_start_offset else Restart(original.log_start_offset)
    return ReadFrom(copy.end_offset) if copy.end_offset < original.end_offset else Equal()


def _common_end(original: LogView, copy: LogView) -> Offset:
    end = min(copy.end_offset, original.end_offset)
    if not copy.epochs or copy.log_start_offset == copy.end_offset:
        return end
    found = original.end_offset_for_epoch(copy.epochs[-1].epoch)
    if found is None:
        return Offset(min(end, original.log_start_offset))
    own = copy.end_offset_for_epoch(found.epoch)
    return min(end, found.end_offset, Offset(0) if own is None else own.end_offset)
