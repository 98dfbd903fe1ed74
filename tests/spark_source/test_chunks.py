"""The records of many batches at once, beside those that are read one by one."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.history import DamagedRecordError
from quorate.history.slabs import Slab, whole_batches
from quorate.log import InvalidBatchError
from quorate.log.batches.batch import HEADER_BYTES
from quorate.log.batches.control import leader_change_batch
from quorate.log.batches.records import RecordContent, build_batch, build_keyed_batch, records_of
from quorate.spark_source.chunks import Batches, Chunk, chunk_of


def drawn(draw: random.Random, count: int) -> tuple[Slab, int]:
    """Batches, mostly as nodes write them: now and then of Raft, with keys, many records or long values. Also
    their end offset."""
    parts: list[bytes] = []
    end = 5
    for number in range(count):
        longest = draw.choice([3, 60, 200, 20_000])
        sizes = [draw.randint(0, longest) for _ in range(draw.choice([1, 1, 2, 7, 63, 64, 90]))]
        values = [draw.randbytes(each) for each in sizes]
        kind = draw.random()
        if kind < 0.1:
            values = values[:1]
            parts.append(
                leader_change_batch(
                    base_offset=end,
                    epoch=number,
                    timestamp_ms=number,
                    leader=1,
                    voters=[1],
                    granting_voters=[1],
                )
            )
        elif kind < 0.3:
            records = [RecordContent(draw.choice([None, b"k"]), draw.choice([None, each])) for each in values]
            parts.append(
                build_keyed_batch(base_offset=end, epoch=number, timestamp_ms=number, records=records)
            )
        else:
            parts.append(build_batch(base_offset=end, epoch=number, timestamp_ms=number, values=values))
        end += len(values)
    return whole_batches(b"".join(parts), start=0)[0], end


def rows_of(chunk: Chunk) -> list[tuple[int, int, int, int, bytes]]:
    places = chunk.places
    columns = (places.offsets, places.epochs, places.timestamps_ms, places.batch_offsets)
    return list(zip(*(each.tolist() for each in columns), map(chunk.value, range(len(chunk))), strict=True))


def one_by_one(slab: Slab, start: int, end: int) -> list[tuple[int, int, int, int, bytes]]:
    return [
        (
            each.offset,
            batch.header.leader_epoch,
            each.timestamp,
            batch.header.base_offset,
            each.value or b"",
        )
        for batch in slab.batches()
        for each in records_of(batch)
        if start <= each.offset < end
    ]


@pytest.mark.slow
@given(seed=st.integers(0, 1 << 32), count=st.integers(1, 40))
def test_the_records_of_many_batches_are_those_of_each(seed: int, count: int) -> None:
    draw = random.Random(seed)
    slab, last = drawn(draw, count)
    start = draw.randint(0, last)
    end = draw.randint(start, last + 1)
    chunk = chunk_of(Batches.of(slab), start, end)
    assert rows_of(chunk) == one_by_one(slab, start, end)
    control = [
        each.offset
        for batch in slab.batches()
        for each in records_of(batch)
        if batch.header.is_control and start <= each.offset < end
    ]
    assert [chunk.places.offsets[at] for at in sorted(chunk.keys)] == control


@pytest.mark.slow
@given(seed=st.integers(0, 1 << 32))
def test_no_damage_passes_for_a_record(seed: int) -> None:
    """That of the disk is found by checksums: this is about what a faulty writer may have written."""
    draw = random.Random(seed)
    slab, last = drawn(draw, 20)
    spoiled = bytearray(slab.data)
    edges = [*slab.positions, len(spoiled)]
    for number in draw.sample(range(20), draw.randint(1, 3)):
        first = edges[number] + HEADER_BYTES
        spoiled[draw.randrange(first, min(edges[number + 1], first + 40))] ^= 1 << draw.randrange(8)
    damaged = Slab(bytes(spoiled), slab.positions)
    everywhere = (-(1 << 40), 1 << 40)
    try:
        wanted = one_by_one(damaged, *everywhere)
    except InvalidBatchError:
        wanted = []
    if [offset for offset, *_ in wanted] != list(range(5, last)):
        with pytest.raises(DamagedRecordError, match="the batch at offset"):
            chunk_of(Batches.of(damaged), *everywhere)
        return
    assert rows_of(chunk_of(Batches.of(damaged), *everywhere)) == wanted


def test_offsets_that_leave_their_batch_are_damage() -> None:
    batch = bytearray(build_batch(base_offset=5, epoch=1, timestamp_ms=1, values=[b"a", b"b"]))
    delta_of_second = batch.index(b"b") - 3
    assert batch[delta_of_second] == 2
    for wrong in (0, 4):
        batch[delta_of_second] = wrong
        with pytest.raises(DamagedRecordError, match=r"the batch at offset 5.*do not rise"):
            chunk_of(Batches.of(Slab(bytes(batch), [0])), 0, 100)
