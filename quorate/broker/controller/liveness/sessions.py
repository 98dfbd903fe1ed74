"""The session of each broker: when it was last heard, and the offset that it had applied then.

Soft state of the active controller: it is not in the log, and a new controller gives every broker a whole
session for its first heartbeat. Times are seconds on a monotonic clock.
"""

from dataclasses import dataclass

from quorate.broker.metadata.image import MetadataImage
from quorate.runtime import WallClock


@dataclass(slots=True, kw_only=True)
class _Contact:
    at: float
    heard_at: float | None = None
    metadata_offset: int = -1
    shutdown_offset: int | None = None
    return_offset: int | None = None


class Sessions:
    __slots__ = ("_contacts", "_last_check", "_wall_clock", "timeout")

    def __init__(self, *, timeout: float, wall_clock: WallClock | None = None) -> None:
        self.timeout = timeout
        self._wall_clock = wall_clock
        self._contacts: dict[int, _Contact] = {}
        self._last_check: float | None = None

    def begin(self, broker_id: int, *, now: float, heard_at: float | None) -> None:
        """Begin a new session of the broker, without the state of the last one. `heard_at`: the time at which
        the broker was last heard. None: this node never heard it. The session is a whole one in any case."""
        self._contacts[broker_id] = _Contact(at=now, heard_at=heard_at)

    def touch(self, broker_id: int, *, now: float, metadata_offset: int) -> None:
        """Record a heartbeat. Call it on arrival, whether the heartbeat succeeds or not: one that is answered
        too late still proves that the broker lives (KAFKA-15019)."""
        contact = self._contacts.setdefault(broker_id, _Contact(at=now))
        contact.at = max(contact.at, now)
        contact.heard_at = now
        contact.metadata_offset = max(contact.metadata_offset, metadata_offset)

    def last_heard(self, broker_id: int) -> float | None:
        """Return the time at which the broker was last heard. None: it never was."""
        contact = self._contacts.get(broker_id)
        return None if contact is None else contact.heard_at

    def last_heard_ms(self, broker_id: int, *, now: float) -> int | None:
        """Return the same as `last_heard` by the wall clock, in ms since the Unix epoch."""
        heard_at = self.last_heard(broker_id)
        if heard_at is None or self._wall_clock is None:
            return None
        return max(0, self._wall_clock.now_ms() - round((now - heard_at) * 1000))

    def end(self, broker_id: int) -> None:
        """End the session of a broker that is fenced before it has run out."""
        contact = self._contacts.get(broker_id)
        if contact is not None:
            contact.return_offset = None

    def forget(self, broker_id: int) -> None:
        self._contacts.pop(broker_id, None)

    def live(self, broker_id: int, *, now: float) -> bool:
        contact = self._contacts.get(broker_id)
        return contact is not None and now - contact.at < self.timeout

    def expired(self, image: MetadataImage, *, now: float, interval: float) -> list[int]:
        """Return the unfenced brokers without a heartbeat for a whole session, longest silent first.

        Call it every `interval` seconds. If a call is later than that by more than another interval, this
        process was held up, and heartbeats may be waiting unread: sessions are extended by as much.
        """
        late = 0.0 if self._last_check is None else now - self._last_check - interval
        self._last_check = now
        if late > interval:
            for contact in self._contacts.values():
                contact.at = min(now, contact.at + late)
        silent: list[tuple[float, int]] = []
        for broker in image.brokers.values():
            if broker.fenced:
                continue
            contact = self._contacts.setdefault(broker.broker_id, _Contact(at=now))
            if now - contact.at >= self.timeout:
                contact.return_offset = None
                silent.append((contact.at, broker.broker_id))
        return [broker_id for _, broker_id in sorted(silent)]

    def return_offset(self, broker_id: int, *, offset: int, now: float) -> int:
        """Return the offset (inclusive) that a fenced broker must have applied before it is unfenced: that of
        the last record that took it out of service. Otherwise it would still answer as the leader that it
        was."""
        contact = self._contacts.setdefault(broker_id, _Contact(at=now))
        if contact.return_offset is None:
            contact.return_offset = offset
        return contact.return_offset

    def shutdown_offset(self, broker_id: int) -> int | None:
        """Return the offset (inclusive) that every active broker must have applied before this one may
        stop."""
        contact = self._contacts.get(broker_id)
        return None if contact is None else contact.shutdown_offset

    def fix_shutdown_offset(self, broker_id: int, *, offset: int, now: float) -> None:
        """Set the goal of a controlled shutdown, once: a goal that moved with each heartbeat would not be
        reached under steady metadata writes (KAFKA-14292)."""
        contact = self._contacts.setdefault(broker_id, _Contact(at=now))
        if contact.shutdown_offset is None:
            contact.shutdown_offset = offset

    def lowest_active_offset(self, image: MetadataImage) -> int | None:
        """Return the highest offset (inclusive) that every active broker is known to have applied; -1: one is
        unknown; None: no broker is active."""
        return min(
            (
                contact.metadata_offset if (contact := self._contacts.get(broker.broker_id)) else -1
                for broker in image.brokers.values()
                if broker.active
            ),
            default=None,
        )
