"""A consumer or a follower by hand, which fetches in a session (KIP-227)."""

from quorate.broker.replication.foundation.requests import FetchItem, FetchOptions, SessionRef
from quorate.broker.replication.serving.plain_fetch import ParkedFetch
from quorate.log.batches.batch import read_batches
from quorate.log.batches.records import records_of


class SessionClient:
    """A client that fetches in a session and keeps what it was told."""

    def __init__(self, broker, *, with_ids=False, **options):
        """`options`: more of `FetchOptions`."""
        self.broker = broker
        self.with_ids = with_ids
        self.options = options
        self.session_id = self.epoch = 0
        self.known = {}
        """(topic, partition) to (high watermark, log start), as the last answers said."""
        self.values = {}

    async def fetch(self, *items, forget=(), max_wait_ms=0, max_bytes=1 << 20, epoch=None, session_id=None):
        """Return the answer's partitions by key."""
        ref = SessionRef(
            session_id=self.session_id if session_id is None else session_id,
            epoch=self.epoch if epoch is None else epoch,
            with_ids=self.with_ids,
        )
        named = [FetchItem(topic, number, offset, 1 << 20, *more) for topic, number, offset, *more in items]
        options = FetchOptions(items=named, max_wait_ms=max_wait_ms, max_bytes=max_bytes, **self.options)
        manager = self.broker.manager
        session = await manager.replicas.session_fetches.enter(ref, options, list(forget))
        assert session is not None, "there was no room for a session"
        if not len(session):
            self.session_id = self.epoch = 0
            return {}
        if not self.epoch:
            self.session_id, self.epoch = session.session_id, 0
        self.epoch += 1
        begun = await manager.replicas.session_fetches.begin(session, options)
        results = await begun.results() if isinstance(begun, ParkedFetch) else begun
        for each in results:
            key = (each.topic, each.partition_id)
            self.known[key] = (each.high_watermark, each.log_start_offset)
            self.values.setdefault(key, {}).update(records_by_offset(each))
        return {(each.topic, each.partition_id): each for each in results}

    def position(self, number):
        """Return the offset after all that was read of a partition of `t`."""
        return max(self.values.get(("t", number), ()), default=-1) + 1


def records_by_offset(result):
    return {
        record.offset: record.value.decode()
        for piece in result.records
        for each in read_batches(piece)
        for record in records_of(each)
    }


def values_of(result):
    return list(records_by_offset(result).values())
