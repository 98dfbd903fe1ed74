"""The rate at which clients may have partitions created and deleted, `controller_mutation_rate` (KIP-599).

The active controller enforces it, whichever broker a client asks, and remembers it in memory alone: after a
failover every client may have a burst again, as in Kafka.
"""

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import trio

from quorate.broker.controller.rpc import Requester
from quorate.broker.metadata.api_error import ApiError
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import QuotaEntity
from quorate.broker.metadata.quota_precedence import CONTROLLER_MUTATION_RATE, quota_of
from quorate.error_code import ErrorCode
from quorate.runtime import TokenBucket

_BURST_S: Final = 11.0
"""Kafka's `controller.quota.window.num` times `controller.quota.window.size.seconds`."""
_MOST_CLIENTS: Final = 10_000
"""The number of clients whose changes are remembered. Above it, the one that was quiet for longest is
forgotten."""


class MutationQuotas:
    """The rates of all clients, on the active controller."""

    def __init__(self, image: Callable[[], MetadataImage | None]) -> None:
        """`image`: that of the active controller; None while it is not active."""
        self._image = image
        self._used: OrderedDict[QuotaEntity, TokenBucket] = OrderedDict()

    def of(self, who: Requester | None) -> "MutationQuota":
        """Return the quota that one request is charged to. `who`: None for a request without a client."""
        return MutationQuota(self, who)

    def bucket(self, who: Requester) -> tuple[TokenBucket, float] | None:
        """Return the bucket of the client and its partitions per second, or None for no limit."""
        image = self._image()
        if image is None or not image.has_quota(CONTROLLER_MUTATION_RATE):
            return None
        found = quota_of(image, CONTROLLER_MUTATION_RATE, user=who.user, client_id=who.client_id)
        if found is None:
            return None
        entity, rate = found
        bucket = self._used.get(entity)
        if bucket is None:
            if len(self._used) >= _MOST_CLIENTS:
                self._used.popitem(last=False)
            bucket = self._used[entity] = TokenBucket(burst_s=_BURST_S)
        else:
            self._used.move_to_end(entity)
        return bucket, rate


class MutationQuota:
    """The charge of one request to the rate of its client."""

    def __init__(self, quotas: MutationQuotas, who: Requester | None) -> None:
        self._quotas = quotas
        self._who = who
        self.throttle_ms = 0
        """The time that the client has to wait."""

    def charge(self, partitions: int) -> None:
        """Count partitions that are created or deleted. Raises `ApiError` if the client is above its rate and
        its version knows that error: then do not change them. A change is never refused halfway, so one may
        go over."""
        found = None if self._who is None else self._quotas.bucket(self._who)
        if found is None or self._who is None:
            return
        bucket, rate = found
        now = trio.current_time()
        if self._who.strict:
            self._wait(bucket.wait_s(rate, now=now))
            if self.throttle_ms:
                raise ApiError(
                    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                    f"The client is above its {rate:g} partitions per second ({CONTROLLER_MUTATION_RATE}); "
                    f"try again after {self.throttle_ms} ms.",
                )
            bucket.use(partitions, rate, now=now)
        else:
            bucket.use(partitions, rate, now=now)
            self._wait(bucket.wait_s(rate, now=now))

    def _wait(self, seconds: float) -> None:
        # What a client can be told, and a connection waits for, has an end.
        self.throttle_ms = min(math.ceil(seconds * 1000), (1 << 31) - 1)
