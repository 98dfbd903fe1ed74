"""Whoever reads the metadata log can say why each leader, ISR and broker's state changed."""

import ast
from pathlib import Path

import pytest

import quorate.broker.controller
from quorate.broker.controller.operations.brokers import fence_broker
from quorate.broker.controller.operations.leaderships import elect_preferred
from quorate.broker.metadata.metadata_records import (
    BrokerRegistrationChange,
    ChangeReason,
    PartitionChange,
)
from tests.broker.controller.images import from_snapshot

WHY = ChangeReason


def said(cluster, at: int = 0) -> list[ChangeReason | None]:
    """The reasons of the changes from there on."""
    return [
        record.reason
        for record in cluster.log[at:]
        if isinstance(record, PartitionChange | BrokerRegistrationChange)
    ]


@pytest.mark.costly
@pytest.mark.parametrize("record", ["PartitionChange", "BrokerRegistrationChange"])
def test_no_code_of_the_controller_makes_a_change_without_a_reason(record: str) -> None:
    silent, found = [], 0
    for path in sorted(Path(quorate.broker.controller.__file__).parent.rglob("*.py")):
        tree = ast.parse(path.read_text())
        patterns = {each.cls for each in ast.walk(tree) if isinstance(each, ast.MatchClass)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and node not in patterns and getattr(node.func, "id", "") == record:
                found += 1
                if "reason" not in {keyword.arg for keyword in node.keywords}:
                    silent.append(f"{path.name}:{node.lineno}")
    assert found
    assert not silent


def test_each_change_in_the_life_of_a_broker_says_why(cluster) -> None:
    cluster.start(1, 2, 3)
    cluster.create("t", (1, 2, 3))
    at = len(cluster.log)
    cluster.fence(1)
    cluster.beat(1)
    cluster.beat(2, fence=True)
    cluster.register(2, incarnation=1)
    cluster.beat(2)
    cluster.beat(3, stop=True)
    cluster.beat(3, stop=True, goal=0, lowest=0)
    assert said(cluster, at) == [
        *(WHY.BROKER_FENCED, WHY.BROKER_FENCED),
        WHY.BROKER_UNFENCED,
        *(WHY.BROKER_FENCED, WHY.BROKER_FENCED),
        WHY.BROKER_UNFENCED,
        *(WHY.CONTROLLED_SHUTDOWN, WHY.CONTROLLED_SHUTDOWN),
        WHY.CONTROLLED_SHUTDOWN,
    ]


def test_a_new_process_and_an_unregistered_broker_say_so_in_what_they_leave(cluster) -> None:
    cluster.start(1, 2)
    cluster.create("t", (1, 2))
    at = len(cluster.log)
    cluster.register(1, incarnation=1)
    assert said(cluster, at) == [WHY.BROKER_RESTARTED] * 2
    at = len(cluster.log)
    cluster.unregister(2)
    assert set(said(cluster, at)) == {WHY.BROKER_UNREGISTERED}


def test_a_failed_directory_says_so(cluster) -> None:
    cluster.start(1, 2, dirs=(0, 1))
    topic = cluster.create("t", (1, 2))
    at = len(cluster.log)
    cluster.assign(1, (topic, 0, 1))
    assert said(cluster, at) == [WHY.DIRECTORY_ASSIGNED]
    at = len(cluster.log)
    cluster.beat(1, failed=(1,))
    assert said(cluster, at) == [WHY.DIRECTORY_FAILED] * 2
    assert cluster.partition(topic).leader == 2


def test_an_unclean_election_says_so_whatever_led_to_it(cluster) -> None:
    cluster.start(1, 2)
    topic = cluster.create("t", (1, 2))
    cluster.fence(2)
    cluster.beat(2)
    cluster.configure("unclean.leader.election.enable", "true")
    at = len(cluster.log)
    cluster.fence(1)
    assert said(cluster, at) == [WHY.BROKER_FENCED, WHY.UNCLEAN_ELECTION]
    at = len(cluster.log)
    cluster.alter_isr(topic, 2)
    assert said(cluster, at) == [WHY.LEADER_RECOVERED]

    at = len(cluster.log)
    cluster.configure("unclean.leader.election.enable", "false")
    cluster.fence(2)
    cluster.beat(1)
    cluster.configure("unclean.leader.election.enable", "true")
    assert said(cluster, at) == [
        *(WHY.BROKER_FENCED, WHY.BROKER_FENCED),
        WHY.BROKER_UNFENCED,
        WHY.UNCLEAN_ELECTION,
    ]


def test_a_leaders_requests_say_whether_a_replica_lagged_or_caught_up(cluster) -> None:
    cluster.start(1, 2, 3)
    topic = cluster.create("t", (1, 2, 3))
    at = len(cluster.log)
    cluster.alter_isr(topic, 1, 2)
    cluster.alter_isr(topic, 1, 2, 3)
    cluster.alter_isr(topic, 1, 2, 3)
    assert said(cluster, at) == [WHY.REPLICA_LAGGED, WHY.REPLICA_CAUGHT_UP, WHY.ISR_CONFIRMED]


def test_a_reassignment_that_ends_says_so(cluster) -> None:
    cluster.start(1, 2, 3)
    topic = cluster.create("t", (1, 2))
    cluster.append(
        PartitionChange(
            topic_id=topic,
            partition_id=0,
            replicas=(3, 2, 1),
            adding_replicas=(3,),
            removing_replicas=(1,),
            reason=WHY.REASSIGNMENT,
        )
    )
    at = len(cluster.log)
    cluster.alter_isr(topic, 1, 2, 3)
    assert said(cluster, at) == [WHY.REASSIGNMENT]
    assert cluster.partition(topic).replicas == (3, 2)


def test_a_preferred_leader_and_a_lower_min_isr_say_so(cluster) -> None:
    cluster.start(1, 2, 3)
    topic = cluster.create("t", (1, 2, 3))
    cluster.configure("min.insync.replicas", "3")
    cluster.fence(1)
    cluster.beat(1)
    at = len(cluster.log)
    cluster.configure("min.insync.replicas", "2")
    assert said(cluster, at) == [WHY.CONFIG_CHANGED]
    cluster.alter_isr(topic, 1, 2, 3)
    at = len(cluster.log)
    cluster.write(tuple(elect_preferred(cluster.image, among=cluster.image.all_partitions(), static={})))
    assert said(cluster, at) == [WHY.PREFERRED_LEADER]


def test_a_new_controller_still_says_that_the_broker_shuts_down(cluster) -> None:
    cluster.start(1, 2)
    topic = cluster.create("t", (1, 2))
    cluster.patience = 0
    cluster.beat(1, stop=True)
    assert cluster.partition(topic).leader == 1
    at = len(cluster.log)
    cluster.repair()
    assert said(cluster, at) == [WHY.CONTROLLED_SHUTDOWN]
    assert cluster.partition(topic).leader == 2


@pytest.mark.parametrize("way", ["from the log", "from a snapshot"])
@pytest.mark.parametrize("reason", [WHY.BROKER_GONE, WHY.BROKER_RESTARTED, WHY.BROKER_FENCED])
def test_a_new_controller_finishes_a_fencing_with_the_reason_that_it_began_with(
    cluster, reason: WHY, way: str
) -> None:
    cluster.start(1, 2)
    cluster.create("t", (1, 2), (1, 2), (2, 1))
    cluster.piece_size = 1
    cluster.write(fence_broker(cluster.image, 1, reason=reason, last_heard_ms=None))
    cluster.work(pieces=1)
    assert cluster.image.isr_count(1) == 2
    if way == "from a snapshot":
        cluster.image = from_snapshot(cluster.image)
    at = len(cluster.log)
    cluster.repair()
    assert said(cluster, at) == [reason, reason]
    assert cluster.image.isr_count(1) == 0


def test_a_broker_that_is_back_is_out_of_service_for_no_reason(cluster) -> None:
    cluster.start(1)
    cluster.write(fence_broker(cluster.image, 1, reason=WHY.BROKER_GONE, last_heard_ms=None))
    cluster.beat(1, failed=(3,))
    assert cluster.image.broker(1).inactive_reason is WHY.BROKER_GONE
    cluster.register(1, dirs=(0, 1))
    assert cluster.image.broker(1).inactive_reason is WHY.BROKER_GONE
    assert cluster.beat(1) == "unfenced"
    assert cluster.image.broker(1).inactive_reason is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"in_controlled_shutdown": True}, WHY.CONTROLLED_SHUTDOWN), ({"fenced": True}, WHY.BROKER_FENCED)],
)
def test_a_record_of_a_version_without_reasons_is_finished_with_the_likeliest(
    cluster, change: dict[str, bool], reason: WHY
) -> None:
    cluster.start(1, 2)
    cluster.create("t", (1, 2))
    cluster.append(BrokerRegistrationChange(broker_id=1, broker_epoch=cluster.epoch(1), **change))
    at = len(cluster.log)
    cluster.repair()
    assert said(cluster, at) == [reason]
