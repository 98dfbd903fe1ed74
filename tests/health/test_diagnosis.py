"""Each problem is found in an observation that shows it, and not in one a hair away."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import pytest

from quorate.broker.metadata.metadata_records import ChangeReason
from quorate.health import catalogue, diagnose
from quorate.health.catalogue import CATALOGUE, Severity
from quorate.health.observation import (
    BrokerChange,
    BrokerFacts,
    BrokerReport,
    CertificateFacts,
    ControllerFacts,
    DamageFacts,
    DirectoryFacts,
    MetadataFacts,
    Observation,
    Part,
    PartitionChangeFacts,
    PartitionFacts,
    PendingChange,
    Place,
    QuorumFacts,
    RecentChanges,
    VoterFacts,
)
from quorate.health.observing import with_age

NOW: Final = 1_800_000_000_000
DAY: Final = 86_400_000
NODES: Final = (1, 2, 3)


def voter(node: int, *, fetched_ms: int = 200, caught_up_ms: int = 300, end: int = 90) -> VoterFacts:
    return VoterFacts(
        node=node,
        directory=f"d{node}",
        log_end_offset=end,
        last_fetch_ms=NOW - fetched_ms,
        last_caught_up_ms=NOW - caught_up_ms,
    )


def quorum(*voters: VoterFacts, now_ms: int = NOW, observers: tuple[VoterFacts, ...] = ()) -> QuorumFacts:
    own = voter(1, fetched_ms=0, caught_up_ms=0)
    return QuorumFacts(leader=1, epoch=7, now_ms=now_ms, voters=(own, *voters), observers=observers)


def part_of(facts: QuorumFacts | None) -> Part[QuorumFacts]:
    return Part(source="the brokers", at_ms=NOW, facts=facts, problem=None if facts else "no answer")


def partition(**changes: object) -> PartitionFacts:
    values: dict[str, object] = {"leader": 1, "replicas": NODES, "isr": NODES, "min_isr": 2, **changes}
    return PartitionFacts(**values)  # type: ignore[arg-type]


def metadata(
    partitions: Mapping[Place, PartitionFacts] | None = None,
    *,
    brokers: tuple[BrokerFacts, ...] = (),
    recent: RecentChanges | None = None,
    features: Mapping[str, int] | None = None,
) -> MetadataFacts:
    known = {node: BrokerFacts(broker=node, feature_levels={"metadata.version": 1}) for node in NODES}
    known |= {each.broker: each for each in brokers}
    return MetadataFacts(
        offset=100,
        brokers=known,
        partitions={Place("t", 0): partition()} if partitions is None else partitions,
        features={"metadata.version": 1} if features is None else features,
        recent=RecentChanges(since_ms=NOW - DAY) if recent is None else recent,
    )


def observed(
    of: MetadataFacts | None = None,
    *,
    described: QuorumFacts | None = None,
    report: BrokerReport | None = None,
    rebalancing: Mapping[str, int] | None = None,
) -> Observation:
    well = BrokerReport(directories=(DirectoryFacts(path="/d", usable_bytes=50, total_bytes=100),))
    return Observation(
        now_ms=NOW,
        reach="-b h:1",
        brokers_reach="-b h:1",
        quorum=part_of(quorum(voter(2), voter(3)) if described is None else described),
        metadata=Part(source="the log", at_ms=NOW, facts=metadata() if of is None else of),
        reports={
            node: Part(
                source=f"broker {node}", at_ms=NOW, facts=well if report is None or node > 1 else report
            )
            for node in NODES
        },
        rebalancing_since_ms={} if rebalancing is None else rebalancing,
    )


def fence(
    *ago_ms: int, reason: ChangeReason = ChangeReason.BROKER_GONE, broker: int = 3, **more: BrokerChange
) -> RecentChanges:
    changes = tuple(
        BrokerChange(time_ms=NOW - ago, fenced=True, reason=reason, last_heard_ms=NOW - ago - 500)
        for ago in ago_ms
    )
    return RecentChanges(since_ms=NOW - DAY, brokers={broker: (*more.values(), *changes)})


def fenced(broker: int = 3, reason: ChangeReason = ChangeReason.BROKER_GONE) -> BrokerFacts:
    return BrokerFacts(broker=broker, fenced=True, reason=reason, feature_levels={"metadata.version": 1})


def changed(**values: object) -> RecentChanges:
    change = PartitionChangeFacts(time_ms=NOW - 60_000, **values)  # type: ignore[arg-type]
    return RecentChanges(since_ms=NOW - DAY, partitions={Place("t", 0): (change,)})


def lagged(ago_ms: int) -> RecentChanges:
    change = PartitionChangeFacts(time_ms=NOW - ago_ms, isr=(1, 2), reason=ChangeReason.REPLICA_LAGGED)
    return RecentChanges(since_ms=NOW - DAY, partitions={Place("t", 0): (change,)})


def of_partition(state: PartitionFacts, recent: RecentChanges | None = None) -> Observation:
    return observed(metadata({Place("t", 0): state}, recent=recent))


def elections(count: int) -> Observation:
    return observed(
        metadata(
            recent=RecentChanges(
                since_ms=NOW - DAY, elections=tuple(NOW - 60_000 - each for each in range(count, 0, -1))
            )
        )
    )


def disk(usable: int, total: int = 1000) -> Observation:
    return observed(
        report=BrokerReport(directories=(DirectoryFacts(path="/d", usable_bytes=usable, total_bytes=total),))
    )


def pending(age_ms: float) -> Observation:
    change = PendingChange(place=Place("t", 0), change="lead", received_ms=NOW - int(age_ms), age_ms=age_ms)
    return observed(report=BrokerReport(pending=(change,)))


def leaving(ago_ms: int) -> Observation:
    state = BrokerFacts(broker=3, in_controlled_shutdown=True, feature_levels={"metadata.version": 1})
    change = BrokerChange(time_ms=NOW - ago_ms, leaves=True, reason=ChangeReason.CONTROLLED_SHUTDOWN)
    recent = RecentChanges(since_ms=NOW - DAY, brokers={3: (change,)})
    return observed(metadata(brokers=(state,), recent=recent))


def clock(ahead_ms: int, *, controller_ms: int = 0) -> Observation:
    described = replace(quorum(voter(2), voter(3)), ahead_ms=controller_ms)
    return observed(described=described, report=BrokerReport(ahead_ms=ahead_ms))


def level(supported: int, *, name: str = "metadata.version") -> Observation:
    brokers = tuple(BrokerFacts(broker=node, feature_levels={name: supported}) for node in NODES)
    return observed(metadata(brokers=brokers, features={name: 1}))


def adding(broker: BrokerFacts) -> Observation:
    state = partition(replicas=(1, 2, 3), isr=(1, 2), adding=(3,))
    return observed(metadata({Place("t", 0): state}, brokers=(broker,), recent=lagged(60_000)))


def shown_until(left_ms: int) -> Observation:
    return observed(report=BrokerReport(certificate_end_ms=NOW + left_ms))


@dataclass(frozen=True)
class Case:
    kind: catalogue.ProblemKind
    shows: Observation
    hair: Observation
    where: str
    remedy: str


NO_LEADER_KNOWN = QuorumFacts(
    leader=None,
    controllers=(
        ControllerFacts(address="h:9", node=1, epoch=8),
        ControllerFacts(address="h:8", problem="no"),
    ),
)
LOST_DISK = replace(voter(3), directory="other")

CASES: Final = (
    Case(
        catalogue.QUORUM_WITHOUT_LEADER,
        observed(described=NO_LEADER_KNOWN),
        observed(),
        "the quorum",
        "quorate quorum describe -b h:1",
    ),
    Case(
        catalogue.MAJORITY_AT_RISK,
        observed(described=quorum(voter(2), voter(3, fetched_ms=5000, caught_up_ms=5000))),
        observed(described=quorum(voter(2), voter(3, fetched_ms=4999, caught_up_ms=4999))),
        "voter 3",
        "Start voter 3 ",
    ),
    Case(
        catalogue.VOTER_SILENT,
        observed(described=quorum(voter(2), voter(3), voter(4), voter(5, fetched_ms=6000))),
        observed(described=quorum(voter(2), voter(3), voter(4), voter(5))),
        "voter 5",
        "Start voter 5 ",
    ),
    Case(
        catalogue.VOTER_LAGGING,
        observed(described=quorum(voter(2), voter(3, caught_up_ms=10_000, end=50))),
        observed(described=quorum(voter(2), voter(3, caught_up_ms=9_999, end=50))),
        "voter 3",
        "quorate quorum describe -b h:1",
    ),
    Case(
        catalogue.VOTER_OF_ANOTHER_DISK,
        observed(
            described=quorum(
                *(voter(each) for each in (2, 4, 5)), voter(3, fetched_ms=9000), observers=(LOST_DISK,)
            )
        ),
        # The disk that was replaced is described for a while after the voter set has the new one.
        observed(described=quorum(voter(2), voter(3), observers=(LOST_DISK,))),
        "voter 3",
        "quorate quorum remove-voter 3 --directory-id d3 -b h:1",
    ),
    Case(catalogue.REPEATED_ELECTIONS, elections(5), elections(4), "the quorum", "quorate quorum describe"),
    Case(
        catalogue.BROKER_FENCED,
        observed(metadata(brokers=(fenced(),), recent=fence(1000))),
        observed(metadata(brokers=(), recent=fence(1000))),
        "broker 3",
        "quorate brokers unregister 3 -b h:1",
    ),
    Case(catalogue.BROKER_DRAINING, leaving(60_000), leaving(59_999), "broker 3", "topics describe -b h:1"),
    Case(
        catalogue.BROKER_FLAPPING,
        observed(metadata(recent=fence(300_000, 200_000, 100_000))),
        observed(metadata(recent=fence(600_001, 200_000, 100_000))),
        "broker 3",
        "quorate state-changes --broker 3 -b h:1",
    ),
    Case(
        catalogue.OFFLINE_PARTITIONS,
        of_partition(partition(leader=None, isr=(), elr=(2,))),
        of_partition(partition()),
        "t-0",
        "--election-type unclean --topic t --partition 0 -b h:1",
    ),
    Case(
        catalogue.UNDER_MIN_ISR,
        of_partition(partition(isr=(1,)), changed(isr=(1,))),
        of_partition(partition(min_isr=None, isr=NODES)),
        "t-0",
        "--add-config min.insync.replicas=1 -b h:1",
    ),
    Case(
        catalogue.UNDER_REPLICATED,
        of_partition(partition(isr=(1, 2)), lagged(15_000)),
        of_partition(partition(isr=(1, 2)), lagged(14_999)),
        "t-0",
        "quorate state-changes --topic t -b h:1",
    ),
    Case(
        catalogue.UNCLEAN_ELECTION,
        of_partition(partition(), changed(leader=2, reason=ChangeReason.UNCLEAN_ELECTION)),
        of_partition(partition(), changed(leader=2, reason=ChangeReason.PREFERRED_LEADER)),
        "t-0",
        "quorate state-changes --topic t --since 1d -b h:1",
    ),
    Case(
        catalogue.DIRECTORY_FAILED,
        observed(report=BrokerReport(directories=(DirectoryFacts(path="/d", failed=True),))),
        observed(report=BrokerReport(directories=(DirectoryFacts(path="/d"),))),
        "directory /d of broker 1",
        "restart broker 1",
    ),
    Case(catalogue.DISK_FULL, disk(9), disk(10), "directory /d of broker 1", "log-dirs describe -b h:1"),
    Case(
        catalogue.DISK_NEARLY_FULL, disk(49), disk(50), "directory /d of broker 1", "log-dirs describe -b h:1"
    ),
    Case(
        catalogue.DAMAGED_REPLICA,
        observed(report=BrokerReport(damaged=(DamageFacts(place=Place("t", 0), problem="CRC"),))),
        observed(report=BrokerReport()),
        "t-0 on broker 1",
        "quorate log-dirs refetch --replica t:0:1 -b h:1",
    ),
    Case(
        catalogue.SLOW_STATE_CHANGE,
        pending(10_000),
        pending(9_999),
        "broker 1",
        "--broker 1 --pending -b h:1",
    ),
    Case(
        catalogue.REASSIGNMENT_STUCK,
        adding(fenced()),
        adding(BrokerFacts(broker=3, feature_levels={"metadata.version": 1})),
        "t-0",
        '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2, 3]}]}',
    ),
    Case(
        catalogue.GROUP_REBALANCING,
        observed(rebalancing={"g": NOW - 60_000}),
        observed(rebalancing={"g": NOW - 59_999}),
        "group g",
        "quorate groups describe --group g -b h:1",
    ),
    Case(
        catalogue.CLOCKS_DIFFER,
        clock(-2000),
        clock(-1999),
        "broker 1",
        "chronyc",
    ),
    Case(
        catalogue.FEATURES_BEHIND,
        level(2),
        level(1),
        "metadata.version",
        "quorate features upgrade --feature metadata.version=2 -b h:1",
    ),
    Case(
        catalogue.CERTIFICATE_ENDS,
        shown_until(14 * DAY - 1),
        shown_until(14 * DAY),
        "broker 1",
        "quorate certs rotate FOLDER",
    ),
)


CASES_BY_NAME: Final = {each.kind.name: each for each in CASES}


def names(observation: Observation) -> list[str]:
    return [each.kind.name for each in diagnose(observation)]


def test_nothing_is_wrong_with_a_cluster_that_is_well() -> None:
    assert diagnose(observed()) == ()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kind.name)
def test_a_problem_is_named_with_its_place_and_remedy_and_not_a_hair_before(case: Case) -> None:
    (found,) = [each for each in diagnose(case.shows) if each.kind is case.kind]
    assert found.where == case.where
    assert case.remedy in found.remedy
    assert "{" not in found.remedy.replace(case.remedy, "")
    assert case.kind.name not in names(case.hair)


def test_every_problem_that_can_be_observed_has_a_case() -> None:
    assert {each.kind for each in CASES} == {*CATALOGUE}


def test_no_two_problems_have_a_name_in_common_and_the_worst_come_first() -> None:
    assert len({each.name for each in CATALOGUE}) == len(CATALOGUE)
    assert [each.severity for each in CATALOGUE] == sorted(each.severity for each in CATALOGUE)


def test_a_dead_broker_comes_before_what_follows_from_it_in_one_line() -> None:
    partitions = {Place("t", index): partition(isr=(1, 2)) for index in range(12)}
    partitions[Place("u", 0)] = partition(replicas=(3,), isr=(3,), leader=None, min_isr=1)
    found = diagnose(observed(metadata(partitions, brokers=(fenced(),), recent=fence(1000))))
    assert [each.kind.name for each in found] == ["broker-fenced", "offline-partitions", "under-replicated"]
    cause, _, result = found
    assert cause.why == "broker gone; last heard 0.5 s before"
    assert cause.since_ms == NOW - 1000
    assert result.where == "t-0, t-1, t-2 and 9 more"
    assert result.why == "because broker 3 is fenced"
    assert result.because_of == ("broker 3",)


def test_an_ordered_restart_is_no_problem_until_it_takes_too_long() -> None:
    def restarted(ago_ms: int) -> Observation:
        left = BrokerChange(time_ms=NOW - ago_ms, leaves=True, reason=ChangeReason.CONTROLLED_SHUTDOWN)
        recent = fence(ago_ms - 100, reason=ChangeReason.CONTROLLED_SHUTDOWN, left=left)
        broker = fenced(reason=ChangeReason.CONTROLLED_SHUTDOWN)
        return observed(
            metadata({Place("t", 0): partition(isr=(1, 2))}, brokers=(broker,), recent=recent),
            described=quorum(voter(2), voter(3, fetched_ms=20_000)),
        )

    assert names(restarted(60_000)) == []
    assert names(restarted(301_000)) == ["majority-at-risk", "broker-fenced", "under-replicated"]


def test_a_node_whose_ordered_restart_has_just_ended_may_have_been_silent_before() -> None:
    def back(ago_ms: int, *, left: bool = True) -> Observation:
        leaves = BrokerChange(time_ms=NOW - 40_000, leaves=True, reason=ChangeReason.CONTROLLED_SHUTDOWN)
        registered = BrokerChange(time_ms=NOW - ago_ms - 1000, registered=True)
        unfenced = BrokerChange(time_ms=NOW - ago_ms, fenced=False, reason=ChangeReason.BROKER_UNFENCED)
        changes = (leaves, registered, unfenced) if left else (unfenced,)
        return observed(
            metadata(recent=RecentChanges(since_ms=NOW - DAY, brokers={3: changes})),
            described=quorum(voter(2), voter(3, fetched_ms=20_000)),
        )

    assert names(back(14_999)) == []
    assert names(back(15_000)) == ["majority-at-risk"]
    assert names(back(14_999, left=False)) == ["majority-at-risk"], "nobody shut it down"


def test_a_broker_that_drains_waits_for_the_brokers_that_have_not_applied_that_it_leaves() -> None:
    def drained(*applied: int | None) -> str:
        left = leaving(60_000)
        assert left.metadata.facts is not None
        change = replace(left.metadata.facts.recent.brokers[3][0], offset=50)
        recent = replace(left.metadata.facts.recent, brokers={3: (change,)})
        reports = {
            node: Part(source=f"broker {node}", at_ms=NOW, facts=BrokerReport(applied_offset=offset))
            for node, offset in enumerate(applied, start=1)
        }
        metadata = replace(left.metadata, facts=replace(left.metadata.facts, recent=recent))
        (found,) = diagnose(replace(left, metadata=metadata, reports=reports))
        assert (found.kind, found.since_ms) == (catalogue.BROKER_DRAINING, NOW - 60_000)
        return found.why

    assert drained(50, 50) == drained(None) == "it leads 0 partitions"
    assert drained(50, 49) == "it leads 0 partitions, and broker 2 has not applied that it leaves"
    assert drained(0, 49).endswith(", and brokers 1 and 2 have not applied that it leaves")


def test_a_broker_that_drains_is_named_when_what_is_known_reaches_back_long_enough() -> None:
    draining = BrokerFacts(broker=3, in_controlled_shutdown=True, feature_levels={"metadata.version": 1})
    for known_ms, found in ((59_999, []), (60_000, ["broker-draining"])):
        recent = RecentChanges(since_ms=NOW - known_ms)
        assert names(observed(metadata(brokers=(draining,), recent=recent))) == found


def test_a_killed_broker_that_had_been_restarted_in_order_before_is_a_problem_at_once() -> None:
    left = BrokerChange(time_ms=NOW - 60_000, leaves=True, reason=ChangeReason.CONTROLLED_SHUTDOWN)
    assert names(observed(metadata(brokers=(fenced(),), recent=fence(1000, left=left)))) == ["broker-fenced"]


def test_an_ordered_restart_is_no_problem_where_there_was_no_time_to_read_the_changes() -> None:
    def unread(since_ms: int, *, left: bool) -> Observation:
        broker = replace(fenced(), in_controlled_shutdown=left)
        return observed(metadata(brokers=(broker,), recent=RecentChanges(since_ms=since_ms)))

    just_now = unread(NOW, left=True)
    assert names(just_now) == []
    (part,) = just_now.unknown
    assert part.source == "the changes of the last 5 minutes"
    assert names(unread(NOW, left=False)) == ["broker-fenced"]
    long_ago = unread(NOW - 300_000, left=True)
    assert (names(long_ago), long_ago.unknown) == (["broker-fenced"], ())


def test_a_broker_that_registers_for_the_first_time_has_some_seconds() -> None:
    def new(ago_ms: int) -> Observation:
        made = BrokerChange(time_ms=NOW - ago_ms, registered=True)
        recent = RecentChanges(since_ms=NOW - DAY, brokers={3: (made,)})
        return observed(metadata(brokers=(fenced(),), recent=recent))

    assert names(new(14_999)) == []
    assert names(new(15_000)) == ["broker-fenced"]


def test_a_leader_that_was_just_elected_need_not_have_heard_of_its_voters() -> None:
    unheard = replace(voter(3), last_fetch_ms=None, last_caught_up_ms=None)
    described = quorum(voter(2), unheard)
    new = RecentChanges(since_ms=NOW - DAY, elections=(NOW - 14_999,))
    old = RecentChanges(since_ms=NOW - DAY, elections=(NOW - 15_000,))
    assert names(observed(metadata(recent=new), described=described)) == []
    assert names(observed(metadata(recent=old), described=described)) == ["majority-at-risk"]


def test_a_partition_whose_isr_is_too_small_is_not_under_replicated_too() -> None:
    sick = of_partition(partition(isr=(1,)), changed(isr=(1,), reason=ChangeReason.REPLICA_LAGGED))
    (found,) = diagnose(sick)
    assert (found.kind, found.why, found.since_ms) == (
        catalogue.UNDER_MIN_ISR,
        "replica lagged",
        NOW - 60_000,
    )


def test_the_default_of_min_insync_replicas_counts_where_a_topic_has_none() -> None:
    one = metadata({Place("t", 0): partition(isr=(1,), min_isr=None)})
    assert "under-min-isr" not in names(observed(one))
    assert "under-min-isr" in names(observed(replace(one, default_min_isr=2)))


def moving(count: int, adding: int = 3) -> dict[Place, PartitionFacts]:
    state = partition(replicas=(1, 2, adding), isr=(1, 2), adding=(adding,))
    return {Place("t", number): state for number in range(count)}


def test_moves_that_are_stuck_for_one_reason_are_one_problem() -> None:
    brokers = (fenced(3), fenced(4))
    partitions = moving(21) | {Place("u", each.partition): state for each, state in moving(2, 4).items()}
    found = [
        each
        for each in diagnose(observed(metadata(partitions, brokers=brokers)))
        if each.kind is catalogue.REASSIGNMENT_STUCK
    ]
    assert [(each.where, each.title, each.why) for each in found] == [
        ("t-0, t-1, t-2 and 18 more", "are being moved, and do not get on", "because broker 3 is fenced"),
        ("u-0 and u-1", "are being moved, and do not get on", "because broker 4 is fenced"),
    ]
    many, few = (each.remedy for each in found)
    assert many == "Start broker 3, or cancel all moves: `quorate cluster balance --cancel -b h:1`"
    assert "Start broker 4, or cancel the moves: `echo '" in few
    text = few.partition("echo '")[2].partition("'")[0]
    assert json.loads(text) == {
        "version": 1,
        "partitions": [{"topic": "u", "partition": each, "replicas": [1, 2, 4]} for each in (0, 1)],
    }


def test_a_reassignment_that_only_removes_replicas_waits_for_those_that_stay() -> None:
    def remedies(isr: tuple[int, ...], *brokers: BrokerFacts, unregistered: int | None = None) -> list[str]:
        state = partition(isr=isr, removing=(1,))
        quiet = RecentChanges(
            since_ms=NOW - DAY,
            partitions={Place("t", 0): (PartitionChangeFacts(time_ms=NOW - 3_600_000, reassigns=True),)},
        )
        facts = metadata({Place("t", 0): state}, brokers=brokers, recent=quiet)
        known = {broker: each for broker, each in facts.brokers.items() if broker != unregistered}
        found = diagnose(observed(replace(facts, brokers=known)))
        return [
            each.remedy.partition(": `")[0] for each in found if each.kind is catalogue.REASSIGNMENT_STUCK
        ]

    assert remedies((1, 2), fenced(3)) == ["Start broker 3, or cancel the move"]
    assert remedies((1,)) == ["Start brokers 2 and 3, or cancel the move"]
    assert remedies(NODES) == remedies((1, 2), unregistered=3) == ["Cancel the move"]


def test_a_reassignment_that_adds_as_many_replicas_as_it_removes_does_not_wait_for_those_that_stay() -> None:
    state = partition(replicas=(1, 2, 3), isr=(1, 3), adding=(3,), removing=(1,))
    facts = metadata({Place("t", 0): state}, brokers=(fenced(2),), recent=lagged(60_000))
    assert "reassignment-stuck" not in names(observed(facts))


def test_what_is_over_is_named_until_it_is_long_ago() -> None:
    """The fifth of the elections, counted from the last, the third of the fences, and the last of unclean
    elections leave their windows."""
    for number, (seen, kind, last_ms) in enumerate(
        (
            (elections(7), catalogue.REPEATED_ELECTIONS, 60_005),
            (
                observed(metadata(recent=fence(400_000, 300_000, 200_000, 100_000))),
                catalogue.BROKER_FLAPPING,
                300_000,
            ),
            (CASES_BY_NAME["unclean-election"].shows, catalogue.UNCLEAN_ELECTION, 60_000),
        )
    ):
        window_ms = (catalogue.ELECTION_MINUTES * 60_000, catalogue.FLAP_MINUTES * 60_000, DAY)[number]
        (found,) = [each for each in diagnose(seen) if each.kind is kind]
        assert found.until_ms == NOW - last_ms + window_ms
        assert kind.name in names(replace(seen, now_ms=found.until_ms))
        assert kind.name not in names(replace(seen, now_ms=found.until_ms + 1))


@pytest.mark.parametrize(
    ("count", "title"),
    [(1, "has replicas that are not in sync"), (2, "have replicas that are not in sync")],
)
def test_a_title_agrees_with_the_number_of_its_places(count: int, title: str) -> None:
    sick = {Place("t", number): partition(isr=(1, 2)) for number in range(count)}
    problems = diagnose(observed(metadata(sick, brokers=(fenced(3),))))
    (found,) = [each for each in problems if each.kind is catalogue.UNDER_REPLICATED]
    assert found.title == title and str(found).endswith(title)


def test_static_voters_are_no_feature_that_is_behind() -> None:
    assert names(level(2, name="kraft.version")) == []


def test_the_clock_of_a_broker_is_compared_with_the_controllers_and_that_with_this_machines() -> None:
    (found,) = diagnose(clock(2000))
    assert (found.where, found.why) == ("broker 1", "its clock is 2.0 s ahead of the controller's")
    for broker_ms in (-2500, 0):
        (found,) = diagnose(clock(broker_ms, controller_ms=-2000))
        assert (found.where, found.why) == ("controller 1", "its clock is 2.0 s behind that of this machine")
    assert names(clock(1000, controller_ms=-1000)) == ["clocks-differ"]
    assert diagnose(clock(1000, controller_ms=-1000))[0].where == "broker 1"


def test_a_voter_that_never_was_caught_up_with_its_leader_lags_since_the_election() -> None:
    behind = replace(voter(3, end=10), last_caught_up_ms=None)
    for elected_ago_ms, found in ((9_999, []), (10_000, ["voter-lagging"])):
        recent = RecentChanges(since_ms=NOW - DAY, elections=(NOW - elected_ago_ms,))
        assert names(observed(metadata(recent=recent), described=quorum(voter(2), behind))) == found


def test_certificates_that_brokers_show_are_one_problem_with_the_first_that_ends() -> None:
    several = {
        node: Part(source=f"broker {node}", at_ms=NOW, facts=BrokerReport(certificate_end_ms=NOW + left_ms))
        for node, left_ms in ((1, 3 * DAY), (2, 2 * DAY), (3, 300 * DAY))
    }
    (found,) = diagnose(replace(observed(), reports=several))
    assert (found.where, found.title) == ("brokers 1 and 2", "have certificates that end soon")
    assert found.why == "the first that is shown to clients ends in 2.0 days, on 2027-01-17"
    (ended,) = diagnose(shown_until(-DAY // 2))
    assert ended.why == "the one that is shown to clients ended 0.5 days ago, on 2027-01-14"


def test_of_whoever_observes_the_certificate_that_ends_first_is_named_once_for_each_place() -> None:
    known = tuple(
        CertificateFacts(where=where, what=what, end_ms=NOW + left_ms)
        for where, what, left_ms in (
            ("node 2", "certificate 1 of a.pem", 9 * DAY),
            ("node 2", "certificate 2 of ca.pem", 5 * DAY),
            ("/etc/ca.pem", "certificate 1 there", 14 * DAY),
        )
    )
    (found,) = diagnose(replace(observed(), certificates=known))
    assert found.where == "node 2"
    assert found.why == "certificate 2 of ca.pem ends in 5.0 days, on 2027-01-20"


def test_a_broker_that_did_not_answer_is_not_known_with_the_age_of_its_last_fetch() -> None:
    silent: Part[BrokerReport] = Part(source="broker 3", at_ms=NOW, problem="no answer in time")
    for described in (
        quorum(voter(2), voter(3, fetched_ms=2300)),
        quorum(voter(2), observers=(voter(3, fetched_ms=2300),)),
    ):
        problem = with_age(3, silent, described).problem
        assert problem == "no answer in time; it last fetched from the quorum's leader 2.3 s ago"
    assert with_age(3, silent, quorum(voter(2))) is silent
    assert with_age(3, silent, None) is silent
    assert with_age(1, silent, quorum(voter(2), voter(3))) is silent, "the leader asks nobody"


def test_what_is_not_known_is_no_problem_and_is_listed() -> None:
    unknown = replace(
        observed(),
        quorum=part_of(None),
        reports={1: Part(source="broker 1", at_ms=NOW, problem="no answer")},
    )
    assert diagnose(unknown) == ()
    assert [part.source for part in unknown.unknown] == ["the brokers", "broker 1"]


def test_severities_have_words() -> None:
    assert [each.word for each in Severity] == ["critical", "serious", "warning"]
