"""ISR changes on their way to the controller."""

import uuid
from types import SimpleNamespace

import trio
import trio.testing

from quorate.broker.controller.rpc import AlterPartitionResponse, AlterPartitionResult
from quorate.broker.metadata.metadata_records import LeaderRecoveryState
from quorate.broker.replication.foundation.current_metadata import CurrentMetadata
from quorate.broker.replication.replica.isr_updater import IsrUpdater

TOPIC = uuid.UUID(int=1)


class Proposed:
    """A partition with an ISR change under way."""

    def __init__(self, number: int) -> None:
        self.topic_id, self.partition_id, self.pending = TOPIC, number, True

    def is_pending(self, proposal: object) -> bool:
        return self.pending

    def granted(self, proposal: object, result: object) -> None:
        self.pending = False


async def test_the_isr_changes_after_a_brokers_death_are_requested_in_pieces(nursery) -> None:
    asked: list[list[int]] = []

    async def alter_partition(request):
        asked.append([each.partition_id for each in request.partitions])
        await trio.lowlevel.checkpoint()
        return AlterPartitionResponse(
            partitions=tuple(
                AlterPartitionResult(topic_id=TOPIC, partition_id=each.partition_id, partition_epoch=1)
                for each in request.partitions
            )
        )

    updater = IsrUpdater(1, CurrentMetadata({}), alter_partition=alter_partition, retry_s=1)
    proposal = SimpleNamespace(
        leader_epoch=-1, partition_epoch=0, isr=(1,), broker_epochs=(), recovery=LeaderRecoveryState.RECOVERED
    )
    partitions = [Proposed(number) for number in range(1700)]
    for each in partitions:
        updater.submit(each, proposal)
    nursery.start_soon(updater.run)
    await trio.testing.wait_all_tasks_blocked()
    assert [number for numbers in asked for number in numbers] == list(range(1700))
    assert max(map(len, asked)) == 500
    assert not any(each.pending for each in partitions)
