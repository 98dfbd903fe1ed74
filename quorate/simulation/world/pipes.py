"""The pipes between two simulated nodes: the quality of a link, and one direction of a stream over it."""

from collections import deque
from dataclasses import dataclass
from enum import Enum

import trio


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkQuality:
    """A direction between two nodes. Latency is drawn per segment, uniformly; `bytes_per_s` None is without
    limit."""

    latency_min_s: float = 0.0002
    latency_max_s: float = 0.002
    bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings:
    """`window_bytes`: sent and not yet received, per direction, before a sender waits. `short_read_chance`:
    how often a receive returns less than it could."""

    link: LinkQuality = LinkQuality()
    loopback: LinkQuality = LinkQuality(latency_min_s=0.00001, latency_max_s=0.00005)
    window_bytes: int = 256 * 1024
    short_read_chance: float = 0.1


class Last(Enum):
    """The event after the last byte of a pipe."""

    END = "end"
    RESET = "reset"


class Pipe:
    """A direction of a stream: the bytes that `source` sent and `target` has not received."""

    __slots__ = ("changed", "deaf_at", "in_flight", "last", "last_arrival", "receive_error", "segments",
                 "send_error", "source", "target", "vanishing")  # fmt: skip

    def __init__(self, source: str, target: str) -> None:
        self.source = source
        self.target = target
        self.segments: deque[tuple[float, bytes]] = deque()
        """(arrival time, bytes)."""
        self.in_flight = 0
        self.last_arrival = 0.0
        """The arrival of the latest segment or of `last`."""
        self.last: Last | None = None
        self.send_error: str | None = None
        self.receive_error: str | None = None
        self.vanishing = False
        self.deaf_at: float | None = None
        """The time at which `source` could know that `target` has left."""
        self.changed = trio.Event()

    @property
    def over(self) -> bool:
        return self.send_error is not None and self.receive_error is not None

    def notify(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    def fail(self, reason: str, *, sender: bool = True, receiver: bool = True) -> None:
        if sender and self.send_error is None:
            self.send_error = reason
        if receiver and self.receive_error is None:
            self.receive_error = reason
            self.segments.clear()
        self.notify()

    def swallow(self) -> None:
        """Let nothing through from now on, unseen by both ends."""
        self.vanishing = True
        self.segments.clear()
