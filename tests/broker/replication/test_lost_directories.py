"""A directory of log.dirs that is missing, empty, old or doubled when its broker starts (KIP-858): an empty
log or an older copy never leads in place of the missing directory's."""

import json

import pytest
import trio

from quorate.broker.log_directories import SameDirectoryError
from quorate.broker.metadata.metadata_records import (
    MIGRATING,
    NO_LEADER,
    BrokerRegistrationChange,
    LeaderRecoveryState,
    PartitionChange,
    is_reserved,
)
from quorate.broker.replication.foundation.errors import (
    AllDirectoriesFailedError,
    DuplicateReplicaError,
    PartitionError,
)
from quorate.broker.replication.storage.proofs import CLEAN_SHUTDOWN
from quorate.quorum_state.meta_properties import META_PROPERTIES, MetaProperties, store_meta_properties
from quorate.quorum_state.quorum_state_errors import ForeignStateError
from quorate.runtime.disk import read_file, write_file_atomically
from quorate.simulation.world.simulated_disk import DiskOperation
from quorate.simulation.world.simulated_runtime import SimulatedRuntime

TWO = ("d1", "d2")


def end_of(broker, number=0):
    """Return the end of the replica's log; None if it is not open."""
    try:
        return int(broker.partition("t", number).log.end_offset)
    except PartitionError:
        return None


def home_of(broker, number=0):
    """The directory of log.dirs that the replica is in."""
    found = broker.manager._logs.folders.log_directory_of("t", number)
    return None if found is None else found.path


def partition_in_second(broker):
    (number,) = (each for each in (0, 1) if home_of(broker, each) == "d2")
    return number


async def filled(make_cluster, brokers=1, **options):
    """Two partitions, one in each directory of broker 1, with five acknowledged records in both."""
    cluster = await make_cluster(brokers, log_dirs=TWO, partitions=2, **options)
    for number in (0, 1):
        await cluster[1].produce_each("01234", partition_id=number)
    await trio.sleep(2)
    for number in (0, 1):
        recorded = cluster.controller.state("t", number).directory_of(1)
        assert not is_reserved(recorded), "the broker has said where its replica is"
    return cluster


@pytest.mark.bug("KAFKA-16234")
async def test_a_folder_taken_out_of_log_dirs_is_not_replaced_by_an_empty_log(make_cluster, autojump_clock):
    cluster = await filled(make_cluster)
    lost = partition_in_second(cluster[1])
    await cluster[1].stop()
    await cluster[1].start(log_dirs=("d1",))
    await trio.sleep(5)
    assert cluster.controller.state("t", lost).leader == NO_LEADER
    assert end_of(cluster[1], lost) is None
    assert cluster[1].replicas.counts().offline_replica_count == 1
    kept = 1 - lost
    assert (cluster.controller.state("t", kept).leader, end_of(cluster[1], kept)) == (1, 5)


async def test_a_folder_that_comes_back_is_led_from_with_what_it_has(make_cluster, autojump_clock):
    cluster = await filled(make_cluster)
    for log_dirs in (("d1",), TWO):
        await cluster[1].stop()
        await cluster[1].start(log_dirs=log_dirs)
        await trio.sleep(5)
    assert [end_of(cluster[1], number) for number in (0, 1)] == [5, 5]
    assert [cluster.controller.state("t", number).leader for number in (0, 1)] == [1, 1]
    assert (await cluster[1].produced("more", partition_id=0)).error == 0


@pytest.mark.costly
@pytest.mark.parametrize("killed", [False, True])
async def test_followers_that_have_the_data_lead_and_the_empty_log_follows(
    make_cluster, killed, autojump_clock
):
    """1 ends last, and is the first that is back: without its second folder."""
    cluster = await filled(make_cluster, 3)
    lost = partition_in_second(cluster[1])
    for each in (2, 3):
        await cluster[each].stop()
    if killed:
        await cluster[1].crash()
        cluster.controller.fence(1)
    else:
        await cluster[1].stop()
    await cluster[1].start(log_dirs=("d1",))
    await trio.sleep(2)
    state = cluster.controller.state("t", lost)
    assert (state.leader, 1 in state.elr) == (NO_LEADER, False)
    assert cluster.controller.state("t", 1 - lost).leader == 1, "what is in the other folder is proven"
    await cluster.start(2, 3)
    await trio.sleep(20)
    for number in (0, 1):
        assert [end_of(cluster[each], number) for each in (1, 2, 3)] == [5, 5, 5]
        assert sorted(cluster.controller.state("t", number).isr) == [1, 2, 3]


async def test_the_sole_member_of_an_isr_with_a_new_disk_does_not_lead_empty(make_cluster, autojump_clock):
    """min.insync.replicas=1: the others were behind when its disk was lost, with a record that only it had.
    The partition has no leader until its disk is back, so that no acknowledged record is lost."""
    cluster = await make_cluster(min_isr=1, replica_lag_time_max_ms=1000)
    await cluster[1].produce_each(f"{value}" for value in range(5))
    await cluster.caught_up()
    cluster.cut_off(1)
    assert not (await cluster[1].produced("only on 1", timeout_ms=60_000)).error
    await cluster.in_sync(1)
    await cluster[1].crash()
    cluster.controller.fence(1)
    old = cluster[1].host
    cluster[1].host = SimulatedRuntime("b1", cluster.network, cluster.random)
    cluster.heal()
    await cluster[1].start()
    await trio.sleep(20)
    assert cluster.controller.state().leader == NO_LEADER
    assert [end_of(cluster[each]) for each in (1, 2, 3)] == [None, 5, 5]
    await cluster[1].stop()
    cluster[1].host = old
    await cluster[1].start()
    await cluster.in_sync(1, 2, 3)
    await cluster.caught_up()
    assert cluster.controller.state().leader == 1
    assert (await cluster[2].log_bytes()).count(b"only on 1") == 1


async def test_after_a_disk_loss_an_unclean_election_lets_the_others_lead_with_their_records(
    make_cluster, autojump_clock
):
    cluster = await make_cluster(2, replica_lag_time_max_ms=1000)
    await cluster[1].produced("both")
    await cluster.caught_up()
    cluster.cut_off(1)
    await cluster[1].produced("only on 1", timeout_ms=60_000)
    await cluster.in_sync(1)
    await cluster[1].crash()
    cluster.controller.fence(1)
    cluster[1].host = SimulatedRuntime("b1", cluster.network, cluster.random)
    cluster.heal()
    await cluster[1].start()
    cluster.controller.configure(unclean_leader_election_enable="true")
    cluster.controller.elect_leaderless()
    await cluster.in_sync(1, 2)
    assert cluster.controller.state().leader == 2
    assert await cluster[2].consumed() == ["both"]
    assert cluster.controller.state().directory_of(1) == cluster[1].replicas.directories.online_ids[0]


async def test_an_older_copy_in_a_folder_that_comes_back_does_not_lead(make_cluster, autojump_clock):
    """d2 was away while the replica was made anew in d3, which is then away itself: d2's copy is older."""
    cluster = await filled(make_cluster, 2)
    number = partition_in_second(cluster[1])
    await cluster[1].stop()
    await cluster[1].start(log_dirs=("d1", "d3"))
    await trio.sleep(5)
    assert sorted(cluster.controller.state("t", number).isr) == [1, 2]
    moved = home_of(cluster[1], number)
    await cluster[2].stop()
    await cluster[1].produced("newer", partition_id=number)
    await cluster[1].stop()
    assert cluster.controller.state("t", number).eligible.last_known == (1,)
    await cluster[1].start(log_dirs=tuple({"d1", "d2", "d3"} - {moved}))
    await trio.sleep(5)
    assert cluster.controller.state("t", number).leader == NO_LEADER
    assert end_of(cluster[1], number) is None, "what is in d2 may not be taken for the replica"


async def test_a_partition_in_two_folders_is_refused_with_both_and_what_to_do(make_cluster, autojump_clock):
    cluster = await filled(make_cluster, 2)
    number = partition_in_second(cluster[1])
    await cluster[1].stop()
    await cluster[1].start(log_dirs=("d1",))
    await trio.sleep(5)
    assert home_of(cluster[1], number) == "d1"
    await cluster[1].stop()
    with pytest.raises(DuplicateReplicaError, match=rf"d1/t-{number} and in d2/t-{number}.*move the other"):
        await cluster[1].start(log_dirs=TWO)
    cluster[1].disk.crash_process()
    cluster[1].disk.remove_folder(f"d2/t-{number}")
    await cluster[1].start(log_dirs=TWO)
    await trio.sleep(5)
    assert sorted(cluster.controller.state("t", number).isr) == [1, 2]
    assert end_of(cluster[1], number) == 5


async def test_a_replica_whose_making_failed_in_one_folder_is_kept_in_the_other(make_brokers, autojump_clock):
    """The folder that was left in the first looked like a second copy, and the broker did not start."""
    cluster = make_brokers(brokers=1, min_isr=1)
    await cluster[1].start(log_dirs=TWO)
    cluster[1].disk.fail(DiskOperation.SYNC_FOLDER, path_part="d2")
    cluster.controller.create(replicas=(1,), partitions=2)
    await trio.sleep(5)
    assert {home_of(cluster[1], number) for number in (0, 1)} == {"d1"}
    for number in (0, 1):
        await cluster[1].produced("kept", partition_id=number)
    await cluster[1].stop()
    assert [name for name in cluster[1].disk.list("d2") if name.startswith("t-")], "what was begun is there"

    await cluster[1].start(log_dirs=TWO)
    await trio.sleep(5)
    assert not [name for name in cluster[1].disk.list("d2") if name.startswith("t-")]
    assert [end_of(cluster[1], number) for number in (0, 1)] == [1, 1]


async def test_a_directory_that_is_mounted_twice_is_refused(make_brokers, autojump_clock):
    cluster = make_brokers(brokers=1, min_isr=1)
    await cluster[1].start(log_dirs=("d1",))
    (directory,) = cluster[1].replicas.directories.online_ids
    await cluster[1].stop()
    same = MetaProperties(cluster_id="replicas", node_id=1, directory_id=directory)
    cluster[1].disk.make_folder("copy")
    await store_meta_properties(cluster[1].disk, "copy", same)
    with pytest.raises(SameDirectoryError, match=r"d1 and copy in log\.dirs are both directory"):
        await cluster[1].start(log_dirs=("d1", "copy"))


async def test_a_directory_of_another_broker_is_refused(make_brokers, autojump_clock):
    cluster = make_brokers(brokers=1, min_isr=1)
    other = MetaProperties(
        cluster_id="replicas", node_id=2, directory_id=cluster[1].host.runtime().entropy.uuid()
    )
    cluster[1].disk.make_folder("d1")
    await store_meta_properties(cluster[1].disk, "d1", other)
    with pytest.raises(ForeignStateError, match="belongs to node 2, not 1"):
        await cluster[1].start(log_dirs=("d1",))


@pytest.mark.parametrize("file", [META_PROPERTIES, "replication-offset-checkpoint"])
async def test_a_broker_starts_without_a_folder_that_cannot_be_read(make_cluster, file, autojump_clock):
    cluster = await filled(make_cluster, 2, replica_high_watermark_checkpoint_interval_ms=500)
    lost = partition_in_second(cluster[1])
    await cluster[1].stop()
    cluster[1].disk.fail(DiskOperation.OPEN, path_part=f"d2/{file}")
    await cluster[1].start(log_dirs=TWO)
    await trio.sleep(5)
    assert len(cluster[1].replicas.directories.online_ids) == 1
    assert cluster[1].replicas.directories.failed_ids == (), "it was never registered with it"
    assert end_of(cluster[1], lost) is None, "its log may be in the folder that is bad"
    assert cluster.controller.state("t", lost).isr == (2,)
    assert sorted(cluster.controller.state("t", 1 - lost).isr) == [1, 2]
    await cluster[1].stop()
    await cluster[1].start(log_dirs=TWO)
    await trio.sleep(5)
    assert sorted(cluster.controller.state("t", lost).isr) == [1, 2]
    assert end_of(cluster[1], lost) == 5


async def test_a_broker_without_any_folder_that_can_be_read_does_not_start(make_brokers, autojump_clock):
    cluster = make_brokers(brokers=1, min_isr=1)
    cluster[1].disk.fail(DiskOperation.OPEN, path_part=META_PROPERTIES, times=2)
    with pytest.raises(
        AllDirectoriesFailedError, match=r"no directory of log\.dirs can be used.*mend the disk"
    ):
        await cluster[1].start(log_dirs=TWO)


async def test_a_replica_that_was_not_reported_yet_leaves_with_its_directory(make_brokers, autojump_clock):
    cluster = make_brokers(brokers=2, min_isr=1)
    await cluster[1].start(log_dirs=TWO)
    await cluster[2].start()
    cluster.controller.unreachable = True
    cluster.controller.create(replicas=(1, 2), partitions=2)
    for number in (0, 1):
        await cluster.opened("t", number)
    lost = partition_in_second(cluster[1])
    cluster[1].disk.fail(DiskOperation.APPEND, path_part="d2/t-")
    await cluster[1].produced("a", partition_id=lost)
    assert len(cluster[1].replicas.directories.failed_ids) == 1
    cluster.controller.beat(1)
    assert cluster.controller.state("t", lost).leader == 1, "nobody knows that it is in there"
    cluster.controller.unreachable = False
    await cluster.until(lambda: cluster.controller.state("t", lost).leader == 2, within_s=15)
    assert cluster.controller.state("t", 1 - lost).leader == 1


async def test_a_replica_whose_folder_cannot_be_made_is_made_in_another_directory(
    make_brokers, autojump_clock
):
    cluster = make_brokers(brokers=1, min_isr=1)
    await cluster[1].start(log_dirs=TWO)
    cluster[1].disk.fail(DiskOperation.OPEN, path_part="d1/t-0")
    cluster.controller.create(replicas=(1,))
    await cluster.opened()
    assert home_of(cluster[1]) == "d2"
    assert cluster[1].running
    assert not (await cluster[1].produced("a")).error


@pytest.mark.bug("KAFKA-16157")
@pytest.mark.parametrize("away", TWO)
async def test_of_two_folders_of_a_topic_made_again_the_one_of_its_id_counts(
    make_cluster, away, autojump_clock
):
    """Both are there when the directory is back: the broker did not start before one was moved away."""
    cluster, number, stays = await made_again_while_away(make_cluster, away)
    await cluster[1].start(log_dirs=TWO)
    await cluster.opened("t", number)
    assert [home_of(cluster[1], each) for each in (0, 1)] == [stays, stays]
    assert [await cluster[1].consumed(partition_id=each) for each in (0, 1)] == [["new"], ["new"]]
    assert not cluster[1].disk.exists(f"{away}/t-{number}")
    where = cluster[1].manager._logs.folders.directory_of("t", number)
    assert cluster.controller.state("t", number).directory_of(1) == where


@pytest.mark.bug("KAFKA-16157")
async def test_all_folders_of_a_name_go_when_its_topic_is_gone(make_cluster, autojump_clock):
    cluster, number, _ = await made_again_while_away(make_cluster, "d2")
    cluster.controller.delete()
    await cluster[1].start(log_dirs=TWO)
    await cluster.until(lambda: not cluster[1].disk.exists(f"d1/t-{number}"))
    assert not cluster[1].disk.exists(f"d2/t-{number}")


async def made_again_while_away(make_cluster, away):
    """Topic t is deleted and made again while one directory of broker 1 is away. Return the cluster, the
    partition that has folders in both then, and the directory with the newer one. Broker 1 is down."""
    cluster = await filled(make_cluster)
    (number,) = (each for each in (0, 1) if home_of(cluster[1], each) == away)
    (stays,) = {*TWO} - {away}
    await cluster[1].stop()
    cluster.controller.delete()
    await cluster[1].start(log_dirs=(stays,))
    cluster.controller.create(replicas=(1,), partitions=2, number=2)
    for each in (0, 1):
        await cluster.opened("t", each)
        assert not (await cluster[1].produced("new", partition_id=each)).error
    await cluster[1].stop()
    both = [cluster[1].disk.exists(f"{each}/t-{number}") for each in TWO]
    assert both == [True, True], "the older one and the newer one"
    return cluster, number, stays


@pytest.mark.bug("KAFKA-17190")
async def test_a_directory_assignment_of_a_deleted_topic_is_not_repeated_for_ever(
    make_brokers, autojump_clock
):
    cluster = make_brokers(brokers=1, min_isr=1)
    await cluster[1].start(log_dirs=TWO)
    cluster.controller.create(replicas=(1,), partitions=2)
    cluster[1].hold_metadata()
    await cluster.opened("t", 1)
    cluster.controller.delete()
    await trio.sleep(5)
    assert len(cluster[1].manager._parts.roles.assignments) == 0


async def test_the_newest_directory_of_a_replica_is_the_one_that_is_recorded(make_cluster, autojump_clock):
    """A folder that was moved by hand while its broker was down, with both directories still there."""
    cluster = await filled(make_cluster)
    number = partition_in_second(cluster[1])
    first, second = cluster[1].replicas.directories.online_ids
    assert cluster.controller.state("t", number).directory_of(1) == second
    topic_id = cluster.controller.topic_id()
    cluster.controller.commit(PartitionChange(topic_id=topic_id, partition_id=number, directories=(first,)))
    await cluster.until(lambda: cluster.controller.state("t", number).directory_of(1) == second)
    assert cluster.controller.state("t", number).leader == 1


async def undo_directories(cluster, *broker_ids, log_dirs):
    """Write the marks and metadata of the version before, which don't say which directories there were. It
    registered the first one only."""
    for broker_id in broker_ids:
        held = cluster.controller.image.broker(broker_id)
        cluster.controller.commit(
            BrokerRegistrationChange(broker_id=broker_id, broker_epoch=held.epoch, log_dirs=held.log_dirs[:1])
        )
        for path in log_dirs:
            mark = f"{path}/{CLEAN_SHUTDOWN}"
            fields = json.loads(read_file(cluster[broker_id].disk, mark))
            del fields["directories"]
            await write_file_atomically(cluster[broker_id].disk, mark, json.dumps(fields).encode())
    for partition_id, state in enumerate(cluster.controller.image.partitions(cluster.controller.topic_id())):
        cluster.controller.change(
            partition_id=partition_id, directories=tuple(MIGRATING for _ in state.replicas)
        )


@pytest.mark.bug("KAFKA-16162")
async def test_the_first_start_after_the_version_without_directories_waits_for_the_last_leader(
    make_cluster, autojump_clock
):
    """All were stopped in order. The marks can't be believed (see the next test), so only the last leader may
    lead, and it has everything. Its next restart is proven as ever."""
    cluster = await make_cluster()
    await cluster[1].produce_each(f"{value}" for value in range(5))
    await cluster.caught_up(1, 2, 3)
    for each in (2, 3, 1):
        await cluster[each].stop()
    await undo_directories(cluster, 1, 2, 3, log_dirs=("data",))
    await cluster.start(2, 3)
    await trio.sleep(20)
    state = cluster.controller.state()
    assert (state.leader, state.isr, state.elr) == (NO_LEADER, (), (1,))
    await cluster.start(1)
    await trio.sleep(20)
    state = cluster.controller.state()
    assert (state.leader, sorted(state.isr), state.elr) == (1, [1, 2, 3], ())
    assert state.leader_recovery_state is LeaderRecoveryState.RECOVERED
    assert await cluster[1].consumed() == [f"{value}" for value in range(5)]
    await cluster[1].stop()
    await cluster[1].start()
    assert cluster[1].replicas.directories.proof.directories == frozenset(
        cluster[1].replicas.directories.online_ids
    )


async def test_a_mark_of_the_version_without_directories_proves_nothing(make_cluster, autojump_clock):
    """It can't tell that a folder was taken out of log.dirs during the upgrade: the replica that was in it
    must not stay eligible, or it could lead with an empty log."""
    cluster = await filled(make_cluster, 3, min_isr=3)
    lost = partition_in_second(cluster[1])
    await cluster[1].stop()
    assert cluster.controller.state("t", lost).elr == (1,)
    await undo_directories(cluster, 1, log_dirs=TWO)
    await cluster[1].start(log_dirs=("d1",), unfence=False)
    for number in (0, 1):
        assert cluster.controller.state("t", number).elr == ()
    assert cluster[1].replicas.directories.proof.broker_epoch >= 0
    assert not cluster[1].replicas.directories.proof.directories
    cluster.controller.unfence(1)
    await trio.sleep(20)
    assert [end_of(cluster[1], number) for number in (0, 1)] == [5, 5], "copied from those that have it"


@pytest.mark.bug("KAFKA-16157")
async def test_a_topic_made_again_is_not_taken_for_what_lies_in_a_failed_directory(
    make_cluster, autojump_clock
):
    cluster = await filled(make_cluster)
    number = partition_in_second(cluster[1])
    cluster[1].disk.fail(DiskOperation.APPEND, path_part="d2/", times=10**6)
    await cluster[1].produced("fails", partition_id=number, timeout_ms=1000)
    await cluster.until(lambda: cluster[1].replicas.directories.failed_ids)
    cluster.controller.beat(1)
    cluster.controller.delete()
    cluster.controller.create(replicas=(1,), partitions=2, number=2)
    for each in (0, 1):
        await cluster.opened("t", each)
        assert home_of(cluster[1], each) == "d1"
        assert not (await cluster[1].produced("new", partition_id=each)).error
        assert await cluster[1].consumed(partition_id=each) == ["new"]


@pytest.mark.bug("KAFKA-17190")
async def test_a_directory_assignment_of_a_replica_that_moved_away_holds_up_no_other(
    make_brokers, autojump_clock
):
    cluster = make_brokers(brokers=2, min_isr=1)
    await cluster[1].start(log_dirs=TWO)
    await cluster[2].start()
    cluster.controller.unreachable = True
    cluster.controller.create("gone", replicas=(1,), number=1)
    cluster.controller.create("t", replicas=(1,), number=2)
    await cluster.opened("gone")
    await cluster.opened("t")
    cluster[1].hold_metadata()
    cluster.controller.change("gone", replicas=(2,), isr=(2,), leader=2)
    cluster.controller.unreachable = False
    await cluster.until(lambda: not is_reserved(cluster.controller.state("t").directory_of(1)), within_s=30)
    await cluster.until(lambda: len(cluster[1].manager._parts.roles.assignments) == 0, within_s=30)


@pytest.mark.bug("KAFKA-10314")
async def test_a_broker_with_a_failed_directory_takes_new_replicas_in_the_others(
    make_cluster, autojump_clock
):
    cluster = await filled(make_cluster, 2, replicas=(1,))
    number = partition_in_second(cluster[1])
    cluster[1].disk.fail(DiskOperation.APPEND, path_part="d2/", times=10**6)
    await cluster[1].produced("fails", partition_id=number, timeout_ms=1000)
    await cluster.until(lambda: cluster[1].replicas.directories.failed_ids)
    cluster.controller.beat(1)
    cluster.controller.create("moves", replicas=(2,), number=2)
    await cluster.opened("moves")
    await cluster[2].produced("kept", name="moves")
    cluster.controller.change("moves", replicas=(2, 1))
    await cluster.in_sync(1, 2, name="moves")
    assert cluster[1].manager._logs.folders.log_directory_of("moves", 0).path == "d1"
    assert cluster[1].partition("moves").log.end_offset == 1


@pytest.mark.slow
@pytest.mark.bug("KAFKA-16814")
async def test_a_folder_that_a_power_loss_left_half_made_does_not_keep_a_broker_from_starting(
    make_brokers, autojump_clock
):
    for moment in range(12):
        cluster = make_brokers(brokers=1, min_isr=1, seed=moment)
        await cluster[1].start(log_dirs=TWO)
        cluster.controller.create(replicas=(1,))
        for _ in range(moment):
            await trio.lowlevel.checkpoint()
        await cluster.restart(1, power=True, log_dirs=TWO)
        assert not (await cluster[1].produced("a")).error
        await cluster[1].stop()
