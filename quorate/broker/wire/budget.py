"""Memory that all connections share."""

import math
from bisect import bisect_left, insort_right
from operator import attrgetter
from typing import Final

import trio

SPARE_BYTES: Final = 1024 * 1024
"""The size of a spare buffer: a producer's batch fits, by the limit of most clients."""
SMALL_BYTES: Final = 2 * SPARE_BYTES
"""The most that is small: such a batch, also where it is compressed and expected to double."""
_SPARES: Final = 8


class SpareBuffers:
    """Buffers that large frames have left, for the next ones.

    A new buffer has to be cleared, and the kernel maps each of its pages. That takes a tenth of the time of
    the records in it.
    """

    __slots__ = ("_buffers", "_count")

    def __init__(self, count: int = _SPARES) -> None:
        self._buffers: list[bytearray] = []
        self._count = count

    def take(self) -> bytearray:
        """Return `SPARE_BYTES` of any content, to which there is no other reference."""
        for number, buffer in enumerate(self._buffers):
            if _is_free(buffer):
                del self._buffers[number]
                return buffer
        return bytearray(SPARE_BYTES)

    def keep(self, buffer: bytearray) -> None:
        """Take a buffer back, which views may still refer to. Beyond the count of spares it is let go."""
        if len(buffer) == SPARE_BYTES and len(self._buffers) < self._count:
            self._buffers.append(buffer)


def _is_free(buffer: bytearray) -> bool:
    """True if no view refers to it: only then it can change its size."""
    try:
        del buffer[-1:]
    except BufferError:
        return False
    buffer.append(0)
    return True


class MemoryBudget:
    """The bytes that may be in use at once. An account that asks for more waits in line.

    All asks for more than `SMALL_BYTES` have three quarters together: however many of these there are, and
    however slowly they come, smaller ones find room. In a line, an ask goes before one of twice its size that
    came up to a second earlier: many large claims delay no small one.

    A small frame draws its memory at once, a large one as it fills. So two large ones can each hold half of
    the memory and wait for the rest. One account at a time may therefore overdraw, and finishes. Records that
    are unpacked wait while their request holds memory, so they have an overdraft of their own: at most two
    more than `limit` are in use.
    """

    __slots__ = ("_large", "_small", "_unpacked", "_waited_for", "limit", "spares")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.spares = SpareBuffers()
        """Not counted as in use."""
        self._small = _Share(limit)
        self._large = _Share(limit - limit // 4)
        self._unpacked = _Share(limit - limit // 4)
        """The records that are large when they are unpacked. They and large requests have the three quarters
        together."""
        self._waited_for = trio.lowlevel.ParkingLot()

    @property
    def available(self) -> int:
        """The free bytes; negative while an account overdraws."""
        return self.limit - self._small.used - self._large_used

    @property
    def _large_used(self) -> int:
        return self._large.used + self._unpacked.used

    @property
    def is_short(self) -> bool:
        """Whether less than half is free."""
        return 2 * self.available < self.limit

    @property
    def wanted(self) -> int:
        """The bytes that the accounts in line need beyond the free ones; 0 without any."""
        asked = self._small.asked + self._large.asked
        return max(0, asked - self._room(self._small)) if asked else 0

    @property
    def wanted_of_large(self) -> int:
        """The bytes that large asks in line need of other large ones."""
        large = self._large
        return max(0, large.asked - large.limit + self._large_used) if large.asked else 0

    async def wait_wanted(self) -> None:
        """Return when an account waits for memory."""
        while not (self.wanted or self.wanted_of_large):
            await self._waited_for.park()

    def _share(self, account: "Account") -> "_Share":
        if not account.large:
            return self._small
        return self._unpacked if account.unpacks else self._large

    def _room(self, share: "_Share") -> int:
        large_limit = self._large.limit
        if share is self._small:
            return self.limit - share.used - min(self._large_used, large_limit)
        return min(large_limit - self._large_used, self.available)

    async def _draw(self, account: "Account", size: int) -> None:
        share = self._share(account)
        line = share.begun if account.held or account.unpacks else share.fresh
        if share.overdrawn_by is account or (not line.bytes and size <= self._room(share)):
            share.used += size
            return
        place = _BudgetPlace(account, size)
        line.add(place)
        self._serve()
        if place.granted.is_set():
            return
        self._waited_for.unpark_all()
        try:
            await place.granted.wait()
        except BaseException:
            if place.granted.is_set():
                self._put_back(account, size)
            else:
                line.remove(place)
                self._serve()
            raise

    def _put_back(self, account: "Account", size: int) -> None:
        share = self._share(account)
        share.used -= size
        if share.overdrawn_by is account:
            share.overdrawn_by = None
        self._serve()

    def _serve(self) -> None:
        for share in (self._small, self._unpacked, self._large):
            while (place := share.begun.first) is not None:
                if place.size > self._room(share):
                    if share.overdrawn_by is not None:
                        break
                    share.overdrawn_by = place.account
                self._grant(share, share.begun, place)
            while (place := share.fresh.first) is not None and place.size <= self._room(share):
                self._grant(share, share.fresh, place)

    def _grant(self, share: "_Share", line: "_Line", place: "_BudgetPlace") -> None:
        line.remove(place)
        share.used += place.size
        place.granted.set()


class _Share:
    """The use of a budget by small asks, or by large ones."""

    __slots__ = ("begun", "fresh", "limit", "overdrawn_by", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.begun = _Line()
        """Of accounts that hold some already, or whose request does."""
        self.fresh = _Line()
        self.overdrawn_by: Account | None = None

    @property
    def asked(self) -> int:
        """The bytes that those in line ask for."""
        return self.begun.bytes + self.fresh.bytes


class _Line:
    """Those that wait, the next first."""

    __slots__ = ("_places", "bytes")

    def __init__(self) -> None:
        self._places: list[_BudgetPlace] = []
        self.bytes = 0

    @property
    def first(self) -> "_BudgetPlace | None":
        return self._places[0] if self._places else None

    def add(self, place: "_BudgetPlace") -> None:
        insort_right(self._places, place, key=_turn_of)
        self.bytes += place.size

    def remove(self, place: "_BudgetPlace") -> None:
        index = bisect_left(self._places, place.turn, key=_turn_of)
        del self._places[self._places.index(place, index)]
        self.bytes -= place.size


class _BudgetPlace:
    """A place in the line."""

    __slots__ = ("account", "granted", "size", "turn")

    def __init__(self, account: "Account", size: int) -> None:
        self.account = account
        self.size = size
        self.granted = trio.Event()
        self.turn = trio.current_time() + math.log2(max(1, size))


_turn_of: Final = attrgetter("turn")


class Account:
    """The bytes that one connection has drawn, or, if it `unpacks`, those of the unpacked records of one
    request. One task uses it."""

    __slots__ = ("_budget", "held", "large", "unpacks")

    def __init__(self, budget: MemoryBudget, *, unpacks: bool = False) -> None:
        self._budget = budget
        self.unpacks = unpacks
        self.held = 0
        self.large = False
        """True if it draws from the share of large asks."""

    async def draw(self, size: int, *, of: int | None = None) -> None:
        """Wait until `size` more bytes are free and take them, without a checkpoint if they are. `of`: the
        size of the whole, if more of it is drawn later. A first draw of more than there may be counts as all
        of it. If cancelled, nothing was taken."""
        budget = self._budget
        if not self.held:
            self.large = (size if of is None else of) > SMALL_BYTES
            size = min(size, budget._share(self).limit)
        await budget._draw(self, size)
        self.held += size

    def release(self) -> None:
        """Put everything back. Idempotent."""
        held, self.held = self.held, 0
        if held:
            self._budget._put_back(self, held)


class ResponseBudget:
    """The limit of unsent bytes of answers over all connections. A connection with nothing unsent never
    waits, so it can always make progress by one answer."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    @property
    def exhausted(self) -> bool:
        return self.used >= self.limit

    def take(self, size: int) -> None:
        self.used += size

    def put_back(self, size: int) -> None:
        self.used -= size
