"""Random lives of a cluster: whatever happens, the image keeps its promises and the log explains it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.controller.operations.alter_configs import alter_configs
from quorate.broker.controller.rpc import (
    AlterConfigsItem,
    AlterConfigsRequest,
    ConfigAlteration,
    ConfigOperation,
    FewerPartitions,
    MorePartitions,
    NewTopic,
)
from quorate.broker.metadata.delta import apply_records
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import NO_LEADER, ConfigType
from quorate.broker.metadata_cache import MetadataCache
from quorate.types import Epoch, Offset, SnapshotId
from tests.broker.controller.images import feed, from_snapshot

BROKERS = st.integers(1, 4)
DIRECTORIES = st.sets(st.integers(0, 2), min_size=1)
NAMES = st.sampled_from(["a", "b", "c"])
STEPS = st.one_of(
    st.tuples(st.just("register"), BROKERS, st.integers(0, 3), st.booleans(), DIRECTORIES, st.booleans()),
    st.tuples(st.just("beat"), BROKERS, st.booleans(), st.booleans(), st.sets(st.integers(0, 2))),
    st.tuples(st.just("assign"), BROKERS, NAMES, st.integers(0, 3), st.integers(0, 2)),
    st.tuples(st.just("fence"), BROKERS),
    st.tuples(st.just("unregister"), BROKERS),
    st.tuples(st.just("create"), NAMES, st.integers(1, 4), st.integers(1, 3)),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("resize"), NAMES, st.integers(1, 6)),
    st.tuples(st.just("unclean"), NAMES, st.booleans()),
    # An ISR grows only after it has shrunk.
    *[st.tuples(st.just("isr"), st.integers(0, 99), st.sets(BROKERS), st.sampled_from((0, 0, 1)))] * 3,
)


def take(cluster, step) -> None:
    image = cluster.image
    match step:
        case ("register", broker_id, incarnation, live, dirs, proves):
            held = image.broker(broker_id)
            previous = held.epoch if proves and held is not None else -1
            cluster.register(
                broker_id, incarnation=incarnation, live=live, dirs=tuple(sorted(dirs)), previous=previous
            )
        case ("beat", broker_id, fence, stop, failed):
            if image.broker(broker_id) is not None:
                at = len(cluster.log)
                failed = tuple(sorted(failed))
                cluster.beat(broker_id, fence=fence, stop=stop, goal=at, lowest=at, failed=failed)
        case ("assign", broker_id, name, partition_id, where):
            topic = image.topic(name)
            if image.broker(broker_id) is not None and topic is not None:
                cluster.assign(broker_id, (topic.topic_id, partition_id, where))
        case ("fence", broker_id):
            cluster.fence(broker_id)
        case ("unregister", broker_id):
            cluster.unregister(broker_id)
        case ("create", name, partitions, factor):
            cluster.make(NewTopic(name=name, num_partitions=partitions, replication_factor=factor))
        case ("delete", name):
            cluster.delete(name)
        case ("resize", name, count):
            cluster.extend(MorePartitions(name=name, count=count))
            cluster.shrink(FewerPartitions(name=name, count=count))
        case ("unclean", name, enabled):
            alteration = ConfigAlteration(
                name="unclean.leader.election.enable",
                operation=ConfigOperation.SET,
                value=str(enabled).lower(),
            )
            item = AlterConfigsItem(
                resource_type=ConfigType.TOPIC, resource_name=name, alterations=(alteration,)
            )
            cluster.do(alter_configs(image, AlterConfigsRequest(resources=(item,))))
        case ("isr", number, others, stale):
            alter(cluster, number, others, stale)


def alter(cluster, number: int, others: set[int], stale: int) -> None:
    """By the leader of one of the partitions: an ISR that may be. Others: test_alter_partition.py."""
    led = [(key, state) for key, state in cluster.image.all_partitions() if state.leader != NO_LEADER]
    if not led:
        return
    (topic_id, partition_id), state = led[number % len(led)]
    members = sorted({state.leader, *(others & {*state.replicas})})
    result = cluster.alter_isr(
        topic_id, *members, partition=partition_id, partition_epoch=state.partition_epoch - stale
    )
    if not result.error:
        after = cluster.partition(topic_id, partition_id)
        assert (result.partition_epoch, result.isr) == (after.partition_epoch, after.isr)


def check_epochs(before: MetadataImage, after: MetadataImage) -> None:
    for key, was in before.all_partitions():
        now = after.partition(*key)
        if now is None:
            continue
        assert now.leader_epoch >= was.leader_epoch
        assert now.partition_epoch >= was.partition_epoch
        if now.leader != was.leader:
            assert now.leader_epoch > was.leader_epoch
        if now != was:
            assert now.partition_epoch > was.partition_epoch
    for broker_id, broker in before.brokers.items():
        later = after.broker(broker_id)
        if later is not None:
            assert later.epoch >= broker.epoch
            assert (later.incarnation_id != broker.incarnation_id) == (later.epoch != broker.epoch)


@pytest.mark.slow
@given(steps=st.lists(STEPS, min_size=10, max_size=40))
def test_the_image_keeps_its_invariants_under_any_sequence_of_requests(new_cluster, steps) -> None:
    cluster = new_cluster()
    cluster.start(1, 2, 3)
    for step in steps:
        before = cluster.image.copy()
        take(cluster, step)
        cluster.check()
        check_epochs(before, cluster.image)
    assert cluster.replayed() == cluster.image
    assert from_snapshot(cluster.image) == cluster.image


def check_elections(before: MetadataImage, after: MetadataImage) -> None:
    """Whoever leads by now, or is in an ISR, was active and had what was committed."""
    for key, was in before.all_partitions():
        now = after.partition(*key)
        if now is None:
            continue
        for member in {*now.isr} - {*was.isr}:
            assert after.is_active(member), f"{member} joined the ISR of {key} while it was inactive"
        if now.leader not in (was.leader, NO_LEADER):
            assert after.is_active(now.leader), f"{now.leader} was elected for {key} while it was inactive"
            assert now.leader in (*was.isr, *was.elr) or now.leader_recovery_state


@pytest.mark.slow
@pytest.mark.bug("aiven/inkless PR 643")
@given(steps=st.lists(st.tuples(STEPS, st.integers(0, 3)), min_size=10, max_size=40), size=st.integers(1, 2))
def test_any_request_may_come_between_two_pieces_and_a_new_controller_finishes_the_rest(
    new_cluster, steps, size: int
) -> None:
    cluster = new_cluster()
    cluster.piece_size = size
    cluster.patience = 0
    cluster.start(1, 2, 3)
    cluster.create("a", (1, 2, 3), (2, 3, 1), (3, 1, 2))
    for step, pieces in steps:
        before = cluster.image.copy()
        take(cluster, step)
        cluster.work(pieces=pieces)
        cluster.check_between_pieces()
        check_epochs(before, cluster.image)
        check_elections(before, cluster.image)
    successor = new_cluster()
    for record in cluster.log:
        successor.append(record)
    for each in (cluster, successor):
        each.repair()
        each.check()
    assert cluster.replayed() == cluster.image


def fed(records):
    cache = MetadataCache()
    feed(cache, records)
    return cache


@pytest.mark.bug("KAFKA-14894")
@given(earlier=st.lists(STEPS, max_size=15), later=st.lists(STEPS, max_size=15))
def test_a_loaded_snapshot_makes_the_image_that_the_records_make_and_says_what_they_change(
    new_cluster, earlier, later
):
    cluster = new_cluster()
    cluster.start(1, 2)
    for name in ("a", "b"):
        cluster.create(name, (1, 2), (2, 1))
    for step in earlier:
        take(cluster, step)
    split = len(cluster.log)
    for step in later:
        take(cluster, step)
    ahead, behind = fed(cluster.log), fed(cluster.log[:split])
    told = []
    behind.subscribe(lambda delta, image: told.append((delta, image)))
    before = behind.image.copy()

    loader = behind.load_snapshot(SnapshotId(Offset(len(cluster.log)), Epoch(1)))
    chunks = ahead.take_snapshot()
    feed(ahead, [])
    for chunk in chunks:
        loader.add(chunk)
    assert behind.image == before
    loader.install()

    assert behind.image == ahead.image == cluster.image
    assert behind.offset == len(cluster.log) - 1
    assert behind.image.leaderless_count == cluster.image.leaderless_count
    ((delta, image),) = told
    assert image is behind.image
    replayed = apply_records(before.copy(), cluster.log[split:], base_offset=split, epoch=1)
    assert set(delta.partitions) == {each for each in replayed.partitions if each.before != each.after}
    assert set(delta.brokers) == {each for each in replayed.brokers if each.before != each.after}
    assert sorted(delta.created_topics) == sorted(replayed.created_topics)
    assert sorted(delta.deleted_topics) == sorted(replayed.deleted_topics)
    assert set(delta.configs) <= set(replayed.configs)
    assert {each for each in replayed.configs if before.configs(each) != image.configs(each)} == set(
        delta.configs
    )
    assert (delta.base_offset, delta.end_offset) == (split, len(cluster.log))
