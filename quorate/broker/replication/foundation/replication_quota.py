"""Throttled replication (KIP-73): a bound on the bytes that replicas outside the ISR copy, as leader and as
follower, so that a move leaves room for clients.

The topic lists the replicas (`leader.` and `follower.replication.throttled.replicas`), each broker has the
rates (`leader.` and `follower.replication.throttled.rate`). A listed replica that is in the ISR is never held
back, but what it copies counts too. Bytes are counted after they were read, so one burst passes.
"""

import math
from collections import deque
from typing import Final

from quorate.broker.metadata.configs import ALL_BROKERS, stored
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import ConfigType
from quorate.broker.metadata.states import ConfigResource

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
MOVES_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
_SAMPLES: Final = 11
"""`replication.quota.window.num`, each of one second (`replication.quota.window.size.seconds`)."""
_WINDOW_S: Final = 1.0
_PAUSE_MAX_S: Final = 1.0
"""The longest pause until the rate is looked at again: the bound may have been raised."""


class ReplicationQuota:
    """The bytes of throttled replicas in the last seconds, and their bound (bytes per second)."""

    __slots__ = ("_samples", "_total", "bound")

    def __init__(self) -> None:
        self.bound = math.inf
        self._samples: deque[tuple[float, int]] = deque()
        """Each with the time at which it began, in seconds."""
        self._total = 0

    def record(self, size: int, *, now: float) -> None:
        """Count `size` bytes against the quota."""
        if not self._samples or now - self._samples[-1][0] >= _WINDOW_S:
            self._samples.append((now, 0))
        began, held = self._samples[-1]
        self._samples[-1] = (began, held + size)
        self._total += size

    def exceeded(self, *, now: float) -> bool:
        """Return whether more bytes than the bound allows were counted."""
        self._forget(now)
        return self._total > self.bound * self._elapsed(now)

    def pause_s(self, *, now: float) -> float:
        """Return the time after which the rate is back at the bound, or is to be looked at again."""
        if not self.exceeded(now=now):
            return 0.0
        if self.bound <= 0:
            return _PAUSE_MAX_S
        return min(max(self._total / self.bound - self._elapsed(now), 0.01), _PAUSE_MAX_S)

    def _elapsed(self, now: float) -> float:
        return max(now - self._samples[0][0], _WINDOW_S) if self._samples else _WINDOW_S

    def _forget(self, now: float) -> None:
        while self._samples and now - self._samples[0][0] >= _SAMPLES * _WINDOW_S:
            self._total -= self._samples.popleft()[1]


class ReplicationQuotas:
    """A broker's quotas: one for each side of replication, and one for its copies of replicas between its own
    directories (KIP-113)."""

    __slots__ = ("_broker_id", "follower", "leader", "moves")

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self.leader = ReplicationQuota()
        self.follower = ReplicationQuota()
        self.moves = ReplicationQuota()

    def configure(self, image: MetadataImage) -> None:
        """Apply the broker's own rates, else those of all brokers, else none."""
        own = stored(image, ConfigResource(ConfigType.BROKER, str(self._broker_id)))
        values = {**stored(image, ALL_BROKERS), **own}
        self.leader.bound = float(values.get(LEADER_RATE, math.inf))
        self.follower.bound = float(values.get(FOLLOWER_RATE, math.inf))
        self.moves.bound = float(values.get(MOVES_RATE, math.inf))


def is_throttled(replicas: str, *, partition_id: int, broker_id: int) -> bool:
    """Return whether a topic's list (`*`, or `partition:broker` pairs) has the replica."""
    wanted = f"{partition_id}:{broker_id}"
    return any(each.strip() in ("*", wanted) for each in replicas.split(","))
