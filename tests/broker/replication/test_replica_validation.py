"""Each part of `PartitionReplica.validate` is seen to fail."""

import pytest

from quorate.broker.replication.replica.roles import LeaderState
from quorate.invariant import InvariantError
from quorate.types import EpochStart, Offset


@pytest.fixture
async def replicas(make_cluster):
    """A leader, broker 1, and its follower, with three committed records."""
    cluster = await make_cluster(2)
    await cluster[1].produce_each("abc")
    await cluster.caught_up()
    await cluster.until(lambda: cluster[2].partition().high_watermark == 3)
    return cluster[1].partition(), cluster[2].partition()


async def test_a_leader_and_its_follower_are_in_order(replicas, autojump_clock):
    for each in replicas:
        each.validate()


def high_watermark_past_the_end(replica):
    replica.log.high_watermark = Offset(4)


def log_start_past_the_high_watermark(replica):
    replica.log.log_start_offset = Offset(3)
    replica.log.high_watermark = Offset(2)


def durable_log_start_past_the_log_start(replica):
    replica.log.durable_log_start_offset = Offset(1)


def epochs_that_fall(replica):
    replica.log._epochs._entries = [EpochStart(2, Offset(0)), EpochStart(1, Offset(1))]


def an_epoch_after_the_roles(replica):
    replica.log._epochs._entries.append(EpochStart(9, Offset(3)))


def an_epoch_beyond_the_end(replica):
    replica.log._epochs._entries[-1] = EpochStart(0, Offset(4))


def a_role_of_another_epoch(replica):
    replica.role.leader_epoch += 1


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        (high_watermark_past_the_end, "high watermark <= log end"),
        (log_start_past_the_high_watermark, "log start <= high watermark"),
        (durable_log_start_past_the_log_start, "durable log start <= log start"),
        (epochs_that_fall, "leader epochs are not in order"),
        (an_epoch_after_the_roles, "log epoch <= leader epoch"),
        (an_epoch_beyond_the_end, "epoch start <= log end"),
        (a_role_of_another_epoch, "the role is of another leader epoch"),
    ],
)
async def test_a_disorder_in_any_replica_is_found(replicas, autojump_clock, fault, problem):
    for each in replicas:
        each.validate()
        fault(each)
        with pytest.raises(InvariantError, match=problem):
            each.validate()


def isr_with_a_broker_that_is_no_replica(leader):
    leader.isr.committed = (1, 7)


def isr_without_the_leader(leader):
    leader.isr.committed = (2,)


def maximal_isr_without_a_member(leader):
    leader.isr.maximal = frozenset((1,))


def eligible_replica_in_the_isr(leader):
    leader.isr.elr = (2,)


def follower_that_is_missing(leader):
    leader.remotes.clear()


def follower_past_the_end(leader):
    leader.remotes[2].log_end_offset = Offset(4)


def epoch_that_began_past_the_end(leader):
    leader.epoch_start_offset = Offset(4)


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        (isr_with_a_broker_that_is_no_replica, "the ISR is not among the replicas"),
        (isr_without_the_leader, "the leader is not in the ISR"),
        (maximal_isr_without_a_member, "the maximal ISR lacks a member"),
        (eligible_replica_in_the_isr, "an eligible replica is in the ISR"),
        (follower_that_is_missing, "the followers are not the other replicas"),
        (follower_past_the_end, "follower end <= log end"),
        (epoch_that_began_past_the_end, "epoch start <= log end"),
    ],
)
async def test_a_disorder_in_a_leaders_state_is_found(replicas, autojump_clock, fault, problem):
    leader, _ = replicas
    fault(leader.role)
    with pytest.raises(InvariantError, match=problem):
        leader.validate()


async def test_a_low_watermark_above_the_durable_log_start_is_found(replicas, autojump_clock, monkeypatch):
    monkeypatch.setattr(LeaderState, "low_watermark", lambda self, **_: Offset(1))
    with pytest.raises(InvariantError, match="low watermark <= durable log start"):
        replicas[0].validate()


async def test_nothing_is_checked_while_the_log_is_cut_or_once_it_has_failed(replicas, autojump_clock):
    for each in replicas:
        high_watermark_past_the_end(each)
        async with each.lock:
            each.validate()
        each.fail("its disk failed")
        each.validate()


async def test_a_leader_never_proposes_an_isr_without_itself(replicas, autojump_clock):
    with pytest.raises(InvariantError, match="without itself"):
        replicas[0].leading._propose((2,))
