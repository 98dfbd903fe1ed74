"""The rules for moving a high watermark that no other test fails without."""

import pytest
import trio

from quorate.broker.controller.rpc import AlterPartitionResponse, AlterPartitionResult
from quorate.broker.replication.following.taking_in import raise_log_start
from quorate.broker.replication.storage.proofs import PAGE_CACHE
from quorate.error_code import ErrorCode
from quorate.log.checkpoints import HIGH_WATERMARKS, store_offsets
from quorate.types import Offset


async def test_a_replica_that_can_no_longer_join_the_isr_does_not_hold_back_the_high_watermark(
    make_brokers, autojump_clock
):
    """It moves with the metadata that says so. The next scan is half a lag time away."""
    cluster = make_brokers(min_isr=2)
    await cluster.start(1, 2)
    await cluster[3].start(unfence=False)
    cluster.controller.create(isr=(1, 2))
    await cluster.opened()
    await cluster.until(lambda: cluster[1].partition().leading.remotes[3].log_end_offset == 0)
    cluster.cut_off(3)
    assert (await cluster[1].produced("a")).base_offset == 0
    cluster.controller.unfence(3)
    pending = cluster[1].produce("b")
    await cluster.until(lambda: cluster[2].partition().log.end_offset == 2)
    await trio.sleep(1)
    assert not pending.done, "broker 3 is right behind, and about to join"
    cluster.controller.fence(3)
    await trio.sleep(0.01)
    assert pending.done
    assert cluster[1].partition().high_watermark == 2


async def test_a_lower_min_insync_replicas_exposes_what_waited_for_it(make_cluster, autojump_clock):
    cluster = await make_cluster(replicas=(1, 2), isr=(1,))
    cluster.cut_off(2)
    await cluster[1].produced("a", acks=1)
    assert cluster[1].partition().high_watermark == 0, "an ISR of one, where two are needed"
    cluster.controller.configure(min_insync_replicas=1)
    assert cluster[1].partition().high_watermark == 1
    assert await cluster[1].consumed() == ["a"]


async def test_a_followers_log_start_never_passes_its_high_watermark(make_cluster, autojump_clock):
    """The leader has let go of records that this follower does not know to be committed."""
    cluster = await make_cluster(replicas=(1, 2), min_isr=1)
    await cluster[1].produce_each("abcde")
    await cluster.caught_up(1, 2)
    cluster.cut_off(2)
    follower = cluster[2].partition()
    follower.log.high_watermark = Offset(2)
    await raise_log_start(follower, follower.following, 4)
    assert follower.log.log_start_offset == 2
    follower.log.high_watermark = Offset(5)
    await raise_log_start(follower, follower.following, 4)
    assert follower.log.log_start_offset == 4


async def test_a_checkpoint_beyond_the_log_exposes_nothing_that_is_not_there(make_cluster, autojump_clock):
    """The log lost its end with the power, the checkpoint did not."""
    cluster = await make_cluster(1)
    await cluster[1].produce_each("abc")
    await cluster[1].crash()
    await store_offsets(cluster[1].disk, f"data/{HIGH_WATERMARKS}", {("t", 0): Offset(100)})
    cluster[1].disk.remove(f"data/{PAGE_CACHE}")
    await cluster[1].start()
    await cluster.opened()
    assert cluster[1].partition().high_watermark == 3
    assert (await cluster[1].fetch(3)).error is ErrorCode.NONE
    assert (await cluster[1].fetch(4)).error is ErrorCode.OFFSET_OUT_OF_RANGE
    pending = cluster[1].produce("d")
    assert pending.done
    assert await cluster[1].consumed() == list("abcd")


async def test_metadata_that_says_nothing_new_leaves_a_pending_change_pending(make_cluster, autojump_clock):
    """The controller may have granted it: until its answer both sets bind."""
    cluster = await make_cluster(replicas=(1, 2), isr=(1,), min_isr=1)
    cluster.controller.rtt_s = 5.0
    held = cluster[1].partition()
    await cluster.until(lambda: held.leading.isr.pending is not None)
    proposal = held.leading.isr.pending
    held.apply(cluster.controller.state())
    assert held.leading.isr.pending is proposal
    assert held.leading.isr.maximal == {1, 2}


@pytest.mark.parametrize("leader_epoch", [0, 1])
async def test_a_granted_isr_counts_only_in_the_epoch_that_asked(make_cluster, autojump_clock, leader_epoch):
    """One of another epoch is about another leader; its metadata is on the way."""
    cluster = await make_cluster(replicas=(1, 2), isr=(1,), min_isr=1)
    held = cluster[1].partition()

    def granted(request):
        return AlterPartitionResponse(
            partitions=tuple(
                AlterPartitionResult(
                    topic_id=item.topic_id,
                    partition_id=item.partition_id,
                    leader=1,
                    leader_epoch=leader_epoch,
                    isr=(1, 2),
                    partition_epoch=item.partition_epoch + 1,
                )
                for item in request.partitions
            )
        )

    cluster.controller.answer = granted
    await cluster.until(lambda: cluster.controller.requests)
    await trio.sleep(1)
    assert held.leader_epoch == 0
    assert held.leading.isr.committed == ((1, 2) if leader_epoch == 0 else (1,))
