"""The requests for state changes as the metadata log has them: offset, time, controller, epoch, reason."""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from quorate.broker.metadata.metadata_records import Topic
from quorate.broker.metadata.record_words import reason_words, words_of
from quorate.cli.console.connections import network
from quorate.history import ClusterLog, Entry, entries_of
from quorate.log.batches.control import LeaderChange
from quorate.runtime import Address


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequest:
    """A record that asks brokers for a change."""

    offset: int
    time_ms: int
    """The time by the controller's clock, since the Unix epoch."""
    epoch: int
    """The epoch of the controller."""
    controller: int | None
    """The node that was the active controller in that epoch; None: the log no longer says."""
    topic_id: uuid.UUID | None
    """None: the record concerns a broker as a whole."""
    partitions: range | None
    """The partitions that it concerns; None: all of the topic, or none."""
    what: str
    """The request in words."""
    reason: str | None
    replicas: tuple[int, ...] = ()
    """The brokers that it names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """The requests since some time, and the names of the topics that were created since."""

    requests: list[ChangeRequest]
    names: dict[uuid.UUID, str]
    end_offset: int
    """The end (exclusive) of what is committed."""


def read_requests(
    addresses: Sequence[Address], *, since_ms: int | None, timeout_ms: int, controllers: bool = False
) -> Requests:
    """Read the log from the first record that is not older than `since_ms` (since the Unix epoch) on; None:
    from its start. `controllers`: the addresses are of controllers. Raises `LogUnavailableError`."""
    log = ClusterLog(
        bootstrap_servers=tuple(addresses),
        request_timeout_ms=timeout_ms,
        controllers=controllers,
        network=network(),
    )
    extent = log.extent()
    start = extent.start_offset if since_ms is None else log.offset_at(since_ms)
    if start is None:
        return Requests(requests=[], names={}, end_offset=extent.end_offset)
    entries = list(_entries(log, max(start, extent.start_offset), extent.end_offset))
    leaders = {each.epoch: each.record.leader for each in entries if isinstance(each.record, LeaderChange)}
    for epoch in {each.epoch for each in entries} - leaders.keys():
        leader = _leader_of(log, epoch, first=extent.start_offset)
        if leader is not None:
            leaders[epoch] = leader
    names = {each.record.topic_id: each.record.name for each in entries if isinstance(each.record, Topic)}
    found = [made for each in entries if (made := _request(each, leaders.get(each.epoch))) is not None]
    return Requests(requests=found, names=names, end_offset=extent.end_offset)


def _entries(log: ClusterLog, start: int, end: int) -> Iterator[Entry]:
    for batch in log.batches(start, end):
        yield from entries_of(batch, start=start, end=end)


def _leader_of(log: ClusterLog, epoch: int, *, first: int) -> int | None:
    """The log of an epoch begins with the record that names its leader, where the epoch before ends."""
    begin = max(log.epoch_end(epoch - 1), 0)
    if begin < first:
        return None
    for each in _entries(log, begin, begin + 1):
        if isinstance(each.record, LeaderChange) and each.epoch == epoch:
            return each.record.leader
    return None


def _request(entry: Entry, controller: int | None) -> ChangeRequest | None:
    """Return the request of a record; None if it asks no broker for anything."""
    words = words_of(entry.record, time_ms=entry.timestamp_ms)
    if words is None:
        return None
    return ChangeRequest(
        offset=entry.offset,
        time_ms=entry.timestamp_ms,
        epoch=entry.epoch,
        controller=controller,
        topic_id=words.topic_id,
        partitions=words.partitions,
        what=words.what,
        reason=reason_words(words.reason),
        replicas=words.replicas,
    )
