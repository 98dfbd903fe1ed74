"""What each node must keep by itself is looked at too, where a node plays by the right rules."""

from dataclasses import replace

import pytest

from quorate.play.play_node import PlayNode, PlayRecord
from quorate.play.watch import Watch
from quorate.raft.core import Message, Role, VoteRequest, VoteResponse
from quorate.types import ElectionState, Epoch, NodeId, Offset, ReplicaKey, VoterSet

ONE, TWO = NodeId(1), NodeId(2)
FIRST, SECOND = PlayRecord(Epoch(1), "red"), PlayRecord(Epoch(2), "green")
STORED = ElectionState(Epoch(2), leader=ONE, voted=ReplicaKey(ONE))


def noted(strict: bool = True) -> tuple[Watch, PlayNode]:
    return Watch(VoterSet(()), strict=strict), PlayNode(ONE, STORED, [FIRST, SECOND], synced=Offset(1))


def broken(watch: Watch) -> list[str]:
    return [each.invariant for each in watch.violations]


@pytest.mark.parametrize(
    ("new", "invariants"),
    [
        (ElectionState(Epoch(1)), ["EpochNeverGoesBack"]),
        (replace(STORED, voted=None), ["OneVotePerEpoch"]),
        (replace(STORED, voted=ReplicaKey(TWO)), ["OneVotePerEpoch"]),
        (replace(STORED, leader=TWO), ["ElectionSafety"]),
        (STORED, []),
        (ElectionState(Epoch(3)), []),
    ],
)
def test_what_a_node_has_stored_of_an_election_it_keeps(new: ElectionState, invariants: list[str]) -> None:
    watch, node = noted()
    watch.note_election(node, new)
    assert broken(watch) == invariants


def test_a_record_that_is_committed_is_not_cut() -> None:
    watch, node = noted()
    watch.committed.append(FIRST)
    watch.note_cut(node, Offset(1))
    assert broken(watch) == []
    watch.note_cut(node, Offset(0))
    assert broken(watch) == ["Durability"]


def test_only_a_leader_commits_what_nobody_has_committed() -> None:
    watch, node = noted()
    watch.note_role(node, Role.LEADER, Epoch(2))
    watch.note_commit(node, Epoch(2), Offset(2))
    assert broken(watch) == []
    watch.committed.pop()
    watch.note_role(node, Role.FOLLOWER, Epoch(2))
    watch.note_commit(node, Epoch(2), Offset(2))
    assert broken(watch) == ["Durability"]


def test_a_leader_commits_older_records_only_with_one_of_its_own() -> None:
    watch, node = noted()
    watch.note_role(node, Role.LEADER, Epoch(2))
    watch.note_commit(node, Epoch(2), Offset(1))
    assert broken(watch) == ["CommitsAreOfTheLeadersEpoch"]


def vote(end: int, voted: NodeId | None, epoch: int = 2) -> tuple[Message, ElectionState]:
    request = VoteRequest(
        cluster_id="play",
        voter=ReplicaKey(TWO),
        candidate=ReplicaKey(ONE),
        epoch=Epoch(epoch),
        source=ONE,
        destination=TWO,
        correlation=1,
        last_epoch=Epoch(1),
        end_offset=Offset(end),
    )
    return request, ElectionState(Epoch(2), voted=None if voted is None else ReplicaKey(voted))


def granted(voted: NodeId) -> tuple[Message, ElectionState]:
    response = VoteResponse(
        epoch=Epoch(2), source=ONE, destination=TWO, correlation=1, granted=True, pre_vote=False
    )
    return response, ElectionState(Epoch(2), voted=ReplicaKey(voted))


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (vote(1, ONE), ""),
        (vote(2, ONE), "a log up to 2"),
        (vote(1, None), "that it stands in epoch 2"),
        (vote(1, ONE, epoch=3), "that it stands in epoch 3"),
        (granted(TWO), ""),
        (granted(ONE), "its vote for node 2"),
    ],
)
def test_what_a_node_says_is_on_its_disk_first(said: tuple[Message, ElectionState], text: str) -> None:
    message, node_has = said
    for strict in (True, False):
        watch, node = noted(strict)
        node.election = node_has
        watch.note_message(node, message)
        told = [each.text for each in watch.violations]
        wanted = [f"node 1 says {text}, which is not yet on its disk"] if text and strict else []
        assert told == wanted
