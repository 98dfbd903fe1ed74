import uuid

import pytest

from quorate.broker.controller.operations.requested_elections import elect_leaders
from quorate.broker.controller.rpc import ElectionType, ElectLeadersItem, ElectLeadersRequest
from quorate.broker.metadata.metadata_records import (
    NO_LEADER,
    ChangeReason,
    LeaderRecoveryState,
    PartitionChange,
)
from quorate.error_code import ErrorCode

PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN


def ask(cluster, election_type: ElectionType, *items: tuple[str, int]) -> list[tuple[str, int, str, str]]:
    request = ElectLeadersRequest(
        election_type=election_type,
        partitions=tuple(ElectLeadersItem(topic=topic, partition_id=number) for topic, number in items),
    )
    response = cluster.do(elect_leaders(cluster.image, request, static=cluster.static))
    assert response.error is ErrorCode.NONE
    cluster.check_between_pieces()
    return [
        (each.topic, each.partition_id, each.error.name, each.error_message or "")
        for each in response.results
    ]


def codes(answer: list[tuple[str, int, str, str]]) -> list[str]:
    return [error for _, _, error, _ in answer]


@pytest.mark.bug("KAFKA-13162")
def test_the_first_replica_leads_again_when_it_is_asked_for(cluster) -> None:
    cluster.start(1, 2)
    topic = cluster.create("t", (1, 2), (2, 1))
    cluster.fence(1)
    cluster.beat(1)
    assert cluster.partition(topic).leader == 2
    assert codes(ask(cluster, PREFERRED, ("t", 0))) == ["PREFERRED_LEADER_NOT_AVAILABLE"], "not in sync yet"
    state = cluster.partition(topic)
    cluster.append(grown(topic, (*state.isr, 1)))
    epoch = state.leader_epoch
    answer = ask(cluster, PREFERRED, ("t", 0), ("t", 1), ("t", 0))
    assert codes(answer) == ["NONE", "ELECTION_NOT_NEEDED", "ELECTION_NOT_NEEDED"]
    after = cluster.partition(topic)
    assert (after.leader, after.leader_epoch) == (1, epoch + 1)
    assert cluster.log[-1].reason is ChangeReason.PREFERRED_LEADER


def grown(topic: uuid.UUID, isr: tuple[int, ...]) -> PartitionChange:
    return PartitionChange(topic_id=topic, partition_id=0, isr=isr, reason=ChangeReason.REPLICA_CAUGHT_UP)


@pytest.mark.bug("KAFKA-13162")
def test_a_preferred_leader_that_is_fenced_is_not_available_and_the_answer_says_why(cluster) -> None:
    cluster.start(1, 2)
    topic = cluster.create("t", (1, 2))
    cluster.fence(1)
    at = len(cluster.log)
    [(_, _, error, message)] = ask(cluster, PREFERRED, ("t", 0))
    assert error == "PREFERRED_LEADER_NOT_AVAILABLE"
    assert message == "Broker 1 can't lead t-0: the first replica is not in sync."
    assert len(cluster.log) == at
    assert cluster.partition(topic).leader == 2


@pytest.mark.parametrize("election_type", ElectionType)
def test_an_unknown_partition_has_its_error_and_spoils_no_other(cluster, election_type) -> None:
    cluster.start(1)
    cluster.create("t", (1,))
    answer = ask(cluster, election_type, ("gone", 0), ("t", 1), ("t", -1), ("t", 0))
    unknown = "UNKNOWN_TOPIC_OR_PARTITION"
    assert codes(answer) == [unknown, unknown, unknown, "ELECTION_NOT_NEEDED"]
    assert [message for *_, message in answer][:2] == ["No such topic as gone", "No such partition as t-1"]


@pytest.mark.bug("KAFKA-13162")
def test_an_unclean_election_is_for_partitions_without_a_leader_whatever_the_topic_says(cluster) -> None:
    cluster.start(1, 2)
    topic = cluster.create("t", (1, 2))
    cluster.fence(2)
    cluster.fence(1)
    assert cluster.partition(topic).leader == NO_LEADER
    [(_, _, error, message)] = ask(cluster, UNCLEAN, ("t", 0))
    assert error == "ELIGIBLE_LEADERS_NOT_AVAILABLE"
    assert "every replica is fenced" in message
    cluster.beat(2)
    assert cluster.partition(topic).leader == NO_LEADER, "it lacks records, perhaps"
    assert codes(ask(cluster, UNCLEAN, ("t", 0))) == ["NONE"]
    state = cluster.partition(topic)
    assert (state.leader, state.isr) == (2, (2,))
    assert state.leader_recovery_state is LeaderRecoveryState.RECOVERING
    assert cluster.log[-1].reason is ChangeReason.UNCLEAN_ELECTION
    [(_, _, error, message)] = ask(cluster, UNCLEAN, ("t", 0))
    assert (error, message) == ("ELECTION_NOT_NEEDED", "Broker 2 leads t-0 already.")


def test_an_unclean_election_takes_a_replica_with_every_record_if_there_is_one(cluster) -> None:
    cluster.start(1, 2)
    topic = cluster.create("t", (1, 2))
    cluster.fence(2)
    cluster.fence(1)
    cluster.patience = 0
    cluster.beat(1)
    cluster.beat(2)
    assert cluster.partition(topic).leader == NO_LEADER, "the election by itself is still to come"
    assert codes(ask(cluster, UNCLEAN, ("t", 0))) == ["NONE"]
    state = cluster.partition(topic)
    assert (state.leader, state.leader_recovery_state) == (1, LeaderRecoveryState.RECOVERED)
    assert cluster.log[-1].reason is ChangeReason.ELECTION_ASKED_FOR
