"""Replicas that move between the directories of their broker (KIP-113), while records come and go, disks fail
and the broker is killed at every step: exactly one folder is the replica, and it has everything
acknowledged."""

import contextlib

import pytest
import trio

from quorate.broker.metadata.metadata_records import NO_LEADER
from quorate.broker.replication.foundation.errors import PartitionError
from quorate.broker.replication.foundation.failures import DirectoryFailed
from quorate.broker.replication.storage.folders import MOVED_MARK, PARTITION_METADATA
from quorate.error_code import ErrorCode
from quorate.simulation.world.simulated_disk import DiskOperation
from tests.broker.replication.conftest import refused_with

TWO = ("d1", "d2")
SLOW = {"replica.alter.log.dirs.io.max.bytes.per.second": "100000"}
FREE = dict.fromkeys(SLOW)


def home_of(broker, number=0):
    """The directory that the open replica is in."""
    folder, _, name = broker.partition("t", number).log.folder.rpartition("/")
    assert name == f"t-{number}"
    return folder


def other_of(broker, number=0):
    return "d2" if home_of(broker, number) == "d1" else "d1"


def folders(broker, directory):
    return [name for name in broker.disk.list(directory) if name.startswith("t-")]


def futures(broker):
    """Directory, partition and lag of each future replica, as DescribeLogDirs has them."""
    return [
        (each.path.rpartition("/")[2], key, future.offset_lag)
        for each in broker.replicas.directories.reports()
        for key, future in each.futures.items()
    ]


def recorded(cluster, broker_id=1):
    """The directory that metadata names."""
    directory = cluster.controller.state().directory_of(broker_id)
    directories = cluster[broker_id].manager._logs.directories
    return next((each.path for each in directories if each.id == directory), None)


async def one_broker(make_cluster, *, values=5, **options):
    cluster = await make_cluster(1, log_dirs=TWO, **options)
    await cluster[1].produce_each(f"{value}" for value in range(values))
    await cluster.until(lambda: recorded(cluster) == home_of(cluster[1]))
    return cluster


async def begin_move(cluster):
    """Ask broker 1 to move its replica to the other directory, which is returned."""
    target = other_of(cluster[1])
    await cluster[1].replicas.moves.move("t", 0, target)
    return target


async def moved(cluster, to, *, broker_id=1):
    """The replica is there, metadata says so, and nothing is left of the move."""
    broker = cluster[broker_id]
    await cluster.until(lambda: home_of(broker) == to and recorded(cluster, broker_id) == to)
    (source,) = (each for each in TWO if each != to)
    await cluster.until(lambda: not folders(broker, source))
    assert folders(broker, to) == ["t-0"]
    assert futures(broker) == []


async def test_a_replica_moves_and_goes_on_serving_what_it_had_and_what_comes(make_cluster, autojump_clock):
    cluster = await one_broker(make_cluster)
    source, target = home_of(cluster[1]), other_of(cluster[1])
    await cluster[1].replicas.moves.move("t", 0, target)
    await cluster.until(lambda: home_of(cluster[1]) == target)
    assert not (await cluster[1].produced("5")).error
    assert await cluster[1].consumed() == [f"{each}" for each in range(6)]
    assert folders(cluster[1], source) == ["t-0"], "readers of the old log are given time"
    await moved(cluster, target)
    await cluster.restart(1, stop=True, log_dirs=TWO)
    assert home_of(cluster[1]) == target
    assert await cluster[1].consumed() == [f"{each}" for each in range(6)]


@pytest.mark.slow
async def test_there_and_back_leaves_one_folder(make_cluster, autojump_clock):
    cluster = await one_broker(make_cluster)
    source, target = home_of(cluster[1]), other_of(cluster[1])
    for to in (target, source, target):
        await cluster[1].replicas.moves.move("t", 0, to)
        await moved(cluster, to)
    assert await cluster[1].consumed() == ["0", "1", "2", "3", "4"]


@pytest.mark.bug("KAFKA-9263")
async def test_records_are_produced_through_the_whole_move_and_none_is_lost(make_cluster, autojump_clock):
    cluster = await one_broker(make_cluster)
    cluster[1].disk.sync_delay = 0.05
    target = await begin_move(cluster)
    value = 5
    while home_of(cluster[1]) != target or value < 200:
        assert not (await cluster[1].produced(f"{value}")).error
        value += 1
        await trio.sleep(0.003)
    await moved(cluster, target)
    assert await cluster[1].consumed() == [f"{each}" for each in range(value)]


def throttle(cluster, values):
    from quorate.broker.metadata.metadata_records import Config, ConfigType

    cluster.controller.commit(
        *(
            Config(resource_type=ConfigType.BROKER, resource_name="1", name=name, value=value)
            for name, value in values.items()
        )
    )


async def slow_move(make_cluster, *, size=300_000, **options):
    """A move that has not copied everything for a while."""
    cluster = await one_broker(make_cluster, values=0, **options)
    throttle(cluster, SLOW)
    await cluster[1].produce_each(f"{number}" * size for number in range(4))
    await trio.sleep(1)
    target = await begin_move(cluster)
    await trio.sleep(0.5)
    await cluster[1].produce_each(f"{number}" * size for number in range(4, 8))
    return cluster, target


async def test_the_copy_keeps_to_its_rate_and_shows_its_lag(make_cluster, autojump_clock):
    cluster, target = await slow_move(make_cluster)
    assert futures(cluster[1]) == [(target, ("t", 0), 7)]
    begun = trio.current_time()
    await cluster.until(lambda: home_of(cluster[1]) == target, within_s=600)
    took = trio.current_time() - begun
    assert 10 < took < 40, f"2.4 MB at 100 kB/s: {took} s"
    assert len(await cluster[1].consumed()) == 8


async def test_the_present_directory_cancels_a_move(make_cluster, autojump_clock):
    cluster, target = await slow_move(make_cluster)
    source = home_of(cluster[1])
    await cluster[1].replicas.moves.move("t", 0, source)
    assert futures(cluster[1]) == []
    assert folders(cluster[1], target) == []
    await trio.sleep(120)
    assert home_of(cluster[1]) == source == recorded(cluster)
    assert len(await cluster[1].consumed()) == 8


async def test_another_directory_takes_the_place_of_the_first(make_cluster, autojump_clock):
    cluster = await make_cluster(1, log_dirs=("d1", "d2", "d3"))
    throttle(cluster, SLOW)
    await cluster[1].produce_each(f"{number}" * 100000 for number in range(8))
    first, second = (each for each in ("d1", "d2", "d3") if each != home_of(cluster[1]))
    await cluster[1].replicas.moves.move("t", 0, first)
    await trio.sleep(1)
    await cluster[1].replicas.moves.move("t", 0, second)
    assert folders(cluster[1], first) == []
    assert [each[0] for each in futures(cluster[1])] == [second]
    throttle(cluster, FREE)
    await cluster.until(lambda: home_of(cluster[1]) == second, within_s=2000)
    assert len(await cluster[1].consumed()) == 8


@pytest.mark.parametrize(
    ("path", "code"),
    [("d3", ErrorCode.LOG_DIR_NOT_FOUND), ("d2/t-0", ErrorCode.LOG_DIR_NOT_FOUND)],
)
async def test_a_directory_that_is_not_the_brokers_is_refused(make_cluster, path, code, autojump_clock):
    cluster = await one_broker(make_cluster)
    with refused_with(code):
        await cluster[1].replicas.moves.move("t", 0, path)


async def test_a_replica_that_is_not_here_is_made_where_it_was_wished(make_brokers, autojump_clock):
    cluster = make_brokers(brokers=1, min_isr=1)
    await cluster[1].start(log_dirs=TWO)
    for wished in ("d2", "d1", "d2"):
        with refused_with(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            await cluster[1].replicas.moves.move("t", 0, wished)
    cluster.controller.create(replicas=(1,))
    await cluster.opened()
    assert home_of(cluster[1]) == "d2"


async def test_a_replica_of_another_broker_is_not_available(make_brokers, autojump_clock):
    cluster = make_brokers(brokers=2, min_isr=1)
    await cluster[1].start(log_dirs=TWO)
    await cluster[2].start(log_dirs=TWO)
    cluster.controller.create(replicas=(1,))
    await cluster.opened()
    with refused_with(ErrorCode.REPLICA_NOT_AVAILABLE):
        await cluster[2].replicas.moves.move("t", 0, "d2")


async def test_a_name_that_has_no_room_for_the_future_is_refused(make_cluster, autojump_clock):
    cluster = await one_broker(make_cluster)
    with refused_with(ErrorCode.INVALID_TOPIC_EXCEPTION):
        await cluster[1].replicas.moves.move("t" * 220, 0, "d1")


async def test_nothing_moves_while_a_directory_is_offline(make_cluster, autojump_clock):
    cluster = await make_cluster(1, log_dirs=("d1", "d2", "d3"))
    first, second = (each for each in ("d1", "d2", "d3") if each != home_of(cluster[1]))
    await fail_directory(cluster, first)
    for target in (first, second):
        with refused_with(ErrorCode.KAFKA_STORAGE_ERROR):
            await cluster[1].replicas.moves.move("t", 0, target)


async def fail_directory(cluster, path):
    """Its next write fails, as its checkpoints do every few seconds."""
    manager = cluster[1].manager
    directory = next(each.id for each in manager._logs.directories if each.path == path)
    manager._parts.base.failures.report(DirectoryFailed(directory, OSError("input/output error")))


# Interrupted


@pytest.mark.parametrize("change", ["deletion", "reassignment"])
async def test_a_removed_replica_takes_its_future_along(make_cluster, autojump_clock, change):
    cluster, _ = await slow_move(make_cluster)
    if change == "deletion":
        cluster.controller.delete()
    else:
        cluster.controller.change(replicas=(2,), isr=(2,), leader=NO_LEADER)
    await cluster.until(lambda: not folders(cluster[1], "d1") and not folders(cluster[1], "d2"))
    assert not len(cluster[1].replicas.moves)


async def test_a_deletion_right_after_the_switch_leaves_nothing(make_cluster, autojump_clock):
    cluster = await one_broker(make_cluster)
    target = await begin_move(cluster)
    await cluster.until(lambda: home_of(cluster[1]) == target)
    cluster.controller.delete()
    await cluster.until(lambda: not folders(cluster[1], "d1") and not folders(cluster[1], "d2"))
    assert cluster[1].replicas.directories.failed_ids == ()


async def test_a_target_that_fails_leaves_the_replica_where_it_is(make_cluster, autojump_clock):
    cluster, target = await slow_move(make_cluster)
    source = home_of(cluster[1])
    cluster[1].disk.fail(DiskOperation.APPEND, path_part="-future", times=99)
    throttle(cluster, FREE)
    await cluster.until(lambda: bool(cluster[1].replicas.directories.failed_ids))
    assert home_of(cluster[1]) == source
    assert not (await cluster[1].produced("more")).error
    assert len(await cluster[1].consumed()) == 9
    cluster.controller.beat(1)
    assert cluster.controller.state().leader == 1
    cluster[1].disk.clear_faults()
    await cluster.restart(1, stop=True, log_dirs=TWO)
    await moved(cluster, target)
    assert len(await cluster[1].consumed()) == 9, "with the disk back, the move goes on"


async def test_a_full_target_ends_the_move_and_not_the_directory(make_cluster, autojump_clock):
    cluster, target = await slow_move(make_cluster)
    cluster[1].disk.space_left = 10
    throttle(cluster, FREE)
    await cluster.until(lambda: not len(cluster[1].replicas.moves), within_s=600)
    cluster[1].disk.space_left = None
    assert cluster[1].replicas.directories.failed_ids == ()
    assert folders(cluster[1], target) == []
    assert len(await cluster[1].consumed()) == 8


async def test_a_source_that_fails_keeps_the_copy_from_being_taken_for_the_replica(
    make_cluster, autojump_clock
):
    cluster, target = await slow_move(make_cluster)
    source = home_of(cluster[1])
    await fail_directory(cluster, source)
    cluster.controller.beat(1)
    assert cluster.controller.state().leader == NO_LEADER
    throttle(cluster, FREE)
    await trio.sleep(60)
    await cluster[1].stop()
    await cluster[1].start(log_dirs=(target,))
    await trio.sleep(60)
    assert cluster.controller.state().leader == NO_LEADER
    with pytest.raises(PartitionError):
        cluster[1].partition()
    await cluster.restart(1, stop=True, log_dirs=TWO)
    await moved(cluster, target)
    assert len(await cluster[1].consumed()) == 8


async def test_deleted_records_stay_deleted_whatever_was_copied(make_cluster, autojump_clock):
    cluster, target = await slow_move(make_cluster)
    assert not (await cluster[1].deleted(5)).error
    throttle(cluster, FREE)
    await moved(cluster, target)
    log = cluster[1].partition().log
    assert (log.log_start_offset, log.durable_log_start_offset, log.end_offset) == (5, 5, 8)
    await cluster.restart(1, power=True, log_dirs=TWO)
    assert cluster[1].partition().log.log_start_offset == 5


async def test_a_log_that_starts_in_the_middle_of_a_batch_is_copied(make_cluster, autojump_clock):
    cluster = await one_broker(make_cluster, values=0)
    await cluster[1].produced("a", "b", "c")
    await cluster[1].produced("d")
    assert not (await cluster[1].deleted(2)).error
    target = await begin_move(cluster)
    await moved(cluster, target)
    log = cluster[1].partition().log
    assert (log.log_start_offset, log.end_offset) == (2, 4)
    await cluster.restart(1, stop=True, log_dirs=TWO)
    assert cluster[1].partition().log.log_start_offset == 2


async def test_a_kill_right_after_the_switch_brings_no_deleted_record_back(make_cluster, autojump_clock):
    """The log starts in the middle of a batch, which only the directory's file says."""
    cluster = await one_broker(make_cluster, values=0)
    await cluster[1].produced("a", "b", "c")
    await cluster[1].produced("d")
    assert not (await cluster[1].deleted(2)).error
    source, target = home_of(cluster[1]), other_of(cluster[1])
    switching = trio.Event()

    def delay(path):
        if path == target and cluster[1].disk.exists(f"{source}/t-0/{MOVED_MARK}"):
            switching.set()
            return 60
        return 0

    cluster[1].disk.sync_delay = delay
    await cluster[1].replicas.moves.move("t", 0, target)
    with trio.fail_after(30):
        await switching.wait()
    await cluster[1].crash()
    cluster[1].disk.sync_delay = 0
    cluster.controller.fence(1)
    await cluster[1].start(log_dirs=TWO)
    await cluster.opened()
    assert home_of(cluster[1]) == target
    assert cluster[1].partition().log.log_start_offset == 2


@pytest.mark.bug("KAFKA-15608")
async def test_an_emptied_log_moves_with_its_offsets_and_epochs(make_cluster, autojump_clock):
    cluster = await one_broker(make_cluster)
    cluster.controller.change(leader=1)
    await cluster.opened()
    assert not (await cluster[1].deleted(5)).error
    before = cluster[1].partition().log
    target = await begin_move(cluster)
    await moved(cluster, target)
    after = cluster[1].partition().log
    assert (after.log_start_offset, after.end_offset) == (5, 5)
    assert after.epochs == before.epochs


@pytest.mark.bug("KAFKA-9654")
async def test_a_new_leader_epoch_in_the_middle_of_a_move_is_in_the_copy(make_cluster, autojump_clock):
    cluster, target = await slow_move(make_cluster)
    cluster.controller.change(leader=1)
    await cluster.opened()
    await cluster[1].produced("later")
    before = cluster[1].partition().log.epochs
    throttle(cluster, FREE)
    await moved(cluster, target)
    assert cluster[1].partition().log.epochs == before
    assert len(before) == 2


@pytest.mark.slow
async def test_a_follower_that_is_truncated_truncates_its_future(make_cluster, autojump_clock):
    """2 follows 3, and has records that 3, which leads uncleanly, never had."""
    cluster = await make_cluster(min_isr=1, log_dirs=TWO, replica_lag_time_max_ms=1000)
    await cluster[1].produce_each(f"{number}" * 3000 for number in range(4))
    await cluster.caught_up()
    cluster.cut_off(1)
    for number in range(4, 8):
        cluster[1].produce(f"{number}" * 3000, acks=1)
    await trio.sleep(1)
    target = other_of(cluster[1])
    cluster[1].disk.sync_delay = lambda path: 20 if "-future/" in path and path.endswith(".log") else 0
    await cluster[1].replicas.moves.move("t", 0, target)
    # It has everything, what will be cut included, and is being synced.
    await cluster.until(lambda: bool(futures(cluster[1])) and futures(cluster[1])[0][2] == 0)
    cluster.heal()
    cluster.controller.elect(2, isr=(2, 3))
    await cluster[2].produced("of the new leader")
    await cluster.in_sync(1, 2, 3)
    assert futures(cluster[1]), "it was cut while the future had what was cut"
    cluster[1].disk.sync_delay = 0
    await moved(cluster, target)
    await cluster.caught_up()
    assert await cluster[1].log_bytes() == await cluster[2].log_bytes()


async def test_retention_beside_the_copy_leaves_the_same_segments(make_cluster, autojump_clock):
    cluster = await one_broker(make_cluster, values=0, log_retention_check_interval_ms=1000)
    cluster.controller.configure(segment_bytes=1000_000)
    throttle(cluster, SLOW)
    await cluster[1].produce_each(f"{number}" * 100000 for number in range(8))
    target = await begin_move(cluster)
    await trio.sleep(2)
    cluster.controller.configure(segment_bytes=150_000)
    await cluster[1].produce_each(f"{number}" * 100000 for number in range(8))
    cluster.controller.configure(retention_bytes=250_000)
    await trio.sleep(5)
    start = cluster[1].partition().log.log_start_offset
    assert start > 8
    throttle(cluster, FREE)
    await cluster.until(lambda: home_of(cluster[1]) == target, within_s=2000)
    assert cluster[1].partition().log.log_start_offset >= start
    assert len(await cluster[1].consumed(cluster[1].partition().log.log_start_offset)) == 16 - start


# Killed


STEPS = {
    "the future is made": lambda broker: any(
        "-future" in name for each in TWO for name in folders(broker, each)
    ),
    "the mark is written": lambda broker: any(MOVED_MARK in broker.disk.list(f"{each}/t-0") for each in TWO),
    "it has its name": lambda broker: all(folders(broker, each) == ["t-0"] for each in TWO),
}


@pytest.mark.slow
@pytest.mark.bug("KAFKA-16082")
@pytest.mark.parametrize("power", [False, True])
async def test_a_kill_at_every_sync_of_a_move_leaves_one_replica_with_everything(
    make_cluster, power, autojump_clock
):
    """The disk is cut after each of the syncs in turn, until one run comes to the end. A kill without a loss
    of power keeps what was produced meanwhile, too."""
    for syncs in range(1, 200):
        cluster = await one_broker(make_cluster, seed=syncs)
        broker = cluster[1]
        source, target = home_of(broker), other_of(broker)
        assert not (await broker.deleted(2)).error
        acknowledged = ["2", "3", "4"]
        await broker.partition().log.flush()
        await broker.manager._logs.store_recovery_points()
        await broker.manager._logs.store_high_watermarks()
        killed = trio.Event()

        def cut_after(path, disk=broker.disk, last=broker.disk.syncs + syncs, killed=killed):
            if disk.syncs >= last and not killed.is_set():
                disk.cut()
                killed.set()

        broker.disk.on_sync = cut_after
        with trio.move_on_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(begin, broker, target)
                while not killed.is_set():
                    value = f"{len(acknowledged) + 2}"
                    if not power and not (await broker.produced(value)).error:
                        acknowledged.append(value)
                    await trio.sleep(0.002 if home_of(broker) == source else 1)
        ended = not killed.is_set()
        broker.disk.on_sync = None
        await broker.crash(power=power)
        cluster.controller.fence(1)
        await broker.start(log_dirs=TWO)
        await cluster.opened()
        assert broker.partition().log.log_start_offset == 2, f"killed after {syncs} syncs"
        consumed = await broker.consumed(2)
        assert consumed[: len(acknowledged)] == acknowledged, f"killed after {syncs} syncs"
        assert len(consumed) <= len(acknowledged) + 1
        assert not (await broker.produced("more")).error
        # A future that was left goes on, or the move had not begun.
        await trio.sleep(60)
        assert home_of(broker) == recorded(cluster)
        assert folders(broker, home_of(broker)) == ["t-0"]
        assert folders(broker, other_of(broker)) == [], f"killed after {syncs} syncs"
        assert await broker.consumed(2) == [*consumed, "more"]
        if ended:
            assert home_of(broker) == target != source
            break
    else:
        raise AssertionError("no run came to the end")
    assert syncs > 8, "the steps were cut"


async def begin(broker, target):
    with contextlib.suppress(PartitionError):
        await broker.replicas.moves.move("t", 0, target)


async def reach_step(cluster, step):
    while not STEPS[step](cluster[1]):  # noqa: ASYNC110
        await trio.sleep(0.001)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("lost", ["source", "target"])
async def test_the_loss_of_a_disk_with_the_process_never_lets_a_stale_copy_lead(
    make_cluster, step, lost, autojump_clock
):
    """If the broker comes back without one directory, the replica is there with every acknowledged record, or
    it is offline. If it comes back with the directory, the replica is there."""
    cluster = await one_broker(make_cluster)
    cluster[1].disk.sync_delay = 0.05
    source, target = home_of(cluster[1]), other_of(cluster[1])
    cluster.controller.unreachable = True
    values = [f"{each}" for each in range(5)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cluster[1].replicas.moves.move, "t", 0, target)
        with trio.fail_after(30):
            await reach_step(cluster, step)
    for value in ("late", "later"):
        assert not (await cluster[1].produced(value)).error
        values.append(value)
    await cluster[1].crash()
    cluster.controller.unreachable = False
    cluster.controller.fence(1)
    gone = source if lost == "source" else target
    volume = cluster[1].disk.unmount(gone)
    await cluster[1].start(log_dirs=tuple(each for each in TWO if each != gone))
    await trio.sleep(60)
    if cluster.controller.state().leader == 1:
        assert await cluster[1].consumed() == values
    else:
        with pytest.raises(PartitionError):
            cluster[1].partition()
    await cluster[1].stop()
    cluster[1].disk.mount(gone, volume)
    await cluster[1].start(log_dirs=TWO)
    await cluster.opened()
    assert cluster.controller.state().leader == 1
    assert await cluster[1].consumed() == values
    await moved(cluster, target)


async def test_the_folder_left_behind_stays_until_metadata_names_the_other(make_cluster, autojump_clock):
    """Otherwise a broker that comes back without the new directory would find nothing where metadata says
    that its replica is, and begin an empty log there."""
    cluster = await one_broker(make_cluster)
    source, target = home_of(cluster[1]), other_of(cluster[1])
    cluster.controller.unreachable = True
    await cluster[1].replicas.moves.move("t", 0, target)
    await cluster.until(lambda: home_of(cluster[1]) == target)
    await trio.sleep(60)
    assert recorded(cluster) == source
    assert cluster[1].disk.list(f"{source}/t-0") == sorted([MOVED_MARK, PARTITION_METADATA])
    cluster.controller.unreachable = False
    await moved(cluster, target)


@pytest.mark.bug("KAFKA-9087")
async def test_a_crash_in_the_copy_goes_on_where_it_was(make_cluster, autojump_clock):
    cluster, target = await slow_move(make_cluster)
    await cluster.restart(1, fence=True, log_dirs=TWO)
    await cluster.until(lambda: futures(cluster[1]) != [])
    throttle(cluster, FREE)
    await moved(cluster, target)
    assert len(await cluster[1].consumed()) == 8


async def test_a_target_that_fails_once_the_mark_is_there_fails_the_replica(make_cluster, autojump_clock):
    """The future counts from then on: a record that it lacks may not be acknowledged."""
    cluster = await one_broker(make_cluster)
    source, target = home_of(cluster[1]), other_of(cluster[1])

    def fail_after_mark(path):
        if cluster[1].disk.exists(f"{source}/t-0/{MOVED_MARK}"):
            cluster[1].disk.on_sync = None
            cluster[1].disk.fail(DiskOperation.RENAME, path_part="-future")

    cluster[1].disk.on_sync = fail_after_mark
    await cluster[1].replicas.moves.move("t", 0, target)
    await cluster.until(lambda: cluster[1].partition().failure is not None)
    assert (await cluster[1].produced("lost")).error == ErrorCode.KAFKA_STORAGE_ERROR
    cluster.controller.beat(1)
    await cluster.until(lambda: recorded(cluster) == target)
    assert cluster.controller.state().leader == NO_LEADER
    cluster[1].disk.clear_faults()
    await cluster.restart(1, fence=True, log_dirs=TWO)
    assert await cluster[1].consumed() == ["0", "1", "2", "3", "4"]
    await moved(cluster, target)


async def test_a_mirror_that_fails_while_the_mark_is_written_fails_the_replica(make_cluster, autojump_clock):
    """The mark may be durable already: what the mirror lacks may not be acknowledged."""
    cluster = await one_broker(make_cluster)
    source, target = home_of(cluster[1]), other_of(cluster[1])
    marking = trio.Event()

    def delay(path):
        if path == f"{source}/t-0/{MOVED_MARK}.tmp":
            marking.set()
            return 1
        return 0

    cluster[1].disk.sync_delay = delay
    await cluster[1].replicas.moves.move("t", 0, target)
    with trio.fail_after(30):
        await marking.wait()
    assert not (await cluster[1].produced("5")).error
    cluster[1].disk.fail(DiskOperation.APPEND, path_part="-future")
    assert (await cluster[1].produced("6")).error == ErrorCode.KAFKA_STORAGE_ERROR
    await trio.sleep(5)
    cluster.controller.beat(1)
    await cluster.until(lambda: cluster.controller.state().leader == NO_LEADER)
    await cluster.restart(1, fence=True, log_dirs=TWO)
    assert await cluster[1].consumed() == [f"{each}" for each in range(6)]
    await moved(cluster, target)


async def following(make_cluster):
    """1, which has two directories, follows 2."""
    cluster = await make_cluster(replicas=(2, 1, 3), min_isr=1, log_dirs=TWO, replica_lag_time_max_ms=1000)
    await cluster[2].produce_each(f"{number}" for number in range(4))
    await cluster.caught_up()
    return cluster


@pytest.mark.slow
async def test_a_follower_moves_while_its_leader_takes_records(make_cluster, autojump_clock):
    cluster = await following(make_cluster)
    cluster[1].disk.sync_delay = 0.05
    target = await begin_move(cluster)
    value = 4
    mirrored = 0
    while home_of(cluster[1]) != target or value < 100:
        assert not (await cluster[2].produced(f"{value}")).error
        value += 1
        partition = cluster[1].partition()
        if partition.mirror is not None:
            _, future = cluster[1].manager._logs.futures.find(("t", 0))
            assert future.log.end_offset == partition.log.end_offset, "what is acknowledged is in both"
            mirrored += 1
        await trio.sleep(0.01)
    assert mirrored, "no record came between the copy's end and the switch"
    cluster[1].disk.sync_delay = 0
    await moved(cluster, target)
    await cluster.caught_up()
    assert await cluster[1].log_bytes() == await cluster[2].log_bytes()
    await cluster.lead(1)
    assert await cluster[1].consumed() == [f"{each}" for each in range(value)]


@pytest.mark.slow
async def test_a_cut_takes_the_mirror_away(make_cluster, autojump_clock):
    """The second move has everything, and waits for the end of the first one, while the log is cut."""
    cluster = await following(make_cluster)
    first, second = other_of(cluster[1]), home_of(cluster[1])
    cluster.controller.unreachable = True
    await cluster[1].replicas.moves.move("t", 0, first)
    await cluster.until(lambda: home_of(cluster[1]) == first)
    cluster.cut_off(1)
    cluster.controller.elect(1)
    await cluster.until(lambda: cluster[1].partition().leading is not None)
    for number in range(4):
        cluster[1].produce(f"only on 1: {number}", acks=1)
    await cluster[1].replicas.moves.move("t", 0, second)
    await cluster.until(lambda: cluster[1].partition().mirror is not None)
    cluster[1].produce("in both", acks=1)
    cluster.controller.elect(2)
    await cluster[2].produced("of the new leader", acks=1)
    cluster.heal()
    await cluster.until(lambda: cluster[1].partition().log.end_offset == 5)
    assert home_of(cluster[1]) == first
    cluster.controller.unreachable = False
    await moved(cluster, second)
    await cluster.caught_up()
    assert await cluster[1].log_bytes() == await cluster[2].log_bytes()


async def test_a_producers_sequence_survives_the_move(make_cluster, autojump_clock):
    cluster = await one_broker(make_cluster, values=0)
    for sequence in range(3):
        assert not (await cluster[1].produced("x", producer=(7, 0, sequence))).error
    target = await begin_move(cluster)
    await moved(cluster, target)
    again = await cluster[1].produced("x", producer=(7, 0, 2))
    assert (again.error, again.base_offset) == (ErrorCode.NONE, 2)
    await cluster.restart(1, fence=True, log_dirs=TWO)
    again = await cluster[1].produced("x", producer=(7, 0, 2))
    assert (again.error, again.base_offset) == (ErrorCode.NONE, 2)
    assert cluster[1].partition().log.end_offset == 3
