"""Idempotence, against a model that keeps everything."""

from dataclasses import dataclass, field

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.replication.foundation.errors import PartitionError
from quorate.broker.replication.producing.producer_snapshot import decode_steps, encode_steps
from quorate.broker.replication.producing.producer_state import ProducerState, sequence_after
from quorate.error_code import ErrorCode
from quorate.runtime.disk import write_file_atomically
from quorate.runtime.slices import at_once
from tests.broker.replication.conftest import header

LAST = 2**31 - 1


def encode(state: ProducerState) -> bytes:
    return bytes(at_once(encode_steps(state)))


def decode_into(state: ProducerState, data: bytes) -> None:
    at_once(decode_steps(state, data))


def state_of():
    return ProducerState(now_ms=lambda: 1000)


@dataclass
class Model:
    """Every batch ever appended, by producer; the rules as KIP-98 words them."""

    batches: dict = field(default_factory=dict)

    def send(self, producer_id, epoch, first, count, offset):
        """An error, the offset of the same batch sent before, or None."""
        sent = self.batches.setdefault(producer_id, [])
        if sent:
            held = sent[-1][0]
            if epoch < held:
                return ErrorCode.INVALID_PRODUCER_EPOCH
            if epoch > held and first != 0:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            if epoch == held:
                current = [each for each in sent if each[0] == epoch]
                for _, start, size, base in current[-5:]:
                    if (start, size) == (first, count):
                        return base
                _, start, size, _ = current[-1]
                if (start + size) % 2**31 != first:
                    return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        sent.append((epoch, first, count, offset))
        return None


SENDS = st.lists(
    st.tuples(
        st.integers(1, 2),
        st.integers(0, 2),
        st.sampled_from(["next", "again", "older", "gap", "zero"]),
        st.integers(1, 3),
    ),
    max_size=60,
)


@given(sends=SENDS, first=st.sampled_from([0, LAST - 4]), restarts=st.sets(st.integers(0, 60), max_size=5))
def test_the_state_decides_as_a_model_that_forgets_nothing(sends, first, restarts):
    state, model, offset, sent = state_of(), Model(), 0, {}
    for number, (producer_id, epoch, kind, count) in enumerate(sends):
        if number in restarts:
            restarted = state_of()
            decode_into(restarted, encode(state))
            state = restarted
        history = sent.setdefault(producer_id, [])
        sequence = {
            "next": sequence_after(*history[-1][1:]) if history else first,
            "again": history[-1][1] if history else first,
            "older": history[max(-7, -len(history))][1] if history else 0,
            "gap": sequence_after(*history[-1][1:]) + 1 if history else 7,
            "zero": 0,
        }[kind] % 2**31
        if kind in ("again", "older") and history:
            count = history[-1 if kind == "again" else max(-7, -len(history))][2]
        expected = model.send(producer_id, epoch, sequence, count, offset)
        sending = header(producer_id, epoch, sequence, count)
        try:
            kept = state.check(sending)
            found = None if kept is None else kept.base_offset
        except PartitionError as error:
            found = error.code
        assert found == expected, (kind, sequence)
        if found is None:
            state.record(sending, offset)
            history.append((epoch, sequence, count))
            offset += count
    assert state.end_offset == offset or not sends or restarts


@pytest.mark.bug("KAFKA-6003")
def test_after_the_last_sequence_comes_zero():
    state = state_of()
    state.record(header(7, 0, LAST - 1, 2), 0)
    assert state.check(header(7, 0, 0)) is None
    with pytest.raises(PartitionError):
        state.check(header(7, 0, 1))
    assert sequence_after(LAST, 1) == 0


@pytest.mark.bug("KAFKA-7692")
def test_a_batch_may_wrap_in_its_middle():
    state = state_of()
    state.record(header(7, 0, LAST, 3), 0)
    assert state.check(header(7, 0, LAST, 3)).last_offset == 2
    assert state.check(header(7, 0, 2)) is None


@pytest.mark.bug("KAFKA-6003")
async def test_a_follower_without_state_takes_what_the_leader_took(make_cluster, autojump_clock):
    cluster = await make_cluster(2, min_isr=2)
    await cluster[1].produced("a", producer=(7, 0, 0))
    await cluster.caught_up()
    cluster[2].partition().producers.producers.clear()
    cluster[1].partition().producers.producers.clear()
    assert not (await cluster[1].produced("b", producer=(7, 0, 5000))).error
    await cluster.caught_up()
    await cluster.lead(2)
    again = await cluster[2].produced("b", producer=(7, 0, 5000))
    assert (again.duplicate, again.base_offset) == (True, 1)
    result = await cluster[2].produced("c", producer=(7, 0, 7))
    assert result.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_a_batch_sent_again_waits_for_its_first_appearance(make_cluster, autojump_clock):
    cluster = await make_cluster()
    cluster.cut_off(1)
    first = cluster[1].produce("a", producer=(7, 0, 0))
    cluster[1].produce("b", producer=(7, 0, 1))
    again = cluster[1].produce("a", producer=(7, 0, 0))
    assert not first.done
    assert not again.done
    cluster.heal()
    await again.wait()
    assert again.results()[0].base_offset == first.results()[0].base_offset == 0
    assert cluster[1].partition().log.end_offset == 2
    assert cluster[1].replicas.stats.duplicate_batches == 1


@pytest.mark.parametrize("power", [False, True])
async def test_producers_are_known_again_after_a_crash(make_cluster, autojump_clock, power):
    cluster = await make_cluster(1)
    for number in range(8):
        await cluster[1].produced(f"{number}", producer=(7, 3, number))
    await cluster.restart(1, power=power)
    held = cluster[1].partition()
    kept = len(await cluster[1].consumed())
    assert kept == 8 or power
    if kept:
        assert (await cluster[1].produced("x", producer=(7, 3, kept - 1))).duplicate
        assert (await cluster[1].produced("x", producer=(7, 2, 0))).error is ErrorCode.INVALID_PRODUCER_EPOCH
    assert held.log.end_offset == kept


async def test_a_cut_takes_back_what_producers_wrote(make_cluster, autojump_clock):
    cluster = await make_cluster(2, log_flush_offset_checkpoint_interval_ms=500)
    await cluster[1].produced("a", producer=(7, 0, 0))
    await cluster.caught_up()
    cluster.cut_off(1)
    cluster[1].produce("lost", producer=(7, 0, 1), acks=1)
    await trio.sleep(2)
    assert f"{2:020}.producers" in cluster[1].disk.list("data/t-0")
    await cluster.lead(2)
    cluster.heal()
    await cluster.until(lambda: cluster[1].partition().log.end_offset == 1)
    assert f"{2:020}.producers" not in cluster[1].disk.list("data/t-0")
    await cluster.lead(1)
    kept = await cluster[1].produced("kept", producer=(7, 0, 1))
    assert (kept.error, kept.duplicate, kept.base_offset) == (ErrorCode.NONE, False, 1)


@given(data=st.binary(max_size=80))
def test_a_snapshot_that_is_none_is_refused_and_changes_nothing(data):
    state = state_of()
    with pytest.raises(ValueError):
        decode_into(state, data)
    assert not state.producers


def test_every_flipped_bit_of_a_snapshot_is_noticed():
    state = state_of()
    state.record(header(7, 1, 5, 2), 0)
    state.record(header(8, 0, 0), 2)
    whole = encode(state)
    for position in range(len(whole)):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[position] ^= 1 << bit
            with pytest.raises(ValueError):
                decode_into(state_of(), bytes(damaged))


def test_a_producer_is_forgotten_after_so_much_silence_as_this_broker_has_lived_through():
    state = ProducerState(now_ms=lambda: now)
    now = 5000
    state.record(header(7, 0, 0), 0)
    now = 8000
    state.record(header(8, 0, 0), 1)
    now = 9000
    later = ProducerState(now_ms=lambda: now)
    snapshot = encode(state)
    now = 50  # another life of the broker, whose clock begins anew
    decode_into(later, snapshot)
    assert (at_once(later.expire_steps(after_ms=4000)), sorted(later.producers)) == (0, [7, 8])
    now = 51
    assert (at_once(later.expire_steps(after_ms=4000)), sorted(later.producers)) == (1, [8])


def test_the_silence_of_a_producer_is_counted_in_steps_and_never_goes_back():
    now = 0
    state = ProducerState(now_ms=lambda: now)
    state.record(header(7, 0, 0), 0)
    (producer,) = state.producers.values()
    for looked_at, silent in ((1000, 1000), (86_400_000, 301_000), (5000, 301_000), (6000, 302_000)):
        now = looked_at
        assert state.silent_ms(producer) == silent
    day_ms = 86_400_000
    while state.silent_ms(producer) <= day_ms - 60_000:
        now += 60_000
        assert not at_once(state.expire_steps(after_ms=day_ms))
    now += 60_000
    assert at_once(state.expire_steps(after_ms=day_ms)) == 1, "a day has passed, a minute at a time"


@pytest.mark.slow
async def test_no_producer_is_forgotten_because_the_wall_clock_jumps(make_cluster, autojump_clock):
    day_ms, hour_ms = 86_400_000, 3_600_000
    cluster = await make_cluster(
        1, log_flush_offset_checkpoint_interval_ms=1000, producer_id_expiration_ms=hour_ms
    )
    await cluster[1].produced("a", producer=(7, 0, 0))
    for jump_ms in (3 * day_ms, -7 * day_ms):
        cluster[1].host.wall_clock.offset_ms += jump_ms
        await trio.sleep(5)
        assert (await cluster[1].produced("a", producer=(7, 0, 0))).duplicate
        await cluster.restart(1)
        assert (await cluster[1].produced("a", producer=(7, 0, 0))).duplicate
    await trio.sleep(hour_ms / 1000 + 5)
    assert not cluster[1].partition().producers.producers


async def test_producer_state_of_an_earlier_version_is_read_and_then_replaced(make_cluster, autojump_clock):
    """It was called as Kafka's file of another format is (kafka-dump-log failed on it)."""
    cluster = await make_cluster(1, log_flush_offset_checkpoint_interval_ms=500)
    for number in range(3):
        await cluster[1].produced(f"{number}", producer=(7, 0, number))
    await trio.sleep(2)
    await cluster[1].crash()
    disk = cluster[1].disk
    name = f"data/t-0/{3:020}"
    disk.rename(f"{name}.producers", f"{name}.snapshot")
    # As if it had been written so: a state that a scan of the log would not give.
    state = ProducerState()
    decode_into(state, disk.content(f"{name}.snapshot"))
    state.producers[8] = state.producers[7]
    await write_file_atomically(disk, f"{name}.snapshot", encode(state))
    await cluster[1].start()
    await cluster.opened()
    assert sorted(cluster[1].partition().producers.producers) == [7, 8]
    for number in range(3, 6):
        await cluster[1].produced(f"{number}", producer=(7, 0, number))
        await trio.sleep(1)
    kept = [each for each in disk.list("data/t-0") if each.endswith((".producers", ".snapshot"))]
    assert kept == [f"{5:020}.producers", f"{6:020}.producers"]


def test_a_snapshot_that_is_taken_in_pieces_is_of_its_beginning() -> None:
    """Nothing that comes, changes or expires in between is in it: a batch above the snapshot's offset may yet
    be lost, and must not pass for a duplicate when it is sent again."""
    now_ms = 0
    state = ProducerState(now_ms=lambda: now_ms)
    for number in range(1000):
        state.record(header(number, 0, 0), number)
    expected = encode(state)
    steps = encode_steps(state)
    next(steps)
    now_ms = 200_000
    for number in (0, 500, 999, 1000, 5000):
        for place in (2000, 3000):
            state.record(header(number, 0, place), place + number)
    next(steps)
    assert at_once(state.expire_steps(after_ms=100_000)) > 900
    assert bytes(at_once(steps)) == expected
    assert encode(state) != expected
    assert len(state.producers) == 5
