"""ListOffsets finds records, not batches, also behind other records of their batch."""

import pytest

from quorate.error_code import ErrorCode
from quorate.kafka_bytes.varints import varint
from quorate.log.batches.batch import HEADER_BYTES, read_header, seal
from quorate.log.compression import Codec, compress
from quorate.types import Offset


def batch(stamps, *, codec=Codec.NONE, max_timestamp=None, log_append_time=False):
    """One batch, a record for each timestamp."""
    base = stamps[0]
    records = b""
    for delta, at in enumerate(stamps):
        body = b"\0" + varint(at - base) + varint(delta) + varint(-1) + varint(1) + b"x" + b"\0"
        records += varint(len(body)) + body
    return seal(
        records if codec is Codec.NONE else compress(codec, records),
        base_offset=0,
        epoch=0,
        attributes=codec | (8 if log_append_time else 0),
        last_offset_delta=len(stamps) - 1,
        base_timestamp=base,
        max_timestamp=max(stamps) if max_timestamp is None else max_timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=len(stamps),
    )


@pytest.fixture
async def broker(make_cluster, autojump_clock):
    cluster = await make_cluster(1)
    return cluster[1]


def append(broker, *batches):
    """Append as a follower does, so that the records of the batches are not checked."""
    log = broker.partition().log
    for each in batches:
        log.append_as_leader(each, int(log.last_epoch))
    broker.partition().advance_high_watermark()
    assert broker.partition().high_watermark == log.end_offset


async def ask(broker, timestamp):
    found = await broker.replicas.queries.list_offset("t", 0, timestamp=timestamp)
    assert found.error is ErrorCode.NONE
    return found.offset, found.timestamp


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name)
async def test_the_first_record_that_is_not_earlier_is_found_inside_of_its_batch(broker, codec):
    append(broker, batch([10, 30, 20], codec=codec), batch([40, 5, 50], codec=codec))
    found = [await ask(broker, at) for at in (0, 10, 11, 30, 31, 41, 50, 51)]
    assert found == [(0, 10), (0, 10), (1, 30), (1, 30), (3, 40), (5, 50), (5, 50), (-1, -1)]


@pytest.mark.bug("KAFKA-16342")
@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name)
async def test_the_newest_timestamp_is_answered_with_its_record(broker, codec):
    """KIP-734."""
    append(broker, batch([10, 70, 20], codec=codec), batch([40, 5, 50], codec=codec))
    assert await ask(broker, -3) == (1, 70)


async def test_the_search_goes_on_behind_a_batch_that_only_seems_to_have_it(broker):
    append(broker, batch([90, 10, 20]), batch([5, 6], max_timestamp=95), batch([50, 80]))
    await broker.partition().log.advance_log_start(Offset(1))
    assert await ask(broker, 60) == (6, 80)
    assert await ask(broker, 15) == (2, 20)
    assert await ask(broker, 85) == (-1, -1)


@pytest.mark.bug("redpanda PR 18112")
@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name)
async def test_a_search_by_time_finds_nothing_that_was_deleted(broker, codec):
    append(broker, batch(range(10), codec=codec))
    assert (await broker.deleted(Offset(5))).low_watermark == 5
    assert await ask(broker, 2) == (5, 5)


@pytest.mark.bug("redpanda commit 1a080ee")
async def test_a_search_by_time_in_a_partition_without_records_finds_none(broker):
    assert await ask(broker, 2) == (-1, -1)
    append(broker, batch(range(10)))
    assert (await broker.deleted(Offset(-1))).low_watermark == 10
    assert [await ask(broker, at) for at in (0, 2, 100)] == [(-1, -1)] * 3


async def test_records_with_the_brokers_time_all_have_the_same(broker):
    append(broker, batch([10, 30], max_timestamp=500, log_append_time=True))
    assert await ask(broker, 400) == (0, 500)


async def test_a_search_by_time_answers_an_undecodable_batch_by_its_header(broker):
    whole = bytearray(batch([10, 30], codec=Codec.ZSTD))
    whole[HEADER_BYTES] ^= 0xFF
    header = read_header(whole, check_crc=False)
    broker.partition().log.append_as_leader(bytes(whole), 0, headers=[header])
    broker.partition().advance_high_watermark()
    assert await ask(broker, 20) == (0, 30)
