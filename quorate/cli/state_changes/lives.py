"""The life of each state change: its request, and what became of it at each broker."""

import uuid
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from quorate.broker.replication.hosting.state_changes import ChangeKind, ChangeOutcome
from quorate.cli.state_changes.change_requests import ChangeRequest
from quorate.cli.state_changes.cluster_reports import BrokerJournal, ClusterReports, names_of

PENDING = ChangeOutcome.PENDING.value
NOT_RECEIVED = "not received"
NO_ANSWER = "no answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPart:
    """One broker's part of a change."""

    broker: int
    partition: int | None
    change: str | None
    """A `ChangeKind`; None where the broker said nothing of it."""
    outcome: str
    """A `ChangeOutcome`, `NOT_RECEIVED`, or `NO_ANSWER` of the broker."""
    problem: str | None = None
    leader_epoch: int | None = None
    received_ms: int | None = None
    """The time of its receipt by the broker's clock, since the Unix epoch."""
    duration_ms: float | None = None
    """The time from its receipt to its end, or to now while it is pending; from the request to now, where the
    broker did not report it."""

    @property
    def open(self) -> bool:
        """Return whether the broker may still have to do it."""
        return self.outcome in (PENDING, NOT_RECEIVED, NO_ANSWER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """A change from its request on. `request` is None for one that is older than what was read of the log."""

    offset: int
    request: ChangeRequest | None
    topic: str | None
    topic_id: uuid.UUID | None
    parts: tuple[BrokerPart, ...]


@dataclass(slots=True)
class _Builder:
    request: ChangeRequest | None
    topic_id: uuid.UUID | None
    parts: list[BrokerPart] = field(default_factory=list)


class _Index:
    """Requests by what they concern, in the order of their offsets."""

    def __init__(self, requests: Iterable[ChangeRequest]) -> None:
        self._one: dict[tuple[uuid.UUID, int], list[ChangeRequest]] = defaultdict(list)
        self._many: dict[uuid.UUID, list[ChangeRequest]] = defaultdict(list)
        for each in requests:
            if each.topic_id is None:
                continue
            if each.partitions is not None and len(each.partitions) == 1:
                self._one[each.topic_id, each.partitions.start].append(each)
            else:
                self._many[each.topic_id].append(each)

    def latest(
        self, topic_id: uuid.UUID, partition: int, *, up_to: int | None = None
    ) -> ChangeRequest | None:
        """Return the newest request for the partition at or below the offset."""
        many = [
            each
            for each in self._many.get(topic_id, ())
            if each.partitions is None or partition in each.partitions
        ]
        found = [
            each
            for requests in (self._one.get((topic_id, partition), []), many)
            if (each := _last(requests, up_to)) is not None
        ]
        return max(found, key=lambda each: each.offset, default=None)


def _last(requests: Sequence[ChangeRequest], up_to: int | None) -> ChangeRequest | None:
    at = len(requests) if up_to is None else bisect_right(requests, up_to, key=lambda each: each.offset)
    return requests[at - 1] if at else None


def join(
    requests: Sequence[ChangeRequest], reports: ClusterReports, *, names: Mapping[uuid.UUID, str], now_ms: int
) -> list[Life]:
    """Return the lives of all requests, and of changes whose requests are older, by rising offset. Of several
    requests for a partition in one batch, brokers carry out the last. `names`: of topics, beside those that
    `reports` has."""
    names = {**names, **names_of(tuple(reports.journals.values())), **reports.names}
    index = _Index(requests)
    built = {each.offset: _Builder(each, each.topic_id) for each in requests}
    for journal in reports.journals.values():
        _take_in(journal, index, built)
    _add_silent(index, reports, built, now_ms=now_ms)
    return [
        Life(
            offset=offset,
            request=each.request,
            topic=None if each.topic_id is None else names.get(each.topic_id),
            topic_id=each.topic_id,
            parts=tuple(sorted(each.parts, key=lambda part: (part.partition or 0, part.broker))),
        )
        for offset, each in sorted(built.items())
    ]


def _take_in(journal: BrokerJournal, index: _Index, built: dict[int, _Builder]) -> None:
    for each in () if journal.answer is None else journal.answer.changes:
        if each.topic_id is None:
            continue
        partition, offset = int(each.partition_index), int(each.metadata_offset)
        request = index.latest(each.topic_id, partition, up_to=offset)
        if request is None:
            home = built.setdefault(offset, _Builder(None, each.topic_id))
        else:
            home = built[request.offset]
        home.parts.append(
            BrokerPart(
                broker=journal.broker_id,
                partition=partition,
                change=each.change,
                outcome=each.outcome,
                problem=each.problem,
                leader_epoch=None if each.change == ChangeKind.DELETE.value else int(each.leader_epoch),
                received_ms=int(each.received_ms),
                duration_ms=each.duration_us / 1000,
            )
        )


def _add_silent(index: _Index, reports: ClusterReports, built: dict[int, _Builder], *, now_ms: int) -> None:
    """Add the brokers that have not said what became of the last request for one of their replicas."""
    for (topic_id, partition), brokers in reports.replicas.items():
        request = index.latest(topic_id, partition)
        if request is None:
            continue
        home = built[request.offset]
        reporting = {part.broker for part in home.parts if part.partition == partition}
        for broker in brokers:
            if broker not in reporting:
                silent = _silent(reports.journals.get(broker), broker, request, partition, now_ms)
                if silent is not None:
                    home.parts.append(silent)


def _silent(
    journal: BrokerJournal | None, broker: int, request: ChangeRequest, partition: int, now_ms: int
) -> BrokerPart | None:
    if journal is None or journal.answer is None:
        outcome, problem = NO_ANSWER, "the broker is not live" if journal is None else journal.problem
    elif journal.answer.received_offset < request.offset:
        outcome, problem = NOT_RECEIVED, None
    else:
        return None  # it was received, and is no longer kept
    return BrokerPart(
        broker=broker,
        partition=partition,
        change=None,
        outcome=outcome,
        problem=problem,
        duration_ms=float(max(now_ms - request.time_ms, 0)),
    )


def narrow(
    lives: Iterable[Life], *, topic: str | None, partition: int | None, broker: int | None, pending: bool
) -> list[Life]:
    """Return the lives of interest, with the parts of interest. What concerns a broker as a whole is left out
    where a topic or what is pending was asked for."""
    found = []
    for life in lives:
        if topic is not None and life.topic != topic:
            continue
        parts = tuple(
            part
            for part in life.parts
            if partition in (None, part.partition)
            and broker in (None, part.broker)
            and (part.open or not pending)
        )
        request = life.request
        if not parts:
            of_broker = request is not None and life.topic_id is None and broker in (None, *request.replicas)
            of_partition = (
                request is not None
                and life.topic_id is not None
                and broker is None
                and (partition is None or request.partitions is None or partition in request.partitions)
            )
            if pending or not (of_broker or of_partition):
                continue
        found.append(replace(life, parts=parts))
    return found
