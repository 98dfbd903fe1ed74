"""Bugs of other systems with replicas: fetches, sessions, producers, high watermarks and times."""

import random
from types import SimpleNamespace

import pytest
import trio
import trio.lowlevel
import trio.testing
from captured_logs import captured_logs

from quorate.broker.apis import fetch as fetch_api
from quorate.broker.replication.following import taking_in
from quorate.broker.replication.following.fetcher import LeaderFetcher
from quorate.broker.replication.foundation.errors import ReplicaFailedError
from quorate.broker.replication.producing.producer_state import ProducerState
from quorate.broker.wire.api import APIS, ApiKey
from quorate.broker.wire.codecs.fetch_codec import (
    FetchPartition,
    FetchTopic,
    KafkaFetchRequest,
    decode_fetch_response_steps,
)
from quorate.broker.wire.exchanges import ConnectionContext, RequestContext
from quorate.broker.wire.request_codec import encode_response
from quorate.error_code import ErrorCode
from quorate.log.batches.records import build_batch
from quorate.runtime.disk import write_file_atomically
from quorate.runtime.slices import at_once
from quorate.simulation.world.simulated_disk import DiskOperation
from tests.broker.replication.conftest import Answer, header, refused_with
from tests.broker.replication.session_client import SessionClient

CLEAN = "data/.kafka_cleanshutdown"


# Sessions and fetches


@pytest.mark.bug("KAFKA-13111")
async def test_a_topic_id_that_is_not_known_yet_disturbs_no_other_partition_of_a_session(
    make_cluster, autojump_clock
):
    cluster = await make_cluster(1)
    known = cluster.controller.image.topic("t").topic_id
    consumer = SessionClient(cluster[1], with_ids=True)
    await consumer.fetch((known, 0, 0))
    cluster[1].hold_metadata()
    cluster.controller.create("later", replicas=(1,), number=2)
    later = cluster.controller.image.topic("later").topic_id
    session_id = consumer.session_id
    told = await consumer.fetch((later, 0, 0))
    assert {key: each.error for key, each in told.items()} == {(later, 0): ErrorCode.UNKNOWN_TOPIC_ID}
    await cluster[1].produced("a")
    told = await consumer.fetch()
    assert (told[known, 0].size > 0, told[later, 0].error) == (True, ErrorCode.UNKNOWN_TOPIC_ID)
    cluster[1].release_metadata()
    await cluster.opened("later")
    await cluster[1].produced("b", name="later")
    told = await consumer.fetch((known, 0, 1))
    assert (told[later, 0].error, told[later, 0].size > 0) == (ErrorCode.NONE, True)
    cluster.controller.delete("later")
    await trio.sleep(1)
    await cluster[1].produced("c")
    told = await consumer.fetch()
    assert told[later, 0].error is ErrorCode.UNKNOWN_TOPIC_ID
    assert told[known, 0].size > 0
    assert consumer.session_id == session_id


@pytest.mark.bug("KAFKA-9338")
async def test_each_fetch_of_a_session_is_checked_against_the_leader_epoch_that_it_began_with(
    make_cluster, nursery, autojump_clock
):
    cluster = await make_cluster(2)
    topic = cluster.controller.image.topic("t").topic_id
    consumer = SessionClient(cluster[1], with_ids=True)
    assert (await consumer.fetch((topic, 0, 0, 0)))[topic, 0].error is ErrorCode.NONE
    assert await consumer.fetch() == {}
    parked = Answer(nursery, lambda: consumer.fetch(max_wait_ms=60_000))
    assert not await parked.is_there()
    cluster.controller.elect(1)
    await cluster.until(lambda: parked.result is not None, within_s=1)
    assert parked.result[topic, 0].error is ErrorCode.FENCED_LEADER_EPOCH
    for _ in range(2):
        assert (await consumer.fetch())[topic, 0].error is ErrorCode.FENCED_LEADER_EPOCH
    assert (await consumer.fetch((topic, 0, 0, 2)))[topic, 0].error is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (await consumer.fetch())[topic, 0].error is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (await consumer.fetch((topic, 0, 0, 1)))[topic, 0].error is ErrorCode.NONE


@pytest.mark.bug("KAFKA-6946")
async def test_a_throttled_answer_keeps_the_session_and_the_next_epoch_goes_on(make_cluster, autojump_clock):
    cluster = await make_cluster(1)
    await cluster[1].produced("a")
    over = 0.0
    api = SimpleNamespace(
        replicas=cluster[1].replicas,
        endpoint=lambda *_: None,
        image=SimpleNamespace(has_quotas=True),
        is_open=True,
        throttles=SimpleNamespace(
            overdrawn=lambda *_: over, room=lambda *_: None, spent=lambda *_: 0.0, charge=lambda *_: 0.0
        ),
    )

    async def fetch(session_id, epoch, *parts):
        request = KafkaFetchRequest(
            version=12,
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=session_id,
            session_epoch=epoch,
            topics=[FetchTopic("t", None, list(parts))] if parts else [],
        )
        context = RequestContext(
            ConnectionContext(id=1, peer="p:1", listener="P"), APIS[ApiKey.FETCH], 12, 1, None
        )
        answer = await fetch_api.handle_fetch(api, context, request)
        return at_once(decode_fetch_response_steps(b"".join(encode_response(answer)), 12))

    first = await fetch(0, 0, FetchPartition(0, fetch_offset=0, max_bytes=1 << 20))
    assert first.session_id
    assert first.topics[0].partitions[0].records
    over = 1.5
    throttled = await fetch(first.session_id, 1)
    assert (throttled.session_id, throttled.throttle_ms) == (first.session_id, 1500)
    assert not throttled.topics
    over = 0.0
    await cluster[1].produced("b")
    again = await fetch(first.session_id, 2, FetchPartition(0, fetch_offset=1, max_bytes=1 << 20))
    assert (again.session_id, again.error) == (first.session_id, ErrorCode.NONE)
    assert again.topics[0].partitions[0].records


@pytest.mark.bug("redpanda PR 11748")
@pytest.mark.bug("KAFKA-13767")
async def test_a_hint_to_the_closest_replica_is_in_every_answer_of_a_session_and_never_waits(
    make_cluster, autojump_clock
):
    """The consumer is at the log's end: nothing else has changed."""
    cluster = await make_cluster(2, racks={1: "a", 2: "b"}, reads_from_closest_replica=True)
    await cluster[1].produced("a")
    await cluster.caught_up()
    topic = cluster.controller.image.topic("t").topic_id
    consumer = SessionClient(cluster[1], with_ids=True, any_replica=True, rack_id="b", listener="PLAINTEXT")
    began = trio.current_time()
    for items in (((topic, 0, 1),), (), ()):
        told = await consumer.fetch(*items, max_wait_ms=10_000)
        assert told[topic, 0].preferred_read_replica == 2
    assert trio.current_time() == began


@pytest.mark.bug("KAFKA-13778")
async def test_a_follower_that_once_led_sends_no_consumer_anywhere(make_cluster, autojump_clock):
    cluster = await make_cluster(min_isr=1, racks={1: "a", 2: "b", 3: "c"}, reads_from_closest_replica=True)
    await cluster[1].produced("a")
    await cluster.caught_up()
    await cluster.lead(2)
    await cluster.caught_up()
    here = {"any_replica": True, "rack_id": "c", "listener": "PLAINTEXT"}
    await trio.sleep(1)  # until the others have fetched from it
    assert (await cluster[2].fetch(0, **here)).preferred_read_replica == 3
    told = await cluster[1].fetch(0, **here)
    assert (told.preferred_read_replica, told.size > 0) == (-1, True)


@pytest.mark.bug("KAFKA-9731")
async def test_a_high_watermark_that_moves_costs_followers_no_fetch(
    make_cluster, autojump_clock, monkeypatch
):
    cluster = await make_cluster(replica_fetch_wait_max_ms=100000, replica_socket_timeout_ms=200000)
    await cluster.caught_up()
    fetches = 0
    request = LeaderFetcher._request

    async def counted(self, version):
        nonlocal fetches
        fetches += 1
        return await request(self, version)

    monkeypatch.setattr(LeaderFetcher, "_request", counted)
    for _ in range(50):
        assert not (await cluster[1].produced("a")).error
        await trio.sleep(0.1)
    assert 90 <= fetches <= 110, "a record, a fetch of each of the two followers"


@pytest.mark.bug("KAFKA-7786")
@pytest.mark.parametrize("seed", range(5))
async def test_an_answer_of_an_epoch_before_stops_no_fetch_of_the_present_one(
    make_cluster, autojump_clock, seed
):
    """Two elections of the same leader, one right after the other, while answers are on their way."""
    draw = random.Random(seed)
    cluster = await make_cluster(2, min_isr=2)
    await cluster.caught_up()
    for _ in range(20):
        late = cluster[draw.choice((1, 2))]
        late.hold_metadata()
        cluster.controller.elect(1)
        await trio.sleep(draw.choice((0.0, 0.001, 0.3)))
        cluster.controller.elect(1)
        await trio.sleep(draw.choice((0.0, 0.001, 0.01)))
        late.release_metadata()
        await cluster.opened()
        began = trio.current_time()
        assert not (await cluster[1].produced("a")).error
        assert trio.current_time() - began < 2
    await cluster.caught_up()


@pytest.mark.bug("KAFKA-8346")
async def test_a_partition_that_fails_is_left_alone_and_the_others_of_its_fetcher_go_on(
    make_cluster, autojump_clock, monkeypatch
):
    cluster = await make_cluster(2, partitions=20)
    append = taking_in.append_replicated

    async def failing(partition, role, records, *, high_watermark):
        if records and partition.partition_id == 7 and partition.broker_id == 2:
            raise ReplicaFailedError("planted")
        await append(partition, role, records, high_watermark=high_watermark)

    monkeypatch.setattr(taking_in, "append_replicated", failing)
    with captured_logs() as lines:
        for number in range(20):
            await cluster[1].produced("a", partition_id=number, acks=1)
        await cluster.until(
            lambda: all(cluster[2].partition(partition_id=n).log.end_offset for n in range(20) if n != 7)
        )
        await trio.sleep(1)
    assert cluster[2].partition(partition_id=7).log.end_offset == 0
    said = [each for each in lines if each["event"] == "a partition is not replicated any more"]
    assert [each["partition"] for each in said] == ["t-7"]
    monkeypatch.undo()
    for _ in range(2):
        for number in range(20):
            assert not (await cluster[1].produced("b", partition_id=number, acks=1)).error
    await cluster.until(lambda: cluster[2].partition(partition_id=6).log.end_offset == 3)


@pytest.mark.bug("KAFKA-17234")
async def test_a_parked_fetch_that_fails_hits_neither_the_others_nor_the_append_that_woke_it(
    make_cluster, nursery, autojump_clock, monkeypatch
):
    cluster = await make_cluster(1)
    held, outcomes = cluster[1].partition(), []
    read = held.log.read
    reads = 0

    async def tenth_fails(*where, **limits):
        nonlocal reads
        if held.log.end_offset:
            reads += 1
            if reads == 5:
                raise RuntimeError("planted")
        return await read(*where, **limits)

    monkeypatch.setattr(held.log, "read", tenth_fails)

    async def consume():
        try:
            outcomes.append((await cluster[1].fetch(0, max_wait_ms=10_000)).size > 0)
        except RuntimeError:
            outcomes.append("failed")

    for _ in range(10):
        nursery.start_soon(consume)
    await trio.testing.wait_all_tasks_blocked()
    assert not (await cluster[1].produced("a")).error
    await cluster.until(lambda: len(outcomes) == 10, within_s=1)
    assert sorted(map(str, outcomes)) == ["True"] * 9 + ["failed"]


# High watermarks and times


@pytest.mark.bug("KAFKA-9196")
async def test_after_a_roll_nothing_above_the_high_watermark_is_readable(make_cluster, autojump_clock):
    cluster = await make_cluster(2, replica_lag_time_max_ms=1000000)
    await cluster[1].produce_each(f"{number}" for number in range(10))
    await cluster.caught_up()
    log = cluster[1].partition().log
    assert log.roll_if_older(1 << 60)
    assert cluster[1].partition().high_watermark == log.active_base_offset == 10
    cluster.cut_off(2)
    for _ in range(10):
        cluster[1].produce("uncommitted", acks=1)
    assert log.end_offset == 20
    assert await cluster[1].consumed(9) == ["9"]
    assert await cluster[1].consumed(10) == []


def stamped(*stamps):
    return b"".join(build_batch(base_offset=0, epoch=-1, timestamp_ms=at, values=[b"x"]) for at in stamps)


async def newest(broker):
    found = await broker.replicas.queries.list_offset("t", 0, timestamp=-3)
    return found.offset, found.timestamp


@pytest.mark.bug("KAFKA-16342")
async def test_the_newest_timestamp_is_the_same_records_after_replication_and_after_a_rebuild(
    make_cluster, autojump_clock
):
    cluster = await make_cluster(2, min_isr=2)
    now = cluster[1].wall_clock.now_ms()
    for at in (1, 9, 3):
        pending = cluster[1].send(stamped(now + at))
        await pending.wait()
    await cluster.caught_up()
    assert await newest(cluster[1]) == (1, now + 9)
    await cluster.lead(2)
    assert await newest(cluster[2]) == (1, now + 9)
    await cluster[2].stop()
    for name in cluster[2].disk.list("data/t-0"):
        if name.endswith("index"):
            cluster[2].disk.remove(f"data/t-0/{name}")
    await cluster[2].start()
    await cluster.in_sync(1, 2)
    await cluster.lead(2)
    assert await newest(cluster[2]) == (1, now + 9)


@pytest.mark.bug("KAFKA-12981")
async def test_the_newest_timestamp_and_its_offset_are_of_one_moment(make_cluster, nursery, autojump_clock):
    cluster = await make_cluster(1)
    start = cluster[1].wall_clock.now_ms()
    asked = 0

    async def ask():
        nonlocal asked
        while True:
            offset, timestamp = await newest(cluster[1])
            assert timestamp - start == 7 * offset, "a pair that never existed"
            asked += 1
            await trio.lowlevel.checkpoint()

    await cluster[1].send(stamped(start)).wait()
    nursery.start_soon(ask)
    for number in range(1, 100):
        await cluster[1].send(stamped(start + 7 * number)).wait()
        await trio.lowlevel.checkpoint()
    assert asked > 20


@pytest.mark.slow
@pytest.mark.bug("KAFKA-18929")
async def test_a_record_of_the_future_keeps_its_segment_with_a_word_and_not_from_going_by_size(
    make_cluster, autojump_clock
):
    hour_ms = 3_600_000
    cluster = await make_cluster(1, log_retention_check_interval_ms=60_000)
    now = cluster[1].wall_clock.now_ms()
    cluster.controller.configure(
        segment_bytes=80, retention_ms=hour_ms, message_timestamp_after_max_ms=1 << 50
    )
    await trio.sleep(0.1)
    for at in (now + 365 * 24 * hour_ms, now, now):
        await cluster[1].send(stamped(at)).wait()
    with captured_logs() as lines:
        await trio.sleep(3 * hour_ms / 1000)
    assert cluster[1].partition().log.log_start_offset == 0
    (said,) = [each for each in lines if "dated in the future" in each["event"]]
    assert (said["partition"], said["timestamp_ms"]) == ("t-0", now + 365 * 24 * hour_ms)
    cluster.controller.configure(retention_bytes=1)
    await trio.sleep(120)
    assert cluster[1].partition().log.log_start_offset == 2


# Orderly stops


@pytest.mark.bug("KAFKA-13315")
async def test_an_orderly_stop_while_retention_is_due_leaves_its_mark(make_cluster, autojump_clock):
    cluster = await make_cluster(1, partitions=40, log_retention_check_interval_ms=10)
    cluster.controller.configure(segment_bytes=100, retention_bytes=150)
    await trio.sleep(0.1)
    disk = cluster[1].disk
    disk.sync_delay = 0.005
    for number in range(40):
        for _ in range(4):
            cluster[1].produce("x" * 80, partition_id=number)
    await trio.sleep(0.02)
    await cluster[1].stop()
    assert disk.exists(CLEAN)
    disk.sync_delay = 0.0
    with captured_logs() as lines:
        await cluster[1].start()
        await cluster.all_opened()
    assert not [each for each in lines if each["log_level"] in ("warning", "error")]
    assert cluster[1].partition(partition_id=39).log.end_offset == 4


@pytest.mark.bug("KAFKA-19221")
async def test_an_index_that_can_not_be_closed_leaves_no_mark_and_is_made_again(make_cluster, autojump_clock):
    cluster = await make_cluster(1)
    cluster.controller.configure(index_interval_bytes=10)
    await trio.sleep(0.1)
    await cluster[1].produce_each(f"{number}" for number in range(20))
    disk = cluster[1].disk
    disk.fail(DiskOperation.APPEND, path_part=".timeindex", times=100)
    await cluster[1].stop()
    assert not disk.exists(CLEAN)
    disk.clear_faults()
    await cluster[1].start()
    await cluster.opened()
    assert await cluster[1].consumed() == [f"{number}" for number in range(20)]
    found = await cluster[1].replicas.queries.list_offset("t", 0, timestamp=1000)
    assert (found.error, found.offset) == (ErrorCode.NONE, 0)


@pytest.mark.bug("KAFKA-10471")
async def test_a_start_that_is_killed_is_not_taken_for_the_orderly_stop_before_it(
    make_cluster, autojump_clock
):
    cluster = await make_cluster(1)
    await cluster[1].produce_each(f"{number}" for number in range(5))
    await cluster[1].stop()
    disk = cluster[1].disk
    assert disk.exists(CLEAN)
    await cluster[1].start()
    await cluster.opened()
    await cluster[1].produced("torn")
    await cluster[1].crash(power=True)
    assert not disk.exists(CLEAN)
    file = disk.open("data/t-0/00000000000000000000.log")
    file.append([b"half a batch"])
    await cluster[1].start()
    await cluster.opened()
    assert (await cluster[1].consumed())[:5] == [f"{number}" for number in range(5)]
    assert cluster[1].partition().log.recovered.cut_bytes > 0


@pytest.mark.bug("KAFKA-7400")
async def test_segments_below_the_log_start_go_though_the_policy_is_to_compact_alone(
    make_cluster, autojump_clock
):
    """The broker died between the answer to DeleteRecords and the removal of the segments."""
    cluster = await make_cluster(1)
    cluster.controller.configure(segment_bytes=100)
    await trio.sleep(0.1)
    await cluster[1].produce_each(["x" * 60] * 10)
    disk = cluster[1].disk

    def segments():
        return [int(name[:20]) for name in disk.list("data/t-0") if name.endswith(".log")]

    cluster[1].partition().upkeep.acquire_nowait()
    assert not (await cluster[1].deleted(6)).error
    assert min(segments()) == 0
    cluster[1].partition().upkeep.release()
    await cluster[1].crash()
    cluster.controller.configure(cleanup_policy="compact")
    await cluster[1].start()
    await cluster.opened()
    await trio.sleep(1)
    assert cluster[1].partition().log.log_start_offset == 6
    assert min(segments()) == 6


# Producers


@pytest.mark.bug("redpanda PR 22687")
def test_a_producer_that_is_not_known_any_more_or_raises_its_epoch_goes_on():
    state = ProducerState(now_ms=lambda: 1000)
    assert state.check(header(7, 0, 7)) is None, "its state has expired"
    state.record(header(7, 0, 7), 0)
    with refused_with(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        state.check(header(7, 1, 5))
    assert state.check(header(7, 1, 0)) is None


@pytest.mark.bug("redpanda PR 3077")
async def test_five_batches_in_flight_that_are_sent_again_to_the_next_leader_are_duplicates(
    make_cluster, autojump_clock
):
    cluster = await make_cluster(2, min_isr=2)
    pending = [cluster[1].produce(f"{number}", producer=(7, 0, number)) for number in range(5)]
    for each in pending:
        await each.wait()
    await cluster.caught_up()
    await cluster.lead(2)
    for restart in (False, True):
        if restart:
            await cluster.restart(2)
            await cluster.in_sync(1, 2)
        leader = cluster[cluster.controller.state().leader]
        again = [await leader.produced(f"{number}", producer=(7, 0, number)) for number in range(5)]
        assert [(each.duplicate, each.base_offset) for each in again] == [(True, n) for n in range(5)]
        assert leader.partition().log.end_offset == 5


@pytest.mark.bug("KAFKA-5747")
@pytest.mark.parametrize("damage", ["short", "flipped", "version 99", "empty"])
async def test_a_damaged_snapshot_of_producers_is_left_out_and_the_state_is_the_same(
    make_cluster, autojump_clock, damage
):
    cluster = await make_cluster(1, log_flush_offset_checkpoint_interval_ms=500)
    disk = cluster[1].disk
    for number in range(6):
        await cluster[1].produced(f"{number}", producer=(7, 0, number))
        await trio.sleep(0.6)
    newest_file = max(name for name in disk.list("data/t-0") if name.endswith(".producers"))
    content = bytearray(disk.content(f"data/t-0/{newest_file}"))
    match damage:
        case "short":
            del content[-3:]
        case "flipped":
            content[len(content) // 2] ^= 4
        case "version 99":
            content[3] = 99
        case _:
            content.clear()
    await cluster[1].crash()
    await write_file_atomically(disk, f"data/t-0/{newest_file}", bytes(content))
    with captured_logs() as lines:
        await cluster[1].start()
        await cluster.opened()
    assert [each for each in lines if "producer snapshot is unreadable" in each["event"]]
    for number in range(1, 6):
        assert (await cluster[1].produced("x", producer=(7, 0, number))).duplicate
    assert not (await cluster[1].produced("6", producer=(7, 0, 6))).duplicate


@pytest.mark.bug("KAFKA-9892")
@pytest.mark.parametrize("seed", range(6))
async def test_a_snapshot_of_producers_is_whole_or_absent_after_a_power_loss(
    make_cluster, autojump_clock, seed
):
    cluster = await make_cluster(1, log_flush_offset_checkpoint_interval_ms=500)
    cluster.random.seed(seed)
    cluster[1].disk.sync_delay = 0.05
    for number in range(8):
        await cluster[1].produced(f"{number}", producer=(7, 0, number))
        await trio.sleep(0.1 + 0.05 * seed)
    with captured_logs() as lines:
        await cluster.restart(1, power=True)
    assert not [each for each in lines if "unreadable" in each["event"]]
    end = int(cluster[1].partition().log.end_offset)
    assert not (await cluster[1].produced("next", producer=(7, 0, end))).error
    if end:
        assert (await cluster[1].produced("again", producer=(7, 0, end - 1))).duplicate


@pytest.mark.bug("KAFKA-5249")
@pytest.mark.bug("KAFKA-5829")
async def test_after_a_crash_producers_are_read_from_the_last_snapshot_on_and_are_as_they_were(
    make_cluster, autojump_clock, monkeypatch
):
    cluster = await make_cluster(1, log_flush_offset_checkpoint_interval_ms=500)
    cluster.controller.configure(segment_bytes=300)
    await trio.sleep(0.1)
    for number in range(40):
        await cluster[1].produced(f"{number}", producer=(7 + number % 3, 0, number // 3))
    await trio.sleep(1)
    durable = int(cluster[1].partition().log.recovery_point)
    assert durable == 40
    for number in range(40, 50):
        await cluster[1].produced(f"{number}", producer=(7 + number % 3, 0, number // 3))

    def known():
        return {
            producer_id: [(each.first_sequence, each.base_offset) for each in held.batches]
            for producer_id, held in cluster[1].partition().producers.producers.items()
        }

    before = known()
    assert sorted(before) == [7, 8, 9]
    offsets = []
    record = ProducerState.record

    def noted(self, found, base_offset, **fields):
        offsets.append(int(base_offset))
        return record(self, found, base_offset, **fields)

    for _ in range(2):
        offsets.clear()
        monkeypatch.setattr(ProducerState, "record", noted)
        await cluster.restart(1)
        monkeypatch.undo()
        assert min(offsets) >= durable, "what is below the snapshot was read again"
        assert offsets == sorted(set(offsets))
        assert known() == before


@pytest.mark.bug("KAFKA-9105")
async def test_snapshots_of_producers_do_not_pile_up_below_the_log_start(make_cluster, autojump_clock):
    cluster = await make_cluster(1, log_flush_offset_checkpoint_interval_ms=200)
    cluster.controller.configure(segment_bytes=100)
    for number in range(30):
        await cluster[1].produced("x" * 60, producer=(7, 0, number))
        await trio.sleep(0.25)
    assert not (await cluster[1].deleted(-1)).error
    await trio.sleep(2)
    names = cluster[1].disk.list("data/t-0")
    assert len([name for name in names if name.endswith(".producers")]) <= 2
    assert len([name for name in names if name.endswith(".log")]) == 1
    await cluster.restart(1)
    assert (await cluster[1].produced("again", producer=(7, 0, 29))).duplicate
    assert not (await cluster[1].produced("next", producer=(7, 0, 30))).error


@pytest.mark.bug("KAFKA-19474")
async def test_a_truncation_of_what_was_committed_is_told_with_both_offsets(make_cluster, autojump_clock):
    """The election was unclean. The watermark is compared before it moves."""
    cluster = await make_cluster(2, replica_lag_time_max_ms=1000)
    await cluster[1].produce_each(f"{number}" for number in range(15))
    await cluster.caught_up()
    cluster.cut_off(2)
    for number in range(15, 20):
        cluster[1].produce(f"{number}", acks=1)
    await cluster.in_sync(1)
    await cluster.until(lambda: cluster[1].partition().high_watermark == 20)
    cluster.heal()
    cluster.controller.elect(2, isr=(2,))
    with captured_logs() as lines:
        await cluster.in_sync(1, 2)
    (said,) = [each for each in lines if each["event"].startswith("records once committed are truncated")]
    assert (said["high_watermark"], said["to"]) == (20, 15)
    assert cluster[1].replicas.stats.truncations_below_high_watermark == 1


@pytest.mark.bug("redpanda PR 12759")
async def test_a_deposed_leader_calls_no_batch_out_of_order(make_cluster, autojump_clock):
    """Its state is stale, and for a client the error would be fatal. Others lead after a session at the
    earliest, and by then it sends its clients away."""
    cluster = await make_cluster(broker_session_timeout_ms=5000)
    await cluster[1].produced("0", producer=(7, 0, 0))
    await cluster.caught_up()
    silent_since = trio.current_time()
    cluster[1].replicas.lookups._controller_silent_s = lambda: trio.current_time() - silent_since
    cluster[1].hold_metadata()
    cluster.cut_off(1)
    await trio.sleep(6)
    cluster.controller.elect(2, isr=(2, 3))
    await cluster.until(lambda: cluster[2].partition().leading is not None)
    for number in range(1, 10):
        assert not (await cluster[2].produced(f"{number}", producer=(7, 0, number))).error
    assert (await cluster[1].produced("10", producer=(7, 0, 10))).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not (await cluster[2].produced("10", producer=(7, 0, 10))).error
    cluster.heal()
    cluster[1].release_metadata()
    assert (await cluster[1].produced("11", producer=(7, 0, 11))).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
