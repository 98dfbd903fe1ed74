"""Which moves can't go on, and for how long that must hold before it is said."""

from collections.abc import Mapping

import pytest
from kio.schema.describe_topic_partitions.v0.response import DescribeTopicPartitionsResponsePartition
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId
from kio.static.primitive import i32

from quorate.broker.admin.admin_client import BrokerView, TopicPartition
from quorate.broker.admin.replicas import ClusterView, Move
from quorate.cli.reassigning.draining import StuckWatch, stuck_moves
from quorate.runtime import Address

KEY = TopicPartition("orders", 0)


def view(
    *,
    live: tuple[int, ...],
    leader: int,
    isr: tuple[int, ...],
    elr: tuple[int, ...] = (),
    last: tuple[int, ...] = (),
    move: Move,
) -> ClusterView:
    def ids(each: tuple[int, ...]) -> tuple[BrokerId, ...]:
        return tuple(map(BrokerId, each))

    state = DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.none,
        partition_index=i32(0),
        leader_id=BrokerId(leader),
        leader_epoch=i32(1),
        replica_nodes=ids(move.replicas),
        isr_nodes=ids(isr),
        eligible_leader_replicas=ids(elr),
        last_known_elr=ids(last),
        offline_replicas=(),
    )
    return ClusterView(
        brokers={each: BrokerView(broker_id=each, address=Address("host", each), rack=None) for each in live},
        fenced=frozenset(),
        partitions={KEY: state},
        moves={KEY: move},
    )


AWAY = Move(replicas=(1, 3), adding=(1,), removing=(3,))


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (view(live=(1, 3), leader=3, isr=(3,), move=AWAY), None),
        (view(live=(1,), leader=1, isr=(1,), move=AWAY), None),
        (view(live=(1,), leader=-1, isr=(3,), move=AWAY), "its records are on broker 3, which is down"),
        (view(live=(1,), leader=-1, isr=(), elr=(3, 4), move=AWAY), "on brokers 3, 4, which are down"),
        (view(live=(1,), leader=-1, isr=(), last=(4,), move=AWAY), "on broker 4, which is down"),
        (view(live=(1,), leader=-1, isr=(), move=AWAY), "on broker 3, which is down"),
        (view(live=(3,), leader=3, isr=(3,), move=AWAY), "a replica on broker 1, which is down"),
    ],
)
def test_a_move_is_stuck_without_a_leader_or_without_a_target(seen: ClusterView, reason: str | None) -> None:
    stuck: Mapping[TopicPartition, str] = stuck_moves(seen.moves, seen)
    assert list(stuck) == ([] if reason is None else [KEY])
    assert reason is None or reason in stuck[KEY]


def test_a_move_that_is_stuck_for_a_moment_is_not_believed_to_be() -> None:
    """Between the death of a leader and the next one there is none."""
    watch, stuck = StuckWatch(), {KEY: "nobody leads it"}
    assert watch.look(stuck, now=10.0) == {}
    assert watch.look(stuck, now=14.9) == {}
    assert watch.look({}, now=15.0) == {}
    assert watch.look(stuck, now=16.0) == {}, "it went on in between"
    assert watch.look(stuck, now=20.9) == {}
    assert watch.look(stuck, now=21.0) == stuck
