"""The codecs of record batches, as Kafka's clients write and read them. All bounded: what comes out of a
decompression never takes more memory than was allowed, whatever the input claims.

gzip is the standard library's, the others are cramjam's. All release the interpreter lock. A node
imports cramjam, 1.6 MB, with the first batch that needs it.
"""

import enum
import struct
import zlib
from collections.abc import Callable
from types import MappingProxyType
from typing import Final, TypeAlias

from quorate.log.batches import RecordBytes
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
    match codec:
        case Codec.NONE:
            raise ValueError("nothing is compressed")
        case Codec.GZIP:
            return _gunzip(data, limit)
        case Codec.SNAPPY:
            return _unsnappy(data, limit)
        case Codec.LZ4:
            import cramjam

            _check_lz4_frame(data)
            return _grow(cramjam.lz4.decompress_into, data, limit)
        case Codec.ZSTD:
            import cramjam

            return _grow(cramjam.zstd.decompress_into, data, limit)


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
            compressor.compress(bytes(data))
            return bytes(compressor.finish())
        case Codec.ZSTD:
            import cramjam

            return bytes(cramjam.zstd.compress(data, level=level))


# gzip

_GZIP: Final = 31
"""zlib's window bits, 15, with 16 for gzip's own header."""
_GZIP_MEMBERS_MAX: Final = 16
"""Clients write one. Each costs a copy of the rest."""


def _gunzip(data: Buffer, limit: int) -> bytes:
    pieces: list[bytes] = []
    left = limit
    rest: Buffer = data
    try:
        for _ in range(_GZIP_MEMBERS_MAX):
            stream = zlib.decompressobj(wbits=_GZIP)
            pieces.append(stream.decompress(rest, left + 1))
            left -= len(pieces[-1])
            if left < 0:
                raise DecompressedTooLargeError
            if not stream.eof:
                raise CompressedDataError("the gzip stream is cut off")
            if not stream.unused_data:
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)
            rest = stream.unused_data
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


def _unsnappy(data: Buffer, limit: int) -> RecordBytes:
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _unsnappy_block(view, limit)
    pieces: list[RecordBytes] = []
    position, left = len(_XERIAL_HEADER), limit
    while position < len(view):
        if len(pieces) == _XERIAL_BLOCKS_MAX:
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
        pieces.append(_unsnappy_block(view[position : position + length], left))
        left -= len(pieces[-1])
        position += length
    return b"".join(pieces)


def _unsnappy_block(view: memoryview, limit: int) -> bytearray:
    import cramjam

    try:
        size = cramjam.snappy.decompress_raw_len(view)
        if size > limit:
            raise DecompressedTooLargeError
        out = bytearray(size)
        cramjam.snappy.decompress_raw_into(view, out)
    except cramjam.DecompressionError as error:
        raise CompressedDataError(f"no snappy: {error}") from None
    return out


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
_FIRST_RATIO: Final = 8
_GROWTH: Final = 4
_SMALLEST_OUTPUT: Final = 16 * 1024
_FULL: Final = "failed to write whole buffer"
"""The text of cramjam's error when the output buffer is too small."""


_DecompressInto: TypeAlias = Callable[[Buffer, bytearray], int]


def _check_lz4_frame(data: Buffer) -> None:
    head = bytes(memoryview(data)[:5])
    if head[:4] != _LZ4_MAGIC or len(head) < 5:
        raise CompressedDataError("no LZ4 frame")
    if not head[4] & _LZ4_INDEPENDENT:
        raise CompressedDataError(
            "the LZ4 frame has dependent blocks, which Kafka's clients can't read (KIP-57)"
        )


def _grow(into: _DecompressInto, data: Buffer, limit: int) -> RecordBytes:
    """Decompress, with a larger output after each overflow. Repeated work is a third at most."""
    import cramjam

    size = min(limit, max(_SMALLEST_OUTPUT, _FIRST_RATIO * len(data)))
    while True:
        out = bytearray(size)
        try:
            written = into(data, out)
        except cramjam.DecompressionError as error:
            if _FULL not in str(error):
                raise CompressedDataError(str(error)) from None
            if size >= limit:
                raise DecompressedTooLargeError from None
            size = min(limit, size * _GROWTH)
            continue
        del out[written:]
        return out
