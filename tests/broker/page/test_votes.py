"""The elections that a node took part in: its own votes, and whom it followed."""

from quorate.broker.page.votes import KEPT, Votes
from quorate.raft.core import Role
from quorate.types import Epoch, NodeId


def told(votes: Votes) -> list[tuple[int, str]]:
    """What is shown, the oldest first."""
    return [(each["epoch"], each["what"]) for each in reversed(votes.as_list())]  # type: ignore[index, call-overload]


def step(votes: Votes, role: Role, epoch: int, leader: int | None = None, voted: int | None = None) -> None:
    votes.role_changed(
        role,
        is_voter=True,
        epoch=Epoch(epoch),
        leader=None if leader is None else NodeId(leader),
        voted=None if voted is None else NodeId(voted),
    )


def test_a_lost_leader_a_failed_election_and_a_vote_are_told_in_order() -> None:
    votes = Votes(lambda: 5)
    step(votes, Role.UNATTACHED, 1)
    step(votes, Role.FOLLOWER, 1, leader=3)
    step(votes, Role.PROSPECTIVE, 1)
    step(votes, Role.CANDIDATE, 2, voted=1)
    step(votes, Role.UNATTACHED, 3, voted=2)
    step(votes, Role.UNATTACHED, 3, voted=2)
    step(votes, Role.FOLLOWER, 3, leader=2, voted=2)
    assert told(votes) == [
        (1, "follows node 3"),
        (1, "asks whether others would vote for it"),
        (1, "no longer hears of node 3 as the leader"),
        (2, "voted for node 1"),
        (2, "asks for votes"),
        (3, "voted for node 2"),
        (3, "follows node 2"),
    ]


def test_who_wins_leads() -> None:
    votes = Votes(lambda: 5)
    step(votes, Role.CANDIDATE, 4, voted=1)
    step(votes, Role.LEADER, 4, leader=1, voted=1)
    assert told(votes)[-1] == (4, "leads")


def test_a_storm_of_elections_takes_no_more_memory() -> None:
    votes = Votes(lambda: 5)
    for epoch in range(10 * KEPT):
        step(votes, Role.CANDIDATE, epoch, voted=1)
    assert len(votes.as_list()) == KEPT
    assert told(votes)[-1][0] == 10 * KEPT - 1
