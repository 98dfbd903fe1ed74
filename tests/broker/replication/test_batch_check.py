"""A producer's batches are checked as by Kafka: each refusal, and the batch that is kept."""

import contextlib
import gc
import struct
import weakref
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
import trio
from crc32c import crc32c
from gaps import within_gap

from quorate.broker.metadata.configs import effective
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.replication.foundation.errors import PartitionError
from quorate.broker.replication.foundation.purgatory import Purgatory
from quorate.broker.replication.foundation.requests import ProduceItem
from quorate.broker.replication.foundation.stats import ReplicationStats
from quorate.broker.replication.producing.batch_check import BatchChecker, CheckedBatches, ProduceRules
from quorate.broker.replication.serving.produce_service import ProduceService
from quorate.broker.wire.budget import Account, MemoryBudget
from quorate.error_code import ErrorCode
from quorate.kafka_bytes.varints import varint
from quorate.log.batches.batch import HEADER_BYTES, Batch, attributes_of, read_header, seal
from quorate.log.batches.records import records_of
from quorate.log.compression import Codec, compress, decompress
from quorate.runtime.real.real_compute import ThreadCompute
from quorate.runtime.slices import Slices
from quorate.simulation.world.simulated_runtime import InlineCompute
from tests.broker.replication.conftest import refused_with

NOW_MS = 1_700_000_000_000
LIMIT = 4 << 20
MEMORY = MemoryBudget(256 << 20)
RULES = ProduceRules(
    max_message_bytes=1 << 20,
    codec=None,
    log_append_time=False,
    before_max_ms=(1 << 63) - 1,
    after_max_ms=3_600_000,
    keys_needed=False,
)
COMPRESSED = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)


class Request(bytearray):
    """A received frame, whose end can be seen."""


class CountedCompute(InlineCompute):
    def __init__(self):
        self.runs = 0

    async def run(self, function):
        self.runs += 1
        return await super().run(function)


def encoded(*records):
    """Records, each (key, value, timestamp delta)."""
    pieces = []
    for index, (key, value, delta) in enumerate(records):
        body = b"\x00" + varint(delta) + varint(index)
        for part in (key, value):
            body += varint(-1) if part is None else varint(len(part)) + part
        body += b"\x00"
        pieces += (varint(len(body)), body)
    return b"".join(pieces)


def plain(*values):
    return encoded(*((b"key", value, 0) for value in values))


def batch(
    records,
    *,
    count=1,
    codec=0,
    base_timestamp=NOW_MS,
    newest=None,
    attributes=0,
    base_offset=0,
    producer=(-1, -1, -1),
    delta=None,
):
    return seal(
        records,
        base_offset=base_offset,
        epoch=-1,
        attributes=codec | attributes,
        last_offset_delta=count - 1 if delta is None else delta,
        base_timestamp=base_timestamp,
        max_timestamp=base_timestamp if newest is None else newest,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        count=count,
    )


def checker(compute=None, limit=LIMIT):
    return BatchChecker(compute or InlineCompute(), lambda: NOW_MS, uncompressed_max_bytes=limit)


async def checked(data, *, limit=LIMIT, zstd=True, **rules) -> CheckedBatches:
    return await checker(limit=limit).check(data, replace(RULES, **rules), Slices(), zstd=zstd, memory=MEMORY)


async def refused(data, code, *, records=None, match=None, **options):
    with pytest.raises(PartitionError, match=match) as raised:
        await checked(data, **options)
    assert raised.value.code is code, f"{raised.value.code.name}: {raised.value}"
    if records is not None:
        assert [index for index, _ in raised.value.records] == records
    return raised.value


def kept_records(found):
    header = read_header(found.records)
    data = bytes(found.records)
    if header.codec:
        data = data[:HEADER_BYTES] + decompress(Codec(header.codec), data[HEADER_BYTES:], 1 << 24)
        header = replace(header, attributes=header.attributes & ~7)
    return [(each.key, each.value, each.timestamp) for each in records_of(Batch(header, memoryview(data)))]


# Batches that lie


@pytest.mark.parametrize("codec", [5, 6, 7])
async def test_a_codec_that_does_not_exist_is_refused(codec):
    await refused(batch(plain(b"v"), codec=codec), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, match=str(codec))


async def test_a_fetch_of_zstd_in_an_older_version_is_refused():
    data = batch(compress(Codec.ZSTD, plain(b"v")), codec=4)
    await refused(data, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, zstd=False)
    assert (await checked(data)).records is data


@pytest.mark.parametrize("codec", COMPRESSED)
async def test_garbage_that_claims_to_be_compressed_is_refused(codec):
    await refused(batch(b"this is not compressed at all", codec=codec), ErrorCode.INVALID_RECORD)


@pytest.mark.parametrize("codec", [Codec.NONE, *COMPRESSED])
async def test_records_that_do_not_fit_their_header_are_refused(codec):
    def made(records, count):
        return batch(records if codec is Codec.NONE else compress(codec, records), count=count, codec=codec)

    await refused(made(plain(b"one"), 5), ErrorCode.INVALID_RECORD, records=[1])
    await refused(made(plain(b"one"), 2**31 - 1), ErrorCode.INVALID_RECORD, records=[1])
    await refused(made(plain(b"one", b"two"), 1), ErrorCode.INVALID_RECORD, records=[0])
    await refused(made(plain(b"one") + plain(b"two"), 2), ErrorCode.INVALID_RECORD, records=[1])
    claims = varint(1 << 30) + plain(b"one")[1:]
    await refused(made(claims, 1), ErrorCode.INVALID_RECORD, records=[0])
    assert (await checked(made(plain(b"one", b"two"), 2))).append_time_ms == -1


@pytest.mark.bug("CVE-2018-17196")
async def test_headers_that_lie_are_invalid_and_what_is_damaged_is_corrupt():
    await refused(batch(plain(b"v"), count=1, delta=4), ErrorCode.INVALID_RECORD)
    await refused(batch(plain(b"v"), count=0), ErrorCode.INVALID_RECORD)
    await refused(batch(plain(b"v"), base_offset=7), ErrorCode.INVALID_RECORD, match="not 7")
    await refused(batch(plain(b"v"), producer=(5, 0, -1)), ErrorCode.INVALID_RECORD)
    await refused(batch(plain(b"v"), producer=(-2, 0, 0)), ErrorCode.INVALID_RECORD)
    for flags in (
        attributes_of(control=True, transactional=False),
        attributes_of(control=False, transactional=True),
    ):
        await refused(batch(plain(b"v"), attributes=flags), ErrorCode.INVALID_RECORD)
    await refused(b"", ErrorCode.INVALID_RECORD)
    whole = bytearray(batch(plain(b"v")))
    await refused(bytes(whole[:-1]), ErrorCode.CORRUPT_MESSAGE)
    whole[-1] ^= 1
    await refused(bytes(whole), ErrorCode.CORRUPT_MESSAGE)
    whole[16] = 1
    await refused(bytes(whole), ErrorCode.INVALID_RECORD, match="magic")


@pytest.mark.parametrize("codec", COMPRESSED)
async def test_a_bomb_is_refused_whatever_comes_out_in_the_end(codec):
    bomb = batch(compress(codec, bytes(LIMIT + 1)), codec=codec)
    error = await refused(bomb, ErrorCode.MESSAGE_TOO_LARGE)
    assert str(LIMIT) in error.message and "socket.request.max.bytes" in error.message


# On the event loop


@pytest.mark.parametrize("codec", COMPRESSED)
async def test_a_large_compressed_batch_is_decompressed_off_the_event_loop(codec):
    compute = CountedCompute()
    small = batch(compress(codec, plain(bytes(1000))), codec=codec)
    large = batch(compress(codec, plain(bytes(3 << 20))), codec=codec)
    await checker(compute).check(small, RULES, Slices(), memory=MEMORY)
    assert compute.runs == 0, "a hop for a kilobyte"
    await checker(compute).check(large, RULES, Slices(), memory=MEMORY)
    assert compute.runs == 1, "three megabytes on the event loop"


class CountedSlices(Slices):
    def __init__(self):
        super().__init__()
        self.pauses = 0

    async def pause(self):
        self.pauses += 1


async def test_many_records_may_leave_turns_to_others_and_so_may_many_batches():
    values = [b"x" * (number % 7) for number in range(20_000)]
    slices = CountedSlices()
    await checker().check(batch(plain(*values), count=len(values)), RULES, slices, memory=MEMORY)
    assert slices.pauses >= 39
    slices = CountedSlices()
    await checker().check(batch(plain(b"v")), RULES, slices, memory=MEMORY)
    assert slices.pauses >= 1, "a request may bring many batches, for as many partitions"
    slices = CountedSlices()
    late = batch(plain(*values), count=len(values), base_timestamp=NOW_MS + 3_600_001)
    with pytest.raises(PartitionError):
        await checker().check(late, RULES, slices, memory=MEMORY)
    assert slices.pauses >= 78


@pytest.mark.slow
@pytest.mark.costly
@pytest.mark.real_time
@pytest.mark.parametrize("codec", [Codec.NONE, *COMPRESSED])
@pytest.mark.parametrize("kind", ["tiny", "alike", "large", "late", "bomb"])
async def test_no_batch_holds_the_event_loop(codec, kind):
    """The batches are those with as many records as a megabyte can hold, and a large one out of few bytes."""
    values = {
        "tiny": [b"x" * (number % 3) for number in range(100_000)],
        "alike": [b""] * 110_000,
        "large": [bytes(range(256)) * 400] * 10,
        "late": [b"x" * (number % 3) for number in range(100_000)],
        "bomb": [bytes(60 << 20)],
    }[kind]
    records = plain(*values)
    body = records if codec is Codec.NONE else compress(codec, records)
    data = batch(body, count=len(values), codec=codec, base_timestamp=NOW_MS + (1 << 40) * (kind == "late"))
    rules = replace(RULES, max_message_bytes=2 << 20, codec=Codec.GZIP)
    checks = BatchChecker(ThreadCompute(), lambda: NOW_MS, uncompressed_max_bytes=50 << 20)

    async def check():
        with contextlib.suppress(PartitionError):
            await checks.check(data, rules, Slices(), memory=MEMORY)

    await within_gap(check(), what=f"a batch ({kind}, {codec.name})")


async def test_unpacked_records_count_before_they_are_there_and_wait_for_room(nursery):
    memory = MemoryBudget(16 << 20)
    held = []

    class Watched(InlineCompute):
        async def run(self, function):
            held.append(memory.limit - memory.available)
            await trio.lowlevel.checkpoint()
            return await super().run(function)

    shared = checker(Watched(), limit=8 << 20)
    large = batch(compress(Codec.ZSTD, plain(bytes(7 << 20))), codec=Codec.ZSTD)
    async with trio.open_nursery() as several:
        for _ in range(4):
            several.start_soon(partial(shared.check, large, RULES, Slices(), memory=memory))
    assert len(held) == 4
    assert all(7 << 20 < each < 20 << 20 for each in held), "one has room, and one more overdraws"
    assert memory.available == memory.limit


async def test_requests_that_have_all_the_memory_are_unpacked_one_by_one(nursery, autojump_clock):
    """Each has its part until it is answered, so that none gives way to another."""
    memory = MemoryBudget(16 << 20)
    large = batch(compress(Codec.ZSTD, plain(bytes(7 << 20))), codec=Codec.ZSTD)
    done = []

    async def request():
        frame = Account(memory)
        await frame.draw(4 << 20)
        await trio.sleep(1)
        await checker(InlineCompute(), limit=8 << 20).check(large, RULES, Slices(), memory=memory)
        frame.release()
        done.append(memory.available)

    with trio.fail_after(5):
        async with trio.open_nursery() as several:
            for _ in range(3):
                several.start_soon(request)
    assert done[-1] == memory.limit


@pytest.mark.parametrize("codec", [Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
async def test_a_bomb_that_says_its_size_is_refused_before_it_is_unpacked(codec):
    body = bytearray(compress(codec, bytes(40 << 20)))
    if codec is Codec.LZ4:
        # Some clients write it so; `compress` doesn't.
        body[4] |= 0x08
        body[6:6] = (40 << 20).to_bytes(8, "little")
    bomb = batch(bytes(body), codec=codec)
    compute = CountedCompute()
    memory = MemoryBudget(1)
    with refused_with(ErrorCode.MESSAGE_TOO_LARGE):
        await checker(compute).check(bomb, replace(RULES, max_message_bytes=4 << 20), Slices(), memory=memory)
    assert compute.runs == 0


async def test_a_refused_batch_is_forgotten_without_a_garbage_collection():
    """Its error's traceback would keep what was unpacked, and the request."""
    memory = MemoryBudget(256 << 20)
    body = compress(Codec.ZSTD, plain(bytes(3 << 20)))
    service = ProduceService(
        lambda topic, number: SimpleNamespace(check_appendable=lambda acks: None, rules=RULES),
        Purgatory(),
        checker(),
        ReplicationStats(),
    )

    async def refused_alone(data):
        request = Request(data)
        gone = weakref.ref(request)
        pending = await service.produce(
            [ProduceItem("t", 0, memoryview(request))], acks=1, timeout_ms=1, zstd=True, memory=memory
        )
        assert pending.results()[0].error
        return gone

    gc.disable()
    try:
        for data in (batch(body + b"x", codec=4), batch(body, codec=4, count=2), b"", batch(body, codec=7)):
            gone = await refused_alone(data)
            assert gone() is None
    finally:
        gc.enable()


# Timestamps (KIP-937)


async def test_a_record_too_far_ahead_or_behind_is_named():
    records = encoded((None, b"a", 0), (None, b"b", 3_600_001), (None, b"c", 3_600_000), (None, b"d", -5))
    error = await refused(
        batch(records, count=4, newest=NOW_MS + 3_600_001), ErrorCode.INVALID_TIMESTAMP, records=[1]
    )
    assert "message.timestamp.after.max.ms" in error.message
    await refused(
        batch(records, count=4, newest=NOW_MS + 3_600_001),
        ErrorCode.INVALID_TIMESTAMP,
        records=[3],
        after_max_ms=1 << 60,
        before_max_ms=4,
    )
    await refused(batch(plain(b"v"), base_timestamp=1 << 62), ErrorCode.INVALID_TIMESTAMP, records=[0])


async def test_a_record_without_a_timestamp_is_neither_early_nor_late():
    data = batch(plain(b"v", b"w"), count=2, base_timestamp=-1)
    assert (await checked(data, before_max_ms=10)).records is data


async def test_a_batch_that_claims_the_brokers_time_is_refused_where_records_have_their_own():
    await refused(batch(plain(b"v"), attributes=8), ErrorCode.INVALID_TIMESTAMP)


async def test_the_largest_timestamp_is_counted_again():
    """A header that lies about it would keep a segment from ageing."""
    records = encoded((None, b"a", 10), (None, b"b", -20))
    for claimed in (NOW_MS + (1 << 50), NOW_MS - 1):
        found = await checked(batch(records, count=2, newest=claimed))
        header = read_header(found.records)
        assert header.max_timestamp == NOW_MS + 10
        assert found.headers == (header,)
        assert kept_records(found) == [(None, b"a", NOW_MS + 10), (None, b"b", NOW_MS - 20)]


@pytest.mark.parametrize("codec", [Codec.NONE, *COMPRESSED])
async def test_log_append_time_is_the_brokers(codec):
    records = encoded((None, b"a", 0), (None, b"b", 1 << 50))
    body = records if codec is Codec.NONE else compress(codec, records)
    data = batch(body, count=2, codec=codec, base_timestamp=5, newest=5 + (1 << 50))
    found = await checked(data, log_append_time=True)
    header = read_header(found.records)
    assert found.append_time_ms == header.max_timestamp == NOW_MS
    assert header.is_log_append_time and header.codec == codec
    assert kept_records(found) == [(None, b"a", NOW_MS), (None, b"b", NOW_MS)]


# Compression and keys


@pytest.mark.parametrize("sent", [Codec.NONE, *COMPRESSED])
@pytest.mark.parametrize("wanted", [Codec.NONE, *COMPRESSED])
async def test_a_topic_keeps_batches_in_its_own_compression(sent, wanted):
    records = encoded(*((b"k%d" % number, b"some value " * 20, number) for number in range(1500)))
    body = records if sent is Codec.NONE else compress(sent, records)
    data = batch(body, count=1500, codec=sent, newest=NOW_MS + 1499, producer=(7, 1, 40))
    found = await checked(data, codec=wanted)
    header = read_header(found.records)
    assert header.codec == wanted
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 40)
    if sent is wanted:
        assert found.records is data
    assert kept_records(found)[7] == (b"k7", b"some value " * 20, NOW_MS + 7)
    assert len(kept_records(found)) == 1500


@pytest.mark.parametrize(
    ("codec", "levels"), [(Codec.GZIP, (1, 9)), (Codec.LZ4, (9, 12)), (Codec.ZSTD, (1, 19))]
)
async def test_a_topics_level_is_what_a_broker_compresses_with(codec, levels):
    records = encoded(*((b"k%d" % number, b"%x" % (number * number % 7919), 0) for number in range(5000)))
    name = codec.name.lower()
    sizes = []
    for level in levels:
        own = {"compression.type": name, f"compression.{name}.level": str(level)}
        rules = ProduceRules.of(effective(MetadataImage(), "t", static=own))
        found = await checker().check(batch(records, count=5000), rules, Slices(), memory=MEMORY)
        assert bytes(found.records[HEADER_BYTES:]) == compress(codec, records, level)
        sizes.append(len(found.records))
    assert sizes[0] > sizes[1]


async def test_a_thorough_level_is_not_for_the_event_loop():
    data = batch(plain(bytes(20_000)))
    for level, runs in ((3, 0), (None, 0), (11, 0), (12, 1), (22, 1)):
        compute = CountedCompute()
        await checker(compute).check(
            data, replace(RULES, codec=Codec.ZSTD, level=level), Slices(), memory=MEMORY
        )
        assert compute.runs == runs, f"level {level}"


async def test_a_batch_that_recompression_grows_beyond_max_message_bytes_is_refused():
    data = batch(compress(Codec.ZSTD, plain(bytes(100_000))), codec=Codec.ZSTD)
    await checked(data, max_message_bytes=10_000)
    error = await refused(data, ErrorCode.MESSAGE_TOO_LARGE, codec=Codec.NONE, max_message_bytes=10_000)
    assert "max.message.bytes=10000" in error.message
    await refused(batch(plain(bytes(10_000))), ErrorCode.MESSAGE_TOO_LARGE, max_message_bytes=10_000)


@pytest.mark.parametrize("codec", [Codec.NONE, *COMPRESSED])
async def test_a_compacted_topic_refuses_records_without_a_key(codec):
    records = encoded((b"k", b"a", 0), (None, b"b", 0), (b"", b"c", 0), (None, None, 0))
    body = records if codec is Codec.NONE else compress(codec, records)
    data = batch(body, count=4, codec=codec)
    await refused(data, ErrorCode.INVALID_RECORD, records=[1, 3], keys_needed=True, match="needs a key")
    await checked(data)


async def test_a_rewritten_batch_has_its_header_and_its_crc():
    found = await checked(batch(plain(b"b"), newest=NOW_MS + 9))
    (header,) = found.headers
    assert header == read_header(found.records)
    assert crc32c(found.records[21:]) == struct.unpack_from(">I", found.records, 17)[0]


async def test_a_request_brings_one_batch_for_a_partition():
    """Kafka asks for this since version 3. A frame of 100 MB would hold more than a million small batches."""
    await refused(batch(plain(b"a")) * 2, ErrorCode.INVALID_RECORD, match="one batch")
    await refused(batch(plain(b"a")) + b"x", ErrorCode.INVALID_RECORD, match="1 bytes follow")
