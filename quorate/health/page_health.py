"""The health for the page of a node: `diagnose` in the metadata at an offset, and for the present in what the
node knows itself. It asks nobody.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import attrgetter
from typing import Final, TypeVar
from uuid import UUID

import trio

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
    BrokerRegistrationChange,
    ChangeReason,
    Partition,
    PartitionChange,
    RegisterBroker,
    Topic,
)
from quorate.broker.metadata.states import PartitionKey, PartitionState
from quorate.broker.page.node_view import NodeView
from quorate.broker.page.page_health import PROBLEMS_MAX, HealthView, ProblemView, SourceView
from quorate.broker.page.page_state import Seen
from quorate.broker.page.replayed import PageLog
from quorate.broker.replication.wiring import ReplicaServices
from quorate.health.diagnosis import Problem, diagnose_in_steps
from quorate.health.observation import (
    BrokerReport,
    CertificateFacts,
    ControllerFacts,
    DamageFacts,
    DirectoryFacts,
    MetadataFacts,
    Observation,
    Part,
    PendingChange,
    Place,
    QuorumFacts,
    RecentChanges,
)
from quorate.health.observing import GatheredChanges, metadata_facts_in_steps, quorum_facts
from quorate.history import Entry, entries_of
from quorate.log.batches.control import LeaderChange
from quorate.runtime import Slices, Steps, in_slices

T = TypeVar("T")

_LOOKED_BACK: Final = 8192
"""The records before a moment that are looked through for the changes that led to it."""
_REPORT_MS: Final = 5000
"""A node looks at its own disks so often."""
_AT_A_TIME: Final = 200
_PENDING: Final = 1000
_TELLING: Final = (
    LeaderChange,
    RegisterBroker,
    BrokerRegistrationChange,
    Topic,
    Partition,
    PartitionChange,
)
_NOT_OF_THE_PAST: Final = (
    ("the voters of the quorum", "who was silent or lagged then is not in the log"),
    ("the brokers", "what they said then of disks, damage, groups and slow changes is not in the log"),
)
_OWN_PAGE: Final = "its own page tells of them, of damage, of slow changes and of its groups"


class PageDiagnosis:
    """The `PageHealth` of the catalogue."""

    def __init__(self, *, default_min_isr: int = 1) -> None:
        """`default_min_isr`: the min.insync.replicas of the node's own file."""
        self._default_min_isr = default_min_isr
        self._past, self._present = _KnownMetadata(), _KnownMetadata()
        self._report: Part[BrokerReport] | None = None

    async def of_past(self, seen: Seen, log: PageLog) -> HealthView:
        at_ms = seen.time_ms or 0
        facts = await self._past.facts(seen, log, self._default_min_isr)
        observation = Observation(
            now_ms=at_ms,
            reach=_reach(facts),
            brokers_reach=_reach(facts),
            quorum=None,
            metadata=Part(source="the metadata log", at_ms=at_ms, facts=facts),
        )
        found = await _in_slices(diagnose_in_steps(observation))
        sources = (
            SourceView(source="the metadata log", at_ms=seen.time_ms),
            *(
                SourceView(source=name, at_ms=None, problem=why, is_elsewhere=True)
                for name, why in _NOT_OF_THE_PAST
            ),
        )
        return _view(seen, facts, found, sources)

    async def of_present(self, live: NodeView, log: PageLog) -> HealthView:
        await live.ask_leader()
        quorum = _quorum_part(live)
        seen = live.seen()
        seen = replace(seen, image=seen.image.copy())
        facts = await self._present.facts(seen, log, self._default_min_isr)
        own = await self._own_report(live)
        reports = {} if own is None else {live.node_id: own}
        observation = Observation(
            now_ms=live.now_ms(),
            reach=_reach(facts),
            brokers_reach=_reach(facts),
            quorum=quorum,
            metadata=Part(source="the metadata log", at_ms=live.now_ms(), facts=facts),
            reports=reports,
            rebalancing_since_ms={} if live.groups is None else live.groups.rebalancing_since_ms,
            certificates=tuple(
                CertificateFacts(
                    where=f"node {live.node_id}",
                    what=f"certificate {each.position} of {each.file}",
                    end_ms=each.end_ms,
                )
                for each in live.certificates()
            ),
        )
        found = await _in_slices(diagnose_in_steps(observation))
        sources = [
            _source(observation.metadata),
            _source(quorum),
            *map(_source, reports.values()),
            *(
                SourceView(
                    source=f"the disks of broker {each.broker}",
                    at_ms=None,
                    problem=_OWN_PAGE,
                    is_elsewhere=True,
                )
                for each in facts.brokers.values()
                if not each.fenced and each.broker not in reports
            ),
        ]
        return _view(seen, facts, found, sources)

    async def _own_report(self, live: NodeView) -> Part[BrokerReport] | None:
        if live.replicas is None:
            return None
        known, now_ms = self._report, live.now_ms()
        if known is None or not 0 <= now_ms - known.at_ms < _REPORT_MS:
            report = await _report_of(live.replicas, live)
            known = self._report = Part(
                source=f"the disks of broker {live.node_id}", at_ms=now_ms, facts=report
            )
        return known


@dataclass(slots=True)
class _KnownMetadata:
    """The facts at the last offset that was asked for, and the records before it."""

    _window: "_Window" = field(default_factory=lambda: _Window())
    _suspects: "_Suspects" = field(default_factory=lambda: _Suspects())
    _facts: MetadataFacts | None = None
    _offset: int = -1
    _turn: trio.Lock = field(default_factory=trio.Lock)

    async def facts(self, seen: Seen, log: PageLog, default_min_isr: int) -> MetadataFacts:
        async with self._turn:
            known = self._facts
            if known is None or self._offset != seen.offset:
                suspects = await _in_slices(self._suspects.of(seen.image))
                recent = await self._window.changes(seen, log, suspects)
                known = self._facts = await _in_slices(
                    metadata_facts_in_steps(
                        seen.image, recent, default_min_isr=default_min_isr, only=suspects
                    )
                )
                self._offset = seen.offset
            return known


@dataclass(frozen=True, slots=True)
class _SuspectsOfTopic:
    partitions: Sequence[PartitionState]
    """What they were found in. Images share it with their copies until one of them changes the topic."""
    keys: tuple[PartitionKey, ...]


class _Suspects:
    """The partitions that may have a problem. The others take no further time, and topics that are as they
    were none at all."""

    def __init__(self) -> None:
        self._known: dict[UUID, _SuspectsOfTopic] = {}
        self._active: frozenset[int] = frozenset()

    def of(self, image: MetadataImage) -> Steps[dict[PartitionKey, None]]:
        """Return them in their order. Nobody may change the image any more, only copies of it."""
        active = frozenset(each.broker_id for each in image.brokers.values() if each.active)
        known = self._known if active == self._active else {}
        now: dict[UUID, _SuspectsOfTopic] = {}
        found: dict[PartitionKey, None] = {}
        for count, topic_id in enumerate(image.topics):
            partitions = image.partitions(topic_id)
            suspects = known.get(topic_id)
            if suspects is None or suspects.partitions is not partitions:
                suspects = yield from _suspects_of(topic_id, partitions, active)
                yield
            now[topic_id] = suspects
            found.update(dict.fromkeys(suspects.keys))
            if count % _AT_A_TIME == 0:
                yield
        self._known, self._active = now, active
        return found


def _suspects_of(
    topic_id: UUID, partitions: Sequence[PartitionState], active: frozenset[int]
) -> Steps[_SuspectsOfTopic]:
    keys: list[PartitionKey] = []
    for number, state in enumerate(partitions):
        if state.leader not in active or len(state.isr) < len(state.replicas) or state.is_reassigning:
            keys.append(PartitionKey(topic_id, number))
        if number % _AT_A_TIME == _AT_A_TIME - 1:
            yield
    return _SuspectsOfTopic(partitions, tuple(keys))


class _Window:
    """A part of the log that was looked through: what told of brokers, partitions and elections."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()
        self._start = self._end = 0

    async def changes(self, seen: Seen, log: PageLog, suspects: dict[PartitionKey, None]) -> RecentChanges:
        """Return the changes that led to a moment, of brokers and of `suspects`. Adds the partitions to these
        that had an unclean election."""
        reach = log.reach()
        end = min(seen.offset + 1, reach.end)
        start = max(reach.start, end - _LOOKED_BACK)
        await self._cover(start, end, log)
        # What ran before has had a slice of its own.
        await trio.lowlevel.checkpoint()
        slices = Slices()
        first = bisect_left(self._entries, start, key=attrgetter("offset"))
        last = bisect_left(self._entries, end, key=attrgetter("offset"))
        found = list(islice(self._entries, first, last))
        gathered = GatheredChanges({})
        for each in found:
            await slices.pause()
            record = each.record
            if isinstance(record, Partition | PartitionChange):
                key = PartitionKey(record.topic_id, record.partition_id)
                if (
                    isinstance(record, PartitionChange)
                    and record.reason is ChangeReason.UNCLEAN_ELECTION
                    and seen.image.partition(*key) is not None
                ):
                    suspects.setdefault(key)
                if key not in suspects:
                    continue
                topic = seen.image.topic_by_id(record.topic_id)
                if topic is not None:
                    gathered.names[record.topic_id] = topic.name
            gathered.add(each)
        await trio.lowlevel.checkpoint()
        recent = gathered.frozen(since_ms=0 if start == 0 or not found else found[0].timestamp_ms)
        await trio.lowlevel.checkpoint()
        return recent

    async def _cover(self, start: int, end: int, log: PageLog) -> None:
        if start > self._end or end < self._start:
            self._entries.clear()
            self._start = self._end = start
        if start < self._start:
            self._entries.extendleft(reversed(await _told(log, start, self._start)))
            self._start = start
        if end > self._end:
            self._entries.extend(await _told(log, self._end, end))
            self._end = end
        # Whoever goes back and forth finds the neighbours here, and memory stays bounded.
        if self._end - self._start > 4 * _LOOKED_BACK:
            while self._entries and self._entries[0].offset < start:
                self._entries.popleft()
            while self._entries and self._entries[-1].offset >= end:
                self._entries.pop()
            self._start, self._end = start, end


async def _in_slices(steps: Steps[T]) -> T:
    # What ran before has had a slice of its own.
    await trio.lowlevel.checkpoint()
    return await in_slices(steps)


async def _told(log: PageLog, start: int, end: int) -> list[Entry]:
    found: list[Entry] = []
    await trio.lowlevel.checkpoint()
    at, slices = start, Slices()
    while at < end and (batches := await log.read(at, end)):
        for batch in batches:
            if not log.skips(batch):
                for entry in entries_of(batch, start=at, end=end):
                    if isinstance(entry.record, _TELLING):
                        found.append(entry)
                    await slices.pause()
            at = max(at, batch.header.end_offset)
            await slices.pause()
    return found


def _source(part: Part[MetadataFacts] | Part[QuorumFacts] | Part[BrokerReport]) -> SourceView:
    return SourceView(
        source=part.source, at_ms=None if part.facts is None else part.at_ms, problem=part.problem
    )


def _quorum_part(live: NodeView) -> Part[QuorumFacts]:
    """Return what the leader described last. A node that finds no leader says so: others may know one."""
    source, quorum = "the leader of the quorum", live.quorum
    described, now_ms = live.described, live.now_ms()
    if quorum.leader is None:
        answer = ControllerFacts(
            address=f"node {live.node_id}", problem=quorum.health.reason or "it finds no leader"
        )
        return Part(source=source, at_ms=now_ms, facts=QuorumFacts(leader=None, controllers=(answer,)))
    if described is None or described.leader != quorum.leader or described.epoch != quorum.epoch:
        return Part(source=source, at_ms=now_ms, problem=f"node {quorum.leader} has not described it yet")
    return Part(
        source=source,
        at_ms=live.described_ms,
        facts=quorum_facts(described, live.asked_ms, live.described_ms),
    )


async def _report_of(replicas: ReplicaServices, live: NodeView) -> BrokerReport:
    stats, now = replicas.stats, trio.current_time()
    unused = replicas.directories.unused_dirs
    return BrokerReport(
        directories=tuple(
            DirectoryFacts(
                path=path,
                failed=path in unused,
                usable_bytes=stats.usable_bytes.get(path),
                total_bytes=stats.total_bytes.get(path),
            )
            for path in dict.fromkeys((*stats.usable_bytes, *unused))
        ),
        damaged=tuple(
            DamageFacts(
                place=Place(topic, partition), problem=found if isinstance(found, str) else found.problem
            )
            for topic, partition, found in await replicas.hosted.damages()
        ),
        pending=tuple(
            PendingChange(
                place=Place(each.topic, each.partition_id),
                change=each.kind.value,
                received_ms=each.cause.at_ms,
                age_ms=(now - each.since.at) * 1000,
                problem=each.problem,
            )
            for each in replicas.journal.pending()[:_PENDING]
        ),
    )


def _reach(facts: MetadataFacts) -> str:
    """Return the option that reaches the brokers that are live."""
    live = [each.address for each in facts.brokers.values() if not each.fenced and each.address is not None]
    return f"-b {','.join(live) or 'HOST:PORT'}"


def _view(
    seen: Seen,
    facts: MetadataFacts,
    problems: tuple[Problem, ...],
    sources: "tuple[SourceView, ...] | list[SourceView]",
) -> HealthView:
    return HealthView(
        offset=seen.offset,
        problems=tuple(
            ProblemView(
                name=each.kind.name,
                severity=each.kind.severity.word,
                where=each.where,
                title=each.title,
                why=each.why,
                since_ms=each.since_ms,
                until_ms=each.until_ms,
                meaning=each.kind.meaning,
                threatens=each.kind.threatens,
                remedy=each.remedy,
                alert=None if each.kind.alert is None else each.kind.alert.words,
                pages=tuple(dict.fromkeys((each.kind.section, each.kind.page))),
            )
            for each in problems[:PROBLEMS_MAX]
        ),
        total=len(problems),
        sources=sources,
        changes_since_ms=facts.recent.since_ms or None,
    )
