"""The use of every client that has a quota, and for how long it has to wait.

A broker enforces quotas by itself, as Kafka's do: each gives a client that much. Whoever has used more is
told so in its answer (`throttle_time_ms`), and its connection is not read for that time (KIP-219).
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import trio

from quorate.broker.metadata import MetadataImage, QuotaEntity, quota_of
from quorate.broker.wire import RequestContext
from quorate.runtime import QuotaWindows, TokenBucket

_MOST_CLIENTS: Final = 10_000
"""Whose use is remembered, because clients draw their ids as they like. Above, who was quiet for longest is
forgotten."""


class ClientThrottles:
    """Costs nothing while there are no quotas."""

    def __init__(self, image: Callable[[], MetadataImage], windows: QuotaWindows) -> None:
        self._image = image
        self._burst_s = windows.burst_s
        self._used: OrderedDict[tuple[str, QuotaEntity], TokenBucket] = OrderedDict()

    def charge(self, key: str, context: RequestContext, amount: float) -> float:
        """Count `amount` for the client, and return for how many seconds it has to wait; 0 for a
        client within its quota. Its connection waits from now on."""
        found = self._of(key, context)
        if found is None:
            return 0.0
        bucket, quota = found
        now = trio.current_time()
        bucket.use(amount, quota, now=now)
        return self._wait(context, bucket.wait_s(quota, now=now))

    def overdrawn(self, key: str, context: RequestContext) -> float:
        """Return for how many seconds the client has to wait before it uses more; 0 for none. Its connection
        waits from now on."""
        found = self._of(key, context)
        if found is None:
            return 0.0
        bucket, quota = found
        return self._wait(context, bucket.wait_s(quota, now=trio.current_time()))

    def room(self, key: str, context: RequestContext) -> float | None:
        """Return how much the client may use without waiting; None for no limit."""
        found = self._of(key, context)
        if found is None:
            return None
        bucket, quota = found
        return bucket.room(quota, now=trio.current_time())

    def _of(self, key: str, context: RequestContext) -> tuple[TokenBucket, float] | None:
        image = self._image()
        if not image.has_quotas:
            return None
        user = context.connection.principal.partition(":")[2]
        found = quota_of(image, key, user=user, client_id=context.client_id or "")
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

    def _wait(self, context: RequestContext, seconds: float) -> float:
        if seconds <= 0:
            return 0.0
        context.connection.gate.close_for(seconds)
        return seconds
