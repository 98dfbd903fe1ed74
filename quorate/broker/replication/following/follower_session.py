"""A follower's side of its fetch session with one leader (KIP-227): what the leader knows of its fetches, so
that a request names only what differs."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from quorate.broker.wire.codecs import FetchPartition, FetchTopic, ForgottenTopic
from quorate.error_code import ErrorCode
from quorate.runtime import Steps

FetchKey: TypeAlias = tuple[str | uuid.UUID, int]
"""A partition, with its topic by id or, to an old leader, by name."""

_NO_SESSION: Final = 0
_LAST_EPOCH: Final = 2**31 - 1
_AT_ONCE: Final = 1000
"""Partitions in one step: less than 1 ms."""
LOST_SESSION: Final = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
"""Errors after which the follower begins anew with a full request."""


class FollowerSession:
    """`restart` at the beginning of each connection; then `name` and `forget`, `sent` and `answered`, in
    turn. In a session, a request may be sent before the last one is answered."""

    __slots__ = ("_asked", "epoch", "session_id")

    def __init__(self) -> None:
        self.session_id = _NO_SESSION
        self.epoch = 0
        self._asked: dict[FetchKey, FetchPartition] = {}

    @property
    def incremental(self) -> bool:
        """Return whether the next request names only what differs from `asks`."""
        return self.epoch > 0

    def restart(self) -> None:
        """Fetch everything next. The leader, if it still knows the session, closes it."""
        self.epoch = 0
        self._asked.clear()

    def __len__(self) -> int:
        """Return the number of partitions that the leader is asked for."""
        return len(self._asked)

    def asks(self, key: FetchKey) -> FetchPartition | None:
        """Return what the leader was last asked for."""
        return self._asked.get(key)

    def name(self, key: FetchKey, part: FetchPartition) -> bool:
        """Ask for `part`. Return whether the request has to name it."""
        if self._asked.get(key) == part:
            return False
        self._asked[key] = part
        return True

    def forget(self, key: FetchKey) -> bool:
        """Ask for it no longer. Return whether the request has to say so."""
        return self._asked.pop(key, None) is not None

    def sent(self) -> None:
        """A request was sent: the leader lets the epoch move on when it arrives."""
        if self.incremental:
            self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1

    def answered(self, error: ErrorCode, session_id: int) -> None:
        """Take in the top of the leader's answer. The session is lost if it is not `incremental` then."""
        if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self.session_id = _NO_SESSION
        if error is not ErrorCode.NONE or session_id == _NO_SESSION:
            if error is ErrorCode.NONE:
                self.session_id = _NO_SESSION
            self.restart()
            return
        self.session_id = session_id
        if not self.incremental:
            self.epoch = 1


def by_topic(parts: Mapping[FetchKey, FetchPartition]) -> Steps[Sequence[FetchTopic]]:
    """Return partitions as a request names them, in steps."""
    topics: dict[str | uuid.UUID, list[FetchPartition]] = {}
    for number, ((topic, _), part) in enumerate(parts.items(), 1):
        topics.setdefault(topic, []).append(part)
        if number % _AT_ONCE == 0:
            yield
    return tuple(
        FetchTopic(None, topic, named) if isinstance(topic, uuid.UUID) else FetchTopic(topic, None, named)
        for topic, named in topics.items()
    )


def forgotten_by_topic(keys: Iterable[FetchKey]) -> Steps[Sequence[ForgottenTopic]]:
    """Return partitions that are fetched no longer as a request names them, in steps."""
    topics: dict[str | uuid.UUID, list[int]] = {}
    for number, (topic, partition_id) in enumerate(keys, 1):
        topics.setdefault(topic, []).append(partition_id)
        if number % _AT_ONCE == 0:
            yield
    return tuple(
        ForgottenTopic(None, topic, ids) if isinstance(topic, uuid.UUID) else ForgottenTopic(topic, None, ids)
        for topic, ids in topics.items()
    )
