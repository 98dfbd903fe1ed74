"""The codecs: what clients make is read, what is damaged or a bomb is refused within its bound."""

import contextlib
import gzip
import struct
import tracemalloc
import zlib

import cramjam
import pytest
from aiokafka import codec as aiokafka_codec

from quorate.log.compression import (
    Codec,
    CompressedDataError,
    DecompressedTooLargeError,
    compress,
    decompress,
)

COMPRESSED = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
TEXT = b"".join(b"a record with the number %d " % number for number in range(10_000))
WORDS = b" ".join(b"%x" % (number * number % 7919) for number in range(20_000))
BOMB_BYTES = 1 << 28


def bombs():
    zeros = bytes(BOMB_BYTES)
    yield Codec.GZIP, gzip.compress(zeros, 1)
    yield Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(zeros))
    yield Codec.LZ4, compress(Codec.LZ4, zeros)
    yield Codec.ZSTD, compress(Codec.ZSTD, zeros)


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize(
    "data", [b"", b"x", TEXT, bytes(5_000_000)], ids=["empty", "one byte", "text", "zeros"]
)
def test_each_codec_reads_its_own_output(codec, data):
    """Zeros take several outputs, each larger than the one before."""
    made = compress(codec, data)
    for limit in (len(data), len(data) + 100):
        out = decompress(codec, memoryview(made).toreadonly(), limit)
        assert (len(out), bytes(out)) == (len(data), data)


@pytest.mark.parametrize(
    ("codec", "levels"),
    [
        (Codec.GZIP, [1, 9]),
        # 9 is Kafka's name for the fast mode.
        (Codec.LZ4, [9, 1, 12]),
        (Codec.ZSTD, [-131072, -5, 3, 19]),
    ],
    ids=["gzip", "lz4", "zstd"],
)
def test_a_level_says_how_small_it_becomes(codec, levels):
    """KIP-390."""
    made = [compress(codec, WORDS, level) for level in levels]
    assert sorted(map(len, made), reverse=True) == list(map(len, made))
    assert len(set(made)) == len(levels)
    for each in made:
        assert decompress(codec, each, len(WORDS)) == WORDS


@pytest.mark.parametrize(("codec", "levels"), [(Codec.LZ4, [17]), (Codec.ZSTD, [22]), (Codec.GZIP, [-1])])
def test_the_highest_and_the_usual_level_are_taken(codec, levels):
    for level in levels:
        assert decompress(codec, compress(codec, WORDS, level), len(WORDS)) == WORDS


@pytest.mark.parametrize("codec", COMPRESSED)
def test_one_byte_more_than_the_limit_is_refused(codec):
    made = compress(codec, TEXT)
    assert decompress(codec, made, len(TEXT)) == TEXT
    with pytest.raises(DecompressedTooLargeError):
        decompress(codec, made, len(TEXT) - 1)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_garbage_and_what_is_cut_off_are_refused(codec):
    made = compress(codec, TEXT)
    for bad in (
        b"",
        b"garbage",
        b"\x00" * 100,
        b"\xff" * 100,
        made[: len(made) // 2],
        made[:-1],
        made + b"junk",
    ):
        with pytest.raises(CompressedDataError):
            decompress(codec, bad, 1 << 20)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_no_flipped_bit_does_more_than_be_refused(codec):
    made = compress(codec, TEXT[:2000])
    for bit in range(8 * len(made)):
        data = bytearray(made)
        data[bit // 8] ^= 1 << bit % 8
        with contextlib.suppress(CompressedDataError, DecompressedTooLargeError):
            assert len(decompress(codec, data, 4000)) <= 4000


@pytest.mark.slow
def test_a_bomb_takes_no_more_memory_than_its_limit():
    limit = 1 << 20
    for codec, bomb in bombs():
        assert len(bomb) < BOMB_BYTES // 15
        tracemalloc.start()
        try:
            with pytest.raises(DecompressedTooLargeError):
                decompress(codec, bomb, limit)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 4 * limit + len(bomb), f"{codec.name}: {peak} bytes for a limit of {limit}"


def test_a_snappy_block_that_claims_4_gb_is_refused_before_memory_is_taken():
    claim = b"\xff\xff\xff\xff\x0f" + b"x" * 20
    with pytest.raises(DecompressedTooLargeError):
        decompress(Codec.SNAPPY, claim, 100 << 20)


def test_many_tiny_pieces_are_refused_before_they_take_long():
    with pytest.raises(CompressedDataError, match="gzip members"):
        decompress(Codec.GZIP, gzip.compress(b"") * 50_000, 1 << 20)
    block = bytes(cramjam.snappy.compress_raw(b"x"))
    framed = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + (struct.pack(">i", len(block)) + block) * 100_000
    with pytest.raises(CompressedDataError, match="snappy blocks"):
        decompress(Codec.SNAPPY, framed, 1 << 20)


def test_a_snappy_frame_whose_lengths_lie_is_refused():
    whole = compress(Codec.SNAPPY, TEXT)
    for length in (0, -1, 1 << 30):
        with pytest.raises(CompressedDataError):
            decompress(Codec.SNAPPY, whole[:16] + struct.pack(">i", length) + whole[20:], 1 << 20)


def test_an_lz4_frame_with_dependent_blocks_is_refused_as_kafka_does():
    linked = cramjam.lz4.Compressor(content_checksum=False, block_linked=True)
    linked.compress(TEXT)
    with pytest.raises(CompressedDataError, match="KIP-57"):
        decompress(Codec.LZ4, bytes(linked.finish()), 1 << 20)


def test_clients_encoders_and_decoders_agree_with_these():
    aiokafka = {
        Codec.GZIP: (aiokafka_codec.gzip_encode, aiokafka_codec.gzip_decode),
        Codec.SNAPPY: (aiokafka_codec.snappy_encode, aiokafka_codec.snappy_decode),
        Codec.LZ4: (aiokafka_codec.lz4_encode, aiokafka_codec.lz4_decode),
        Codec.ZSTD: (aiokafka_codec.zstd_encode, aiokafka_codec.zstd_decode),
    }
    for codec, (encode, decode) in aiokafka.items():
        assert decompress(codec, encode(TEXT), len(TEXT)) == TEXT, codec
        assert decode(compress(codec, TEXT)) == TEXT, codec
    assert (
        decompress(Codec.SNAPPY, aiokafka_codec.snappy_encode(TEXT, xerial_compatible=False), 1 << 20) == TEXT
    )
    assert zlib.decompress(compress(Codec.GZIP, TEXT), 31) == TEXT
