"""The use of every client that has a quota, and its waits.

A broker enforces quotas by itself, as Kafka's do: each gives a client that much. A client above its quota is
told so in its answer (`throttle_time_ms`), and its connection is not read for that time (KIP-219).
"""

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from datetime import timedelta
from typing import Final

import trio

from quorate.broker.controller.rpc import Requester
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import QuotaEntity
from quorate.broker.metadata.quota_precedence import CONTROLLER_MUTATION_RATE, REQUEST_PERCENTAGE, quota_of
from quorate.broker.wire.exchanges import RequestContext
from quorate.runtime import QuotaWindows, TokenBucket

_MOST_CLIENTS: Final = 10_000
"""The number of clients whose use is remembered: clients choose their ids freely. Beyond it, the client that
was quiet for longest is forgotten."""


_REQUEST_WAIT_MAX_S: Final = 1.0
"""The longest wait for request time, as in Kafka: heartbeats go on. A client that has waited may ask once,
and waits again."""


class ClientThrottles:
    """The use of clients with quotas. It costs nothing while there are no quotas."""

    def __init__(self, image: Callable[[], MetadataImage], windows: QuotaWindows) -> None:
        self._image = image
        self._burst_s = windows.burst_s
        self._used: OrderedDict[tuple[str, QuotaEntity], TokenBucket] = OrderedDict()
        self.counts = False
        """Whether any client has a quota of request time."""
        self.throttled: Counter[str] = Counter()
        """By quota, how often a client was told to wait."""
        self.throttled_s: defaultdict[str, float] = defaultdict(float)
        """By quota, for how many seconds."""

    def quotas_changed(self) -> None:
        """Look at the image's quotas again."""
        self.counts = self._image().has_quota(REQUEST_PERCENTAGE)

    def charge_time(self, context: RequestContext, seconds: float) -> float:
        """Count time of the event loop, in seconds. As `charge`."""
        return self.charge(REQUEST_PERCENTAGE, context, seconds * 100)

    def wait_for_controller(self, context: RequestContext, milliseconds: int) -> timedelta:
        """Let the connection wait because the controller says so (KIP-599). Return how long."""
        self._wait(CONTROLLER_MUTATION_RATE, context, milliseconds / 1000)
        return timedelta(milliseconds=milliseconds)

    def charge(self, key: str, context: RequestContext, amount: float) -> float:
        """Count `amount` for the client, and return for how many seconds it has to wait; 0 for a
        client within its quota. Its connection waits from now on."""
        found = self._find_bucket(key, context)
        if found is None:
            return 0.0
        bucket, quota = found
        now = trio.current_time()
        bucket.use(amount, quota, now=now)
        return self._wait(key, context, bucket.wait_s(quota, now=now))

    def overdrawn(self, key: str, context: RequestContext) -> float:
        """Return for how many seconds the client has to wait before it uses more; 0 for none. Its connection
        waits from now on."""
        return self._wait(key, context, self.debt_s(key, context))

    def debt_s(self, key: str, context: RequestContext) -> float:
        """As `overdrawn`, without a wait of the connection."""
        found = self._find_bucket(key, context)
        if found is None:
            return 0.0
        bucket, quota = found
        wait_s = bucket.wait_s(quota, now=trio.current_time())
        return min(wait_s, _REQUEST_WAIT_MAX_S) if key == REQUEST_PERCENTAGE else wait_s

    def room(self, key: str, context: RequestContext) -> float | None:
        """Return how much the client may use without waiting; None for no limit."""
        found = self._find_bucket(key, context)
        if found is None:
            return None
        bucket, quota = found
        return bucket.room(quota, now=trio.current_time())

    @staticmethod
    def requester(context: RequestContext, *, strict_from: int) -> Requester:
        """Return the client for the controller. `strict_from`: the version of the request whose answers have
        THROTTLING_QUOTA_EXCEEDED."""
        return Requester(
            user=_user(context),
            client_id=context.client_id or "",
            strict=context.version >= strict_from,
        )

    def _find_bucket(self, key: str, context: RequestContext) -> tuple[TokenBucket, float] | None:
        image = self._image()
        if not image.has_quotas:
            return None
        found = quota_of(image, key, user=_user(context), client_id=context.client_id or "")
        if found is None:
            return None
        entity, quota = found
        used = self._used
        bucket = used.get((key, entity))
        if bucket is None:
            if len(used) >= _MOST_CLIENTS:
                used.popitem(last=False)
            bucket = used[key, entity] = TokenBucket(burst_s=self._burst_s)
        else:
            used.move_to_end((key, entity))
        return bucket, quota

    def _wait(self, key: str, context: RequestContext, seconds: float) -> float:
        if seconds <= 0:
            return 0.0
        if key == REQUEST_PERCENTAGE:
            seconds = min(seconds, _REQUEST_WAIT_MAX_S)
        self.throttled[key] += 1
        self.throttled_s[key] += seconds
        context.connection.gate.close_for(seconds)
        return seconds


def _user(context: RequestContext) -> str:
    return context.connection.principal.name
