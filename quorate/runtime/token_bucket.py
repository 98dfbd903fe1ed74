"""A token bucket: what may still be used of a quota.

Kafka measures bytes, request time and connections by a rate over windows, which forgets what was used as they
pass: a client that obeys may have a full burst again after each wait. Its token bucket, which it has for the
mutations of the controller alone (KIP-599), never gives more than the quota and one burst.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaWindows:
    """`quota.window.num` and `quota.window.size.seconds`. A client may use up the quota of all windows but
    one at once; after that it is slowed down."""

    count: int = 11
    size_s: float = 1.0

    @property
    def burst_s(self) -> float:
        """The seconds' worth of quota that may be used at once."""
        return max(1, self.count - 1) * self.size_s


class TokenBucket:
    """The use of one quota by one client. It holds what was used and is not paid for by time yet, so a quota
    that changes counts at once."""

    __slots__ = ("_burst_s", "_paid_until", "_used")

    def __init__(self, *, burst_s: float) -> None:
        self._burst_s = burst_s
        self._used = 0.0
        self._paid_until = 0.0

    def use(self, amount: float, quota: float, *, now: float) -> None:
        """`quota`: per second. `now`: on trio's clock."""
        self._pay(quota, now)
        self._used += amount

    def wait_s(self, quota: float, *, now: float) -> float:
        """Return for how long nothing more may be used; 0 if something may."""
        self._pay(quota, now)
        return max(0.0, self._used / quota - self._burst_s)

    def room(self, quota: float, *, now: float) -> float:
        """Return how much may be used without a wait."""
        self._pay(quota, now)
        return max(0.0, quota * self._burst_s - self._used)

    def _pay(self, quota: float, now: float) -> None:
        self._used = max(0.0, self._used - quota * (now - self._paid_until))
        self._paid_until = now
