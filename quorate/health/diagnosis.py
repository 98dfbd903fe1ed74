"""The problems in an observation: each once, a cause before what follows from it, the worst first."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from typing import Final, TypeAlias

from quorate.broker.metadata.metadata_records import NO_LEADER, ChangeReason
from quorate.health import catalogue
from quorate.health.catalogue import ProblemKind
from quorate.health.observation import (
    BrokerChange,
    BrokerFacts,
    BrokerReport,
    CertificateFacts,
    MetadataFacts,
    Observation,
    PartitionChangeFacts,
    PartitionFacts,
    Place,
    QuorumFacts,
    RecentChanges,
    VoterFacts,
)
from quorate.runtime import Steps, at_once

_SHOWN: Final = 3
"""The places of a problem that are named."""
_KRAFT_VERSION: Final = "kraft.version"
"""A cluster may stay at its level for ever: static voters are no unfinished upgrade."""
_AT_A_TIME: Final = 50
"""Partitions between two pauses."""
_SORTED_MAX: Final = 2000
"""More problems of a kind stay as they were found: sorting 10,000 takes 6 ms in one piece. A disk may have so
many damaged replicas."""
_CANCELLED: Final = 20
"""So many reassignments are named in the command that cancels them. For more, it cancels all."""
_CAUSES: Final = (catalogue.BROKER_FENCED, catalogue.BROKER_FLAPPING)
"""Problems from which others follow."""


_Problems: TypeAlias = "Iterator[Problem | None]"
"""Problems, and None where others may run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem of a cluster."""

    kind: ProblemKind
    where: str
    """`orders-0, orders-3 and 12 more`, `broker 2`, `voter 3`."""
    why: str
    """Empty: nothing tells."""
    since_ms: int | None
    """By the controllers' clocks. None: longer than is known, or unknown."""
    remedy: str
    """With commands that can be run as they are."""
    because_of: tuple[str, ...] = ()
    """The `where` of the problems from which it follows."""

    of_many: bool = False
    """It is of several places."""
    until_ms: int | None = None
    """It is a memory of what has happened, until then by the same clocks unless it happens again. None: it
    lasts as long as its cause."""

    @property
    def title(self) -> str:
        """What is wrong, as the end of a sentence that begins with `where`."""
        return (self.of_many and self.kind.title_of_many) or self.kind.title

    def __str__(self) -> str:
        return f"{self.kind.severity.word}: {self.where} {self.title}"


def diagnose(observation: Observation) -> tuple[Problem, ...]:
    """Return the problems, the worst first. One that follows from others comes behind the last of these."""
    return at_once(diagnose_in_steps(observation))


def diagnose_in_steps(observation: Observation) -> Steps[tuple[Problem, ...]]:
    """Do the same where nothing may hold up an event loop."""
    found: list[Problem] = []
    if observation.quorum is not None and observation.quorum.facts is not None:
        found += _of_quorum(observation, observation.quorum.facts)
    if observation.metadata.facts is not None:
        for each in _Metadata(observation, observation.metadata.facts).problems():
            if each is None:
                yield
            else:
                found.append(each)
    for broker, part in observation.reports.items():
        if part.facts is not None:
            found += _of_report(observation, broker, part.facts)
    found += _of_groups(observation)
    found += _of_certificates(observation)
    return (yield from _ordered(found))


def _ordered(found: Sequence[Problem]) -> Steps[tuple[Problem, ...]]:
    """Return the worst first. A cause takes the place of the worst of its consequences."""
    rank = {kind.name: index for index, kind in enumerate(catalogue.CATALOGUE)}
    worst: dict[str, int] = {}
    for count, each in enumerate(found):
        for cause in each.because_of:
            worst[cause] = min(worst.get(cause, len(rank)), each.kind.severity)
        if count % _AT_A_TIME == 0:
            yield
    alike: dict[tuple[int, bool, int], list[Problem]] = defaultdict(list)
    for count, each in enumerate(found):
        severity: int = each.kind.severity
        if each.kind in _CAUSES:
            severity = min(severity, worst.get(each.where, severity))
        alike[severity, bool(each.because_of), rank[each.kind.name]].append(each)
        if count % _AT_A_TIME == 0:
            yield
    ordered: list[Problem] = []
    for kind in sorted(alike):
        of_kind = alike[kind]
        if len(of_kind) <= _SORTED_MAX:
            of_kind.sort(key=attrgetter("where"))
        ordered += of_kind
        yield
    return tuple(ordered)


def _problem(
    observation: Observation,
    kind: ProblemKind,
    where: str,
    *,
    why: str = "",
    since_ms: int | None = None,
    because_of: tuple[str, ...] = (),
    many: bool = False,
    until_ms: int | None = None,
    **values: object,
) -> Problem:
    return Problem(
        kind=kind,
        until_ms=until_ms,
        where=where,
        of_many=many,
        why=why,
        since_ms=since_ms,
        because_of=because_of,
        remedy=kind.remedy.format(reach=observation.reach, brokers=observation.brokers_reach, **values),
    )


def listed(words: Iterable[object], *, most: int = _SHOWN) -> str:
    """Return the words in a sentence, the first of them if there are many."""
    found = list(words)
    texts = [str(each) for each in found[:most]]
    if len(found) > most:
        return f"{', '.join(texts)} and {len(found) - most} more"
    return (
        texts[0] if len(texts) == 1 else " and ".join((", ".join(texts[:-1]), texts[-1])) if texts else "none"
    )


def _brokers(brokers: Sequence[int]) -> str:
    return f"broker{'' if len(brokers) == 1 else 's'} {listed(brokers, most=9)}"


def _words(reason: ChangeReason | None) -> str:
    return "" if reason is None else reason.name.lower().replace("_", " ")


# The quorum


def _of_quorum(observation: Observation, quorum: QuorumFacts) -> Iterator[Problem]:
    if quorum.leader is None:
        answers = [
            f"{each.address}: {each.problem}"
            if each.problem is not None
            else f"node {each.node} at {each.address} answers"
            + (f", in epoch {each.epoch}" if each.epoch is not None else "")
            for each in quorum.controllers
        ]
        yield _problem(
            observation, catalogue.QUORUM_WITHOUT_LEADER, "the quorum", why=listed(answers, most=9)
        )
        return
    yield from _of_voters(observation, quorum)
    if abs(quorum.ahead_ms) >= _ms(catalogue.CLOCK_S):
        yield _problem(
            observation,
            catalogue.CLOCKS_DIFFER,
            f"controller {quorum.leader}",
            why=f"its clock is {_ahead(quorum.ahead_ms)} that of this machine",
        )


def _of_voters(observation: Observation, quorum: QuorumFacts) -> Iterator[Problem]:
    newer = {each.node: each for each in quorum.observers}
    replaced = [
        voter
        for voter in quorum.voters
        if voter.directory is not None
        and voter.node in newer
        and newer[voter.node].directory not in (None, voter.directory)
        # The disk that was removed from the voters is known for a while, too.
        and (newer[voter.node].last_fetch_ms or 0) > (voter.last_fetch_ms or 0)
    ]
    for voter in replaced:
        yield _problem(
            observation,
            catalogue.VOTER_OF_ANOTHER_DISK,
            f"voter {voter.node}",
            why=f"the voter set has directory {voter.directory}, the node {newer[voter.node].directory}",
            voter=voter.node,
            directory=voter.directory,
        )
    others = [each for each in quorum.voters if each.node != quorum.leader and each not in replaced]
    silent = [each for each in others if _is_silent(observation, quorum, each)]
    planned = _planned(observation, or_just_back=True)
    unplanned = [each for each in silent if each.node not in planned]
    if unplanned:
        working = len(quorum.voters) - len(silent) - len(replaced)
        at_risk = working <= len(quorum.voters) // 2 + 1
        yield _problem(
            observation,
            catalogue.MAJORITY_AT_RISK if at_risk else catalogue.VOTER_SILENT,
            f"voter {listed(each.node for each in silent)}",
            why=f"{working} of {len(quorum.voters)} voters answer",
            since_ms=_earliest(each.last_fetch_ms for each in silent),
            voters=listed(each.node for each in silent),
        )
    for voter in others:
        if voter in silent or voter.node in planned or voter.last_fetch_ms is None:
            continue
        # One that never was caught up with this leader lags since its election.
        caught_up = voter.last_caught_up_ms or _last_election_ms(observation)
        if caught_up is None:
            continue
        if quorum.now_ms - caught_up >= catalogue.LAG_S * 1000:
            yield _problem(
                observation,
                catalogue.VOTER_LAGGING,
                f"voter {voter.node}",
                why=_behind(quorum, voter),
                since_ms=caught_up,
                voter=voter.node,
            )


def _is_silent(observation: Observation, quorum: QuorumFacts, voter: VoterFacts) -> bool:
    if voter.last_fetch_ms is not None:
        return quorum.now_ms - voter.last_fetch_ms >= _ms(catalogue.SILENT_S)
    # A leader that was just elected has not heard of it yet.
    elected_ms = _last_election_ms(observation)
    return elected_ms is None or quorum.now_ms - elected_ms >= _ms(catalogue.SETTLE_S)


def _last_election_ms(observation: Observation) -> int | None:
    """Return when the quorum's leader was elected; None: longer ago than is known."""
    metadata = observation.metadata.facts
    elections = () if metadata is None else metadata.recent.elections
    return elections[-1] if elections else None


def _behind(quorum: QuorumFacts, voter: VoterFacts) -> str:
    end = max((each.log_end_offset or 0 for each in quorum.voters), default=0)
    return "" if voter.log_end_offset is None else f"{end - voter.log_end_offset} records behind the leader"


def _ms(seconds: float) -> int:
    return int(seconds * 1000)


def _earliest(times: Iterable[int | None]) -> int | None:
    """Return the earliest; None if one is not known."""
    found = list(times)
    known = [each for each in found if each is not None]
    return min(known) if known and len(known) == len(found) else None


def _ahead(difference_ms: int) -> str:
    return f"{abs(difference_ms) / 1000:.1f} s {'ahead of' if difference_ms > 0 else 'behind'}"


def _planned(observation: Observation, *, or_just_back: bool = False) -> frozenset[int]:
    """Return the nodes that were shut down in order, so shortly ago that they are expected back. With
    `or_just_back` those, too, that have just come back: on a busy machine the voters were described before,
    and the brokers after it."""
    metadata = observation.metadata.facts
    if metadata is None:
        return frozenset()
    recent, since_ms = metadata.recent, observation.now_ms - _ms(catalogue.SETTLE_S)

    def is_away(broker: BrokerFacts) -> bool:
        changes = recent.brokers.get(broker.broker, ())
        return not broker.active or (or_just_back and bool(changes) and changes[-1].time_ms > since_ms)

    return frozenset(
        each.broker
        for each in metadata.brokers.values()
        if is_away(each) and _is_planned(observation, each, recent)
    )


def _is_planned(observation: Observation, broker: BrokerFacts, recent: RecentChanges) -> bool:
    changes = recent.brokers.get(broker.broker, ())
    if not changes:
        # The log was not read so far back: the broker's state alone says that it began to leave.
        unread = observation.now_ms - recent.since_ms < _ms(catalogue.PLANNED_S)
        return broker.in_controlled_shutdown and unread
    leaving = [each for each in changes if each.leaves or each.reason is ChangeReason.CONTROLLED_SHUTDOWN]
    left_ms = leaving[-1].time_ms if leaving else None
    # Since then it may have registered again: it starts.
    if any(each.fenced and each not in leaving and (left_ms or 0) < each.time_ms for each in changes):
        return False
    if left_ms is not None and observation.now_ms - left_ms < _ms(catalogue.PLANNED_S):
        return True
    last = changes[-1]
    return last.registered and observation.now_ms - last.time_ms < _ms(catalogue.SETTLE_S)


# Brokers and partitions


@dataclass(slots=True)
class _Sick:
    """Partitions with the same problem for the same reason."""

    places: list[Place] = field(default_factory=list)
    since_ms: list[int | None] = field(default_factory=list)
    why: str = ""


class _Metadata:
    def __init__(self, observation: Observation, metadata: MetadataFacts) -> None:
        self._observation = observation
        self._brokers = metadata.brokers
        self._metadata = metadata
        self._recent = metadata.recent
        self._planned = _planned(observation)
        self._say = partial(_problem, observation)
        self._live = {each.broker for each in self._brokers.values() if each.active}
        self._fenced = {each.broker for each in self._brokers.values() if each.fenced}

    def problems(self) -> _Problems:
        for broker in self._brokers.values():
            yield from self._of_broker(broker)
        yield from self._of_partitions()
        yield from self._of_elections()
        yield from self._of_features()

    def _old(self, time_ms: int | None, seconds: float) -> bool:
        """Return whether this is as long ago. None: longer than is known."""
        return time_ms is None or self._observation.now_ms - time_ms >= _ms(seconds)

    def _of_broker(self, broker: BrokerFacts) -> Iterator[Problem]:
        changes = self._recent.brokers.get(broker.broker, ())
        fences = [each for each in changes if each.fenced]
        window_ms = self._observation.now_ms - _ms(60 * catalogue.FLAP_MINUTES)
        lately = [
            each
            for each in fences
            if each.time_ms >= window_ms and each.reason is not ChangeReason.CONTROLLED_SHUTDOWN
        ]
        where = f"broker {broker.broker}"
        if len(lately) >= catalogue.FLAPS:
            yield self._say(
                catalogue.BROKER_FLAPPING,
                where,
                why=f"fenced {len(lately)} times in {catalogue.FLAP_MINUTES} minutes, last because "
                f"{_fence_words(lately[-1])}",
                since_ms=lately[0].time_ms,
                until_ms=lately[-catalogue.FLAPS].time_ms + _ms(60 * catalogue.FLAP_MINUTES),
                broker=broker.broker,
            )
        if broker.fenced and broker.broker not in self._planned:
            last = fences[-1] if fences else None
            yield self._say(
                catalogue.BROKER_FENCED,
                where,
                why=_words(broker.reason) if last is None else _fence_words(last),
                since_ms=None if last is None else last.time_ms,
                broker=broker.broker,
            )
        elif broker.in_controlled_shutdown and not broker.fenced:
            began = next((each for each in reversed(changes) if each.leaves), None)
            # If it began before what is known of, that is no longer ago than this.
            began_ms = self._recent.since_ms if began is None else began.time_ms
            if self._old(began_ms, catalogue.DRAIN_S):
                yield self._say(
                    catalogue.BROKER_DRAINING,
                    where,
                    since_ms=None if began is None else began_ms,
                    why=f"it leads {self._led_by(broker.broker)} partitions" + self._unaware(began),
                )

    def _unaware(self, change: BrokerChange | None) -> str:
        """Return which brokers are known not to have applied a change."""
        if change is None or change.offset is None:
            return ""
        reports = ((broker, part.facts) for broker, part in self._observation.reports.items())
        behind = [
            broker
            for broker, facts in reports
            if facts is not None and facts.applied_offset is not None and facts.applied_offset < change.offset
        ]
        return (
            f", and {_brokers(behind)} {'has' if len(behind) == 1 else 'have'} not applied that it leaves"
            if behind
            else ""
        )

    def _led_by(self, broker: int) -> int:
        return sum(each.leader == broker for each in self._metadata.partitions.values())

    # Partitions

    def _of_partitions(self) -> _Problems:
        sick: dict[tuple[str, tuple[int, ...], int], _Sick] = defaultdict(_Sick)
        kinds: dict[str, ProblemKind] = {}
        for count, (place, state) in enumerate(self._metadata.partitions.items()):
            if count % _AT_A_TIME == 0:
                yield None
            judged = self._judge(place, state)
            if judged is None:
                continue
            kind, since_ms, why = judged
            kinds[kind.name] = kind
            group = sick[kind.name, self._missing(kind, state), len(state.isr)]
            group.places.append(place)
            group.since_ms.append(since_ms)
            group.why = group.why or why
        for (name, missing, _), group in sick.items():
            yield None
            group.places.sort()
            yield None
            yield self._grouped(kinds[name], missing, group)
        yield from self._of_reassignments()
        yield from self._of_unclean_elections()

    def _missing(self, kind: ProblemKind, state: PartitionFacts) -> tuple[int, ...]:
        if kind is catalogue.OFFLINE_PARTITIONS:
            return tuple(sorted(state.isr or state.elr or state.replicas))
        return tuple(sorted(set(state.replicas) - set(state.isr) - set(state.adding)))

    def _judge(self, place: Place, state: PartitionFacts) -> tuple[ProblemKind, int | None, str] | None:
        changes = self._recent.partitions.get(place, ())
        if state.leader is None or state.leader in self._fenced or state.leader not in self._brokers:
            return catalogue.OFFLINE_PARTITIONS, *_trailing(changes, _has_no_leader)
        missing = self._missing(catalogue.UNDER_REPLICATED, state)
        if not missing:
            return None
        # More than there are replicas can't be asked for.
        needed = min(state.min_isr or self._metadata.default_min_isr, len(state.replicas))
        if len(state.isr) < needed:
            return catalogue.UNDER_MIN_ISR, *_trailing(changes, partial(_has_isr_below, size=needed))
        if self._planned.issuperset(missing):
            return None
        size = len(state.replicas) - len(state.adding)
        since = _trailing(changes, partial(_has_isr_below, size=size))
        dead = any(each not in self._live and each not in self._planned for each in missing)
        failed = set(missing) & set(state.in_failed_directory)
        if dead or failed or self._old(since[0], catalogue.SETTLE_S):
            return catalogue.UNDER_REPLICATED, *since
        return None

    def _grouped(self, kind: ProblemKind, missing: tuple[int, ...], group: _Sick) -> Problem:
        places = group.places
        states = [self._metadata.partitions[each] for each in places]
        dead = [each for each in missing if each not in self._live]
        failed = sorted({each for state in states for each in state.in_failed_directory} & set(missing))
        causes = [
            *(f"broker {each} {self._state_of(each)}" for each in dead),
            *(f"a directory of broker {each} is offline" for each in failed if each not in dead),
        ]
        why = f"because {listed(causes)}" if causes else group.why
        first = places[0]
        return self._say(
            kind,
            listed(places),
            many=len(places) > 1,
            why=why,
            since_ms=_earliest(group.since_ms),
            because_of=tuple(
                f"broker {each}" for each in dead if each in self._fenced and each not in self._planned
            ),
            topic=first.topic,
            partition=first.partition,
            missing=_brokers(missing),
            candidates=_brokers(missing),
            isr_size=max(len(states[0].isr), 1),
        )

    def _state_of(self, broker: int) -> str:
        known = self._brokers.get(broker)
        if known is None:
            return "is not registered"
        if broker in self._planned:
            return "is being restarted"
        return "is fenced" if known.fenced else "shuts down"

    def _of_reassignments(self) -> _Problems:
        stuck: dict[tuple[tuple[int, ...], tuple[int, ...]], _Sick] = defaultdict(_Sick)
        for count, (place, state) in enumerate(self._metadata.partitions.items()):
            if count % _AT_A_TIME == 0:
                yield None
            if not state.adding and not state.removing:
                continue
            changes = self._recent.partitions.get(place, ())
            last_ms = changes[-1].time_ms if changes else None
            awaited = self._awaited(state)
            dead = [each for each in awaited if each not in self._live and each not in self._planned]
            if not dead and not self._old(last_ms, catalogue.REASSIGNMENT_S):
                continue
            began = [each.time_ms for each in changes if each.reassigns]
            group = stuck[tuple(sorted(dead)), tuple(sorted(dead or awaited))]
            group.places.append(place)
            group.since_ms.append(began[-1] if began else last_ms)
        for (dead_brokers, missing), group in stuck.items():
            yield None
            group.places.sort()
            yield None
            places = group.places
            moves, cancel = self._cancelling(places)
            yield self._say(
                catalogue.REASSIGNMENT_STUCK,
                listed(places),
                many=len(places) > 1,
                why=f"because {listed(f'broker {each} {self._state_of(each)}' for each in dead_brokers)}"
                if dead_brokers
                else "nothing was recorded of it since",
                since_ms=_earliest(group.since_ms),
                because_of=tuple(f"broker {each}" for each in dead_brokers if each in self._fenced),
                begin=f"Start {_brokers(missing)}, or cancel" if missing else "Cancel",
                moves=moves,
                cancel=cancel,
            )

    def _awaited(self, state: PartitionFacts) -> list[int]:
        """Return for which brokers a reassignment waits (`operations/reassignments.py`): one that removes
        more replicas than it adds for all that it keeps, if they are registered."""
        fewer = len(state.adding) < len(state.removing)
        return [
            each
            for each in state.replicas
            if each not in state.isr
            and (each in state.adding or (fewer and each not in state.removing and each in self._brokers))
        ]

    def _cancelling(self, places: Sequence[Place]) -> tuple[str, str]:
        """Return which moves are cancelled, and by which command."""
        if len(places) > _CANCELLED:
            return "all moves", "quorate cluster balance --cancel"
        return (
            "the move" if len(places) == 1 else "the moves",
            _cancel((each, self._metadata.partitions[each]) for each in places),
        )

    def _of_unclean_elections(self) -> _Problems:
        start_ms = self._observation.now_ms - _ms(3600 * catalogue.UNCLEAN_HOURS)
        found: dict[Place, list[int]] = {}
        for count, (place, changes) in enumerate(self._recent.partitions.items()):
            if count % _AT_A_TIME == 0:
                yield None
            times = [
                each.time_ms
                for each in changes
                if each.reason is ChangeReason.UNCLEAN_ELECTION and each.time_ms >= start_ms
            ]
            if times and place in self._metadata.partitions:
                found[place] = times
        places = sorted(found)
        if places:
            yield self._say(
                catalogue.UNCLEAN_ELECTION,
                listed(places),
                why="no replica that was sure to have all committed records could lead",
                since_ms=min(time_ms for place in places for time_ms in found[place]),
                until_ms=max(time_ms for place in places for time_ms in found[place])
                + _ms(3600 * catalogue.UNCLEAN_HOURS),
                topic=places[0].topic,
            )

    # The rest of the log

    def _of_elections(self) -> Iterator[Problem]:
        start_ms = self._observation.now_ms - _ms(60 * catalogue.ELECTION_MINUTES)
        lately = [each for each in self._recent.elections if each >= start_ms]
        if len(lately) >= catalogue.ELECTIONS:
            yield self._say(
                catalogue.REPEATED_ELECTIONS,
                "the quorum",
                why=f"{len(lately)} elections in {catalogue.ELECTION_MINUTES} minutes",
                since_ms=lately[0],
                until_ms=lately[-catalogue.ELECTIONS] + _ms(60 * catalogue.ELECTION_MINUTES),
            )

    def _of_features(self) -> Iterator[Problem]:
        brokers = self._brokers.values()
        for name in sorted({each for broker in brokers for each in broker.feature_levels}):
            supported = min(each.feature_levels.get(name, 0) for each in brokers)
            level = self._metadata.features.get(name, 0)
            if name != _KRAFT_VERSION and level < supported:
                yield self._say(
                    catalogue.FEATURES_BEHIND,
                    name,
                    why=f"level {level}, and all brokers support {supported}",
                    feature=name,
                    level=supported,
                )


def _fence_words(fence: BrokerChange) -> str:
    words = _words(fence.reason)
    if fence.last_heard_ms is not None:
        words += f"; last heard {(fence.time_ms - fence.last_heard_ms) / 1000:.1f} s before"
    return words


def _has_no_leader(change: PartitionChangeFacts) -> bool | None:
    return None if change.leader is None else change.leader == NO_LEADER


def _has_isr_below(change: PartitionChangeFacts, *, size: int) -> bool | None:
    return None if change.isr is None else len(change.isr) < size


def _trailing(
    changes: Sequence[PartitionChangeFacts], is_sick: Callable[[PartitionChangeFacts], bool | None]
) -> tuple[int | None, str]:
    """Return the time and the reason of the first change since which all were sick; `is_sick` may not know of
    a change. None: it was so before what is known."""
    found: PartitionChangeFacts | None = None
    for each in reversed(changes):
        sick = is_sick(each)
        if sick is False:
            break
        found = each if sick else found
    return (None, "") if found is None else (found.time_ms, _words(found.reason))


def _cancel(moves: Iterable[tuple[Place, PartitionFacts]]) -> str:
    """Return the command that cancels these reassignments."""
    partitions = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "replicas": [each for each in state.replicas if each not in state.removing],
        }
        for place, state in moves
    ]
    text = json.dumps({"version": 1, "partitions": partitions})
    return (
        f"echo '{text}' > cancel.json; quorate reassign-partitions cancel "
        "--reassignment-json-file cancel.json"
    )


# What brokers say of themselves


def _of_report(observation: Observation, broker: int, report: BrokerReport) -> Iterator[Problem]:
    for directory in report.directories:
        where = f"directory {directory.path} of broker {broker}"
        if directory.failed:
            yield _problem(observation, catalogue.DIRECTORY_FAILED, where, broker=broker)
            continue
        usable, total = directory.usable_bytes, directory.total_bytes
        if usable is None or not total:
            continue
        percent = 100 * usable / total
        if percent < catalogue.NEARLY_FULL_PERCENT:
            full = percent < catalogue.FULL_PERCENT
            yield _problem(
                observation,
                catalogue.DISK_FULL if full else catalogue.DISK_NEARLY_FULL,
                where,
                why=f"{percent:.1f} % can be used: {usable // 1_000_000} MB",
            )
    for damage in report.damaged:
        yield _problem(
            observation,
            catalogue.DAMAGED_REPLICA,
            f"{damage.place} on broker {broker}",
            why=damage.problem,
            topic=damage.place.topic,
            partition=damage.place.partition,
            broker=broker,
        )
    slow = [each for each in report.pending if each.age_ms >= _ms(catalogue.SLOW_CHANGE_S)]
    if slow:
        oldest = max(slow, key=lambda each: each.age_ms)
        yield _problem(
            observation,
            catalogue.SLOW_STATE_CHANGE,
            f"broker {broker}",
            why=f"{oldest.change} of {listed(dict.fromkeys(each.place for each in slow))}"
            + (f": {oldest.problem}" if oldest.problem else ""),
            since_ms=oldest.received_ms,
            broker=broker,
        )
    ahead_ms = _clock_of(observation, report)
    if abs(ahead_ms) >= _ms(catalogue.CLOCK_S):
        yield _problem(
            observation,
            catalogue.CLOCKS_DIFFER,
            f"broker {broker}",
            why=f"its clock is {_ahead(ahead_ms)} the controller's",
        )


def _clock_of(observation: Observation, report: BrokerReport) -> int:
    """Return how far the broker's clock is ahead of the active controller's; 0: it is not known, or it is the
    controller's that is wrong, since this machine's agrees with the broker's."""
    quorum = None if observation.quorum is None else observation.quorum.facts
    if report.ahead_ms is None or quorum is None:
        return 0
    bound = _ms(catalogue.CLOCK_S)
    if abs(quorum.ahead_ms) >= bound > abs(report.ahead_ms):
        return 0
    return report.ahead_ms - quorum.ahead_ms


def _of_certificates(observation: Observation) -> Iterator[Problem]:
    bound_ms = observation.now_ms + _ms(86_400 * catalogue.CERTIFICATE_DAYS)
    ends = {
        broker: part.facts.certificate_end_ms
        for broker, part in observation.reports.items()
        if part.facts is not None and part.facts.certificate_end_ms is not None
    }
    shown = sorted(broker for broker, end_ms in ends.items() if end_ms < bound_ms)
    if shown:
        first_ms = min(ends[each] for each in shown)
        yield _problem(
            observation,
            catalogue.CERTIFICATE_ENDS,
            _brokers(shown),
            many=len(shown) > 1,
            why=f"the {'first' if len(shown) > 1 else 'one'} that is shown to clients "
            f"{_ends(first_ms, observation.now_ms)}",
        )
    own: dict[str, CertificateFacts] = {}
    for each in sorted(observation.certificates, key=attrgetter("end_ms")):
        if each.end_ms < bound_ms:
            own.setdefault(each.where, each)
    for each in own.values():
        why = f"{each.what} {_ends(each.end_ms, observation.now_ms)}"
        yield _problem(observation, catalogue.CERTIFICATE_ENDS, each.where, why=why)


def _ends(end_ms: int, now_ms: int) -> str:
    date = datetime.fromtimestamp(end_ms / 1000, UTC).date().isoformat()
    days = abs(end_ms - now_ms) / 86_400_000
    return f"{f'ended {days:.1f} days ago' if end_ms <= now_ms else f'ends in {days:.1f} days'}, on {date}"


def _of_groups(observation: Observation) -> Iterator[Problem]:
    since: Mapping[str, int] = observation.rebalancing_since_ms
    for group, since_ms in sorted(since.items()):
        if observation.now_ms - since_ms >= _ms(catalogue.REBALANCE_S):
            yield _problem(
                observation, catalogue.GROUP_REBALANCING, f"group {group}", since_ms=since_ms, group=group
            )
