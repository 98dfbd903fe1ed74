"""The codecs of record batches, as Kafka's clients write and read them. The output of a decompression never
takes more memory than allowed, even if the input claims another size.

gzip is the standard library's, the others are cramjam's. All release the interpreter lock. A node
imports cramjam, 1.6 MB, with the first batch that needs it.

A large output is mapped: to clear it, as a bytearray is, would take the interpreter lock for as long as a
megabyte takes the kernel to give, a hundred times.
"""

import enum
import mmap
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Final, TypeAlias

from quorate.log.batches.record_walk import RecordBytes
from quorate.runtime import Buffer


class Codec(enum.IntEnum):
    """The number of a codec in a batch's attributes. The names are those of `compression.type`, except
    NONE."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class CompressedDataError(Exception):
    """The bytes are not valid output of the codec."""


class DecompressedTooLargeError(Exception):
    """The decompressed data would exceed the limit."""


def decompress(codec: Codec, data: Buffer, limit: int) -> RecordBytes:
    """Return at most `limit` bytes. Raises `CompressedDataError`, `DecompressedTooLargeError`."""
    for size in output_sizes(codec, data, limit):
        output = decompress_within(codec, data, size)
        if output is not None:
            return output
    raise DecompressedTooLargeError


_FIRST_RATIO: Final = 8
_FIRST_BYTES: Final = 2 << 20
_GROWTH: Final = 4
_SMALLEST_OUTPUT: Final = 16 * 1024


def output_sizes(codec: Codec, data: Buffer, limit: int) -> Iterator[int]:
    """Yield the bytes of output to try `decompress_within` with, until it is enough: what `data` states, else
    more each time, so that repeated work is a third at most. The last is `limit`. Raises
    `DecompressedTooLargeError` if more is stated, and `CompressedDataError`."""
    stated = _stated_size(codec, data)
    if stated is not None and stated > limit:
        if codec is not Codec.GZIP:
            raise DecompressedTooLargeError
        stated = None  # It is at the end, which may be cut off.
    size = stated
    if size is None:
        size = max(_SMALLEST_OUTPUT, len(data), min(_FIRST_BYTES, _FIRST_RATIO * len(data)))
    while size < limit:
        yield size
        size = max(_SMALLEST_OUTPUT, _GROWTH * size)
    yield limit


def decompress_within(codec: Codec, data: Buffer, size: int) -> RecordBytes | None:
    """Return what comes out, or None if that is more than `size` bytes. Raises `CompressedDataError`."""
    output = _output(size)
    written = _decompress_into(codec, data, output)
    return None if written is None else _cut(output, written)


def _decompress_into(codec: Codec, data: Buffer, output: bytearray | mmap.mmap) -> int | None:
    """Write to `output`, and return the number of bytes. None: there are more."""
    match codec:
        case Codec.NONE:
            raise ValueError("nothing is compressed")
        case Codec.GZIP:
            return _gunzip(data, output)
        case Codec.SNAPPY:
            return _unsnappy(data, output)
        case Codec.LZ4:
            import cramjam

            _check_lz4_frame(data)
            return _whole(cramjam.lz4.decompress_into, data, output)
        case Codec.ZSTD:
            import cramjam

            return _whole(cramjam.zstd.decompress_into, data, output)


def memory_within(codec: Codec, data: Buffer, size: int) -> int:
    """Return the bytes that `decompress_within` takes at most."""
    window = _zstd_frame(data)[1] if codec is Codec.ZSTD else 0
    return size + min(window, size)


_MAPPED_BYTES: Final = 1 << 20


def _output(size: int) -> bytearray | mmap.mmap:
    if size <= _MAPPED_BYTES:
        return bytearray(size)
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _cut(output: bytearray | mmap.mmap, size: int) -> RecordBytes:
    """Shorten the output to its first `size` bytes."""
    if isinstance(output, bytearray):
        del output[size:]
    elif size <= _MAPPED_BYTES or sys.platform != "linux":
        return output[:size]
    elif size < len(output):
        output.resize(size)
    return output


def _stated_size(codec: Codec, data: Buffer) -> int | None:
    """Return the size of the output if `data` says it, and could be so much. None if it doesn't, or if it has
    no form that could."""
    match codec:
        case Codec.NONE:
            raise ValueError("nothing is compressed")
        case Codec.GZIP:
            # Only of the last member, and only its last 32 bits.
            stated = int.from_bytes(data[-4:], "little") if len(data) >= _GZIP_LEAST else None
            return None if stated is None else min(stated, len(data) * _GZIP_RATIO)
        case Codec.SNAPPY:
            return _snappy_size(data)
        case Codec.LZ4:
            head = bytes(data[:_LZ4_SIZE_END])
            if len(head) < _LZ4_SIZE_END or not head[4] & _LZ4_HAS_SIZE:
                return None
            return min(int.from_bytes(head[6:], "little"), len(data) * _LZ4_RATIO)
        case Codec.ZSTD:
            stated, _ = _zstd_frame(data)
            return None if stated is None else min(stated, len(data) * _ZSTD_RATIO)


USUAL_LEVELS: Final = MappingProxyType({Codec.GZIP: -1, Codec.LZ4: 9, Codec.ZSTD: 3})
"""Kafka's default levels (KIP-390)."""
_LZ4_FAST: Final = 0
_LZ4_HIGH: Final = 2
"""The lowest level of the library's thorough mode."""


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Compress `data` in a form that every client of Kafka reads. `level` None: the codec's default. As in
    Kafka, LZ4's default level, 9, is its fast mode, and every other level its thorough mode."""
    if level is None:
        level = USUAL_LEVELS.get(codec, 0)
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            stream = zlib.compressobj(level, wbits=_GZIP)
            return stream.compress(data) + stream.flush()
        case Codec.SNAPPY:
            return _xerial(memoryview(data))
        case Codec.LZ4:
            import cramjam

            # Kafka's own reader knows independent blocks only (KIP-57).
            mode = _LZ4_FAST if level == USUAL_LEVELS[Codec.LZ4] else max(_LZ4_HIGH, level)
            compressor = cramjam.lz4.Compressor(mode, content_checksum=False, block_linked=False)
            for start in range(0, len(data), _PIECE_BYTES):
                compressor.compress(bytes(data[start : start + _PIECE_BYTES]))
            return bytes(compressor.finish())
        case Codec.ZSTD:
            import cramjam

            return bytes(cramjam.zstd.compress(data, level=level))


# gzip

_GZIP: Final = 31
"""zlib's window bits, 15, with 16 for gzip's own header."""
_GZIP_LEAST: Final = 18
_GZIP_RATIO: Final = 1032
_GZIP_MEMBERS_MAX: Final = 16
"""Clients write one."""
_FED_BYTES: Final = 64 * 1024
_PIECE_BYTES: Final = 1 << 20


def _gunzip(data: Buffer, output: bytearray | mmap.mmap) -> int | None:
    view = memoryview(data)
    position = written = 0
    try:
        for _ in range(_GZIP_MEMBERS_MAX):
            stream = zlib.decompressobj(wbits=_GZIP)
            while not stream.eof:
                fed: Buffer = stream.unconsumed_tail
                if not fed:
                    fed = view[position : position + _FED_BYTES]
                    position += len(fed)
                piece = stream.decompress(fed, min(_PIECE_BYTES, len(output) - written + 1))
                if not (fed or piece or stream.eof):
                    raise CompressedDataError("the gzip stream is cut off")
                if len(piece) > len(output) - written:
                    return None
                output[written : written + len(piece)] = piece
                written += len(piece)
            position -= len(stream.unused_data)
            if position == len(view):
                return written
        raise CompressedDataError(f"more than {_GZIP_MEMBERS_MAX} gzip members")
    except zlib.error as error:
        raise CompressedDataError(f"no gzip: {error}") from None


# snappy: the whole as one block, or in the frame of the Java library (xerial) that Kafka's clients write

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK: Final = 32 * 1024
_XERIAL_BLOCKS_MAX: Final = 4096
"""Each holds 32 KiB, so no request is as large. Each costs a call."""
_BLOCK_LENGTH: Final = struct.Struct(">i")


def _snappy_blocks(data: Buffer) -> Iterator[tuple[memoryview, int]]:
    """Yield the blocks, and the size of what is in each."""
    import cramjam

    view = memoryview(data)
    framed = bytes(view[: len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC
    position, count = len(_XERIAL_HEADER) if framed else 0, 0
    while position < len(view) or not (framed or count):
        length = len(view)
        if framed:
            if count == _XERIAL_BLOCKS_MAX:
                raise CompressedDataError(f"more than {_XERIAL_BLOCKS_MAX} snappy blocks")
            try:
                (length,) = _BLOCK_LENGTH.unpack_from(view, position)
            except struct.error:
                raise CompressedDataError("a snappy block's length is cut off") from None
            position += _BLOCK_LENGTH.size
            if not 0 < length <= len(view) - position:
                raise CompressedDataError(
                    f"a snappy block claims {length} bytes, {len(view) - position} are left"
                )
        block = view[position : position + length]
        try:
            yield block, cramjam.snappy.decompress_raw_len(block)
        except cramjam.DecompressionError as error:
            raise CompressedDataError(f"no snappy: {error}") from None
        position += length
        count += 1


def _snappy_size(data: Buffer) -> int:
    return sum(size for _, size in _snappy_blocks(data))


def _unsnappy(data: Buffer, output: bytearray | mmap.mmap) -> int | None:
    import cramjam

    written = 0
    with memoryview(output) as into:
        for block, size in _snappy_blocks(data):
            if size > len(into) - written:
                return None
            with into[written : written + size] as part:
                try:
                    cramjam.snappy.decompress_raw_into(block, part)
                except cramjam.DecompressionError as error:
                    raise CompressedDataError(f"no snappy: {error}") from None
            written += size
    return written


def _xerial(view: memoryview) -> bytes:
    import cramjam

    pieces = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        pieces += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(pieces)


# lz4 and zstd: frames that don't always say how much is in them

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_INDEPENDENT: Final = 0x20
_LZ4_HAS_SIZE: Final = 0x08
_LZ4_SIZE_END: Final = 14
_LZ4_RATIO: Final = 255
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_SINGLE: Final = 0x20
_ZSTD_RATIO: Final = 32 * 1024
"""The ratio of a block of one repeated byte: three bytes of head and that byte become 128 KiB."""
_FULL: Final = "failed to write whole buffer"
"""The text of cramjam's error when the output buffer is too small."""


_DecompressInto: TypeAlias = Callable[[Buffer, bytearray | mmap.mmap], int]


def _check_lz4_frame(data: Buffer) -> None:
    head = bytes(memoryview(data)[:5])
    if head[:4] != _LZ4_MAGIC or len(head) < 5:
        raise CompressedDataError("no LZ4 frame")
    if not head[4] & _LZ4_INDEPENDENT:
        raise CompressedDataError(
            "the LZ4 frame has dependent blocks, which Kafka's clients can't read (KIP-57)"
        )


def _zstd_frame(data: Buffer) -> tuple[int | None, int]:
    """Return what the head of the first frame says: the size of its content, if it does, and of the window
    that a decoder keeps (RFC 8878, 3.1.1.1)."""
    head = bytes(data[:18])
    if head[:4] != _ZSTD_MAGIC or len(head) < 6:
        return None, 0
    flags = head[4]
    at, window = 5, None
    if not flags & _ZSTD_SINGLE:
        base = 1 << 10 + (head[5] >> 3)
        window = base + base // 8 * (head[5] & 7)
        at = 6
    at += (0, 1, 2, 4)[flags & 3]
    width = (1 if flags & _ZSTD_SINGLE else 0, 2, 4, 8)[flags >> 6]
    if not width or len(head) < at + width:
        return None, window or 0
    size = int.from_bytes(head[at : at + width], "little") + (256 if width == 2 else 0)
    return size, size if window is None else window


def _whole(into: _DecompressInto, data: Buffer, output: bytearray | mmap.mmap) -> int | None:
    import cramjam

    try:
        return into(data, output)
    except cramjam.DecompressionError as error:
        if _FULL not in str(error):
            raise CompressedDataError(str(error)) from None
    return None
