"""Mutations of a frame on its way from a hostile or a broken peer."""

import random
from collections.abc import Callable
from typing import Final

import cbor2

Header = list[object]

HOSTILE: Final[tuple[object, ...]] = (
    None, True, False, -1, 0, 1, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**64 - 1, -(2**64), 2**64, 2**2000,
    1.5, float("nan"), float("inf"), "", "x" * 300, "\x00", "é" * 40, b"", b"\xff" * 300, [], [[]],
    [[[[[[[]]]]]]],
    [None] * 1001, [1, 2], ["host", 0], ["host", 65536], ["host", 9093], [-1, -1], {}, {1: 2}, {"a": {}},
    cbor2.undefined, cbor2.CBORSimpleValue(99), cbor2.CBORTag(2, b"\xff" * 100), cbor2.CBORTag(35, "(a+)+$"),
    cbor2.CBORTag(258, [1]), cbor2.CBORTag(29, 0),
)  # fmt: skip
"""The values that take the place of a field."""

RAW: Final = (
    b"\x81" * 5000 + b"\x01",  # deep
    b"\xa1\x01" * 3000 + b"\x01",
    b"\x9f" * 40 + b"\xff" * 40,  # indefinite lengths
    b"\x9f\x02\x00\x01\xff",
    b"\x5f\x41a\xff",
    b"\xbf\x01\x02\xff",
    b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff",  # counts
    b"\x9b\x00\x00\x00\x00\xff\xff\xff\xff\x01",
    b"\x5b\x7f\xff\xff\xff\xff\xff\xff\xff\x01",  # sizes
    b"\x7b\x00\x00\x7f\xff\xff\xff\xff\xff\x01",
    b"\xba\xff\xff\xff\xff\x01\x02",  # huge maps
    b"\xc2\x59\x3f\x00" + b"\xff" * 0x3F00,  # a number of 16,128 bytes
    b"\xd9\x01\x00\x81\xd8\x19\x00",  # references
    b"\xd8\x1c\x81\xd8\x1d\x00",  # a list that holds itself
    b"\xf8\x00",
    b"\xff",
    b"\x84\x02\x00\x01\x62\xc3\x28",  # not UTF-8
)
"""The bytes that take the place of a header."""


def split(frame: bytes) -> tuple[Header, bytes]:
    """Return the header's fields and the payload of a whole frame, as recorded."""
    size = int.from_bytes(frame[4:6], "big")
    header = cbor2.loads(frame[6 : 6 + size])
    assert isinstance(header, list)
    return header, frame[6 + size :]


def join(header: bytes, payload: bytes) -> bytes:
    size = min(len(header), 65535)
    return (2 + size + len(payload)).to_bytes(4, "big") + size.to_bytes(2, "big") + header[:size] + payload


def joined(header: Header, payload: bytes) -> bytes:
    return join(cbor2.dumps(header), payload)


class Mutator:
    """Draws mutations of frames. Every method returns the bytes to send."""

    def __init__(self, draw: random.Random, recorded: list[bytes]) -> None:
        self._draw = draw
        self._recorded = recorded
        self._kinds: dict[int, list[bytes]] = {}
        for frame in recorded:
            self._kinds.setdefault(split(frame)[0][0], []).append(frame)  # type: ignore[arg-type]
        self._ways: tuple[Callable[[bytes], bytes], ...] = (
            self.flipped, self.flipped, self.cut, self.lying_length, self.lying_header, self.swapped,
            self.other_type, self.other_type, self.other_number, self.fewer_or_more, self.spliced,
            self.crossed, self.raw, self.payload_flipped, self.payload_lying, self.other_head,
            self.random, self.unchanged,
        )  # fmt: skip

    @property
    def kinds(self) -> list[int]:
        """Return the kinds of the recorded frames."""
        return sorted(self._kinds)

    def next(self) -> tuple[str, bytes]:
        """Return the name of the mutation, and the bytes. Every kind is as likely, however rare it was."""
        way = self._draw.choice(self._ways)
        return way.__name__, way(self._draw.choice(self._kinds[self._draw.choice(self.kinds)]))

    def unchanged(self, frame: bytes) -> bytes:
        return frame

    def flipped(self, frame: bytes) -> bytes:
        data = bytearray(frame)
        for _ in range(self._draw.randint(1, 8)):
            # The lengths in front stay: what they claim is the business of others.
            data[self._draw.randrange(6, len(data))] ^= 1 << self._draw.randrange(8)
        return bytes(data)

    def cut(self, frame: bytes) -> bytes:
        """Make the frame shorter. Its length is right."""
        body = frame[4 : 4 + self._draw.randrange(2, len(frame) - 4)]
        return len(body).to_bytes(4, "big") + body

    def lying_length(self, frame: bytes) -> bytes:
        size = self._draw.choice((0, 1, 2, 5, len(frame), len(frame) * 2, 2**20, 2**24, 2**31, 2**32 - 1))
        return size.to_bytes(4, "big") + frame[4:]

    def lying_header(self, frame: bytes) -> bytes:
        size = self._draw.choice((0, 1, 2, len(frame) - 6, len(frame), 16384, 16385, 65535))
        return frame[:4] + min(size, 65535).to_bytes(2, "big") + frame[6:]

    def swapped(self, frame: bytes) -> bytes:
        header, payload = split(frame)
        one, other = self._draw.randrange(len(header)), self._draw.randrange(len(header))
        header[one], header[other] = header[other], header[one]
        return joined(header, payload)

    def other_type(self, frame: bytes) -> bytes:
        header, payload = split(frame)
        header[self._draw.randrange(len(header))] = self._draw.choice(HOSTILE)
        return joined(header, payload)

    def other_number(self, frame: bytes) -> bytes:
        """Change numbers. The frame is mostly well-formed, and a lie."""
        header, payload = split(frame)
        numbers = [place for place, field in enumerate(header) if type(field) is int and place > 2]
        for place in self._draw.sample(numbers, min(len(numbers), self._draw.randint(1, 2))):
            before = header[place]
            assert isinstance(before, int)
            header[place] = self._draw.choice((before + 1, before - 1, 0, 1, 2, 3, 99, before + 1000))
        return joined(header, payload)

    def fewer_or_more(self, frame: bytes) -> bytes:
        header, payload = split(frame)
        place = self._draw.randrange(len(header))
        if self._draw.random() < 0.5:
            del header[place]
        else:
            header.insert(place, self._draw.choice((*HOSTILE, *header)))
        return joined(header, payload)

    def spliced(self, frame: bytes) -> bytes:
        """Join the front of one frame to the back of another."""
        other = self._draw.choice(self._recorded)
        body = frame[6 : self._draw.randrange(6, len(frame))] + other[self._draw.randrange(6, len(other)) :]
        return (len(body) + 2).to_bytes(4, "big") + frame[4:6] + body

    def crossed(self, frame: bytes) -> bytes:
        """Join the header of one frame to the payload of another."""
        header, _ = split(frame)
        _, payload = split(self._draw.choice(self._recorded))
        return joined(header, payload)

    def raw(self, frame: bytes) -> bytes:
        _, payload = split(frame)
        data = self._draw.choice(RAW)
        if self._draw.random() < 0.5:
            header, _ = split(frame)
            fields = b"".join(map(cbor2.dumps, header[: self._draw.randint(1, 6)]))
            data = bytes([0x80 + 12]) + fields + data
        return join(data, payload)

    def payload_flipped(self, frame: bytes) -> bytes:
        header, payload = split(frame)
        data = bytearray(payload)
        for _ in range(self._draw.randint(1, 4) if data else 0):
            data[self._draw.randrange(len(data))] = self._draw.randrange(256)
        return joined(header, bytes(data))

    def payload_lying(self, frame: bytes) -> bytes:
        """Change lengths in the payload: of an append's records, of a batch."""
        header, payload = split(frame)
        place = self._draw.randrange(0, max(1, len(payload) - 4))
        lie = self._draw.choice((0, 1, 255, 2**16, 2**31 - 1, 2**32 - 1)).to_bytes(4, "big")
        return joined(header, payload[:place] + lie + payload[place + 4 :])

    def other_head(self, frame: bytes) -> bytes:
        """Change the kind, the version or the correlation."""
        header, payload = split(frame)
        place = self._draw.randrange(3)
        kinds: list[object] = [self._draw.randrange(-2, 40), self._draw.choice(self.kinds)]
        numbers: list[object] = [0, 1, -1, 7, 2**31, 2**63, 2**64 - 1]
        header[place] = self._draw.choice(kinds if place == 0 else numbers)
        return joined(header, payload)

    def random(self, frame: bytes) -> bytes:
        body = self._draw.randbytes(self._draw.randint(2, 200))
        if self._draw.random() < 0.5:
            header = self._draw.randbytes(self._draw.randint(0, 40))
            return join(header, body)
        return len(body).to_bytes(4, "big") + body
