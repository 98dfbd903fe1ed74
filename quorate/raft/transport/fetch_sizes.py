"""The bytes that a follower asks for in a fetch: what the link carries in time."""

from dataclasses import replace
from typing import Final, TypeAlias

from quorate.raft.core import FetchRequest, FetchSnapshotRequest

_LEAST_BYTES: Final = 1024

AnyFetch: TypeAlias = FetchRequest | FetchSnapshotRequest


class FetchSizes:
    """Owns the limit of `max_bytes` in this node's fetches.

    An answer that takes longer than the fetch timeout is of no use: the follower stands meanwhile, is
    refused, and asks for the same again, behind the rest of the old answer. So over a slow link one that is
    far behind would never catch up. A fetch without an answer halves the limit, and each answer raises it by
    an eighth. A batch is sent whole, however large: the link has to carry the largest in time.
    """

    __slots__ = ("_limit", "_max", "_waits_for")

    def __init__(self, max_bytes: int) -> None:
        self._max = self._limit = max_bytes
        self._waits_for: int | None = None
        """The correlation of the last request, until it is answered."""

    def limited(self, request: AnyFetch) -> AnyFetch:
        """Return the request, which is sent now, with no more than the limit. One that asks for no bytes
        stays as it is."""
        if not request.max_bytes:
            return request
        if self._waits_for is not None:
            self._limit = max(_LEAST_BYTES, self._limit // 2)
        self._waits_for = request.correlation
        return request if request.max_bytes <= self._limit else replace(request, max_bytes=self._limit)

    def note_answer(self, correlation: int) -> None:
        """Record an answer. Only that to the last request counts: earlier ones come late."""
        if correlation == self._waits_for:
            self._waits_for = None
            self._limit = min(self._max, self._limit + self._limit // 8)
