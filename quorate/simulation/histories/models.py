"""Small objects to check histories against with `linearizability.check_history`."""

from bisect import bisect_left
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TypeVar

from quorate.simulation.histories.linearizability import UNKNOWN, Unknown

Value = TypeVar("Value", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Read:
    """A read, answered with the value: of a register, a counter, or the whole log as a tuple."""


@dataclass(frozen=True, slots=True)
class Write:
    """A write, answered with None."""

    value: Hashable


@dataclass(frozen=True, slots=True)
class CompareAndSet:
    """A conditional write, answered with whether the value was `expected`, and is `value` now."""

    expected: Hashable
    value: Hashable


@dataclass(frozen=True, slots=True)
class Register:
    """A value that is read, written, and compared and set."""

    value: Hashable = None

    def initial(self) -> Hashable:
        return self.value

    def step(
        self, state: Hashable, request: Read | Write | CompareAndSet, answer: Hashable | Unknown
    ) -> tuple[bool, Hashable]:
        match request:
            case Read():
                return answer is UNKNOWN or answer == state, state
            case Write(value):
                return answer is UNKNOWN or answer is None, value
            case CompareAndSet(expected, value):
                matches = state == expected
                return answer is UNKNOWN or answer is matches, value if matches else state

    def is_read(self, request: Read | Write | CompareAndSet) -> bool:
        return isinstance(request, Read)


@dataclass(frozen=True, slots=True)
class Add:
    """An addition, answered with the sum after it, or with None by counters that don't tell."""

    amount: int = 1


@dataclass(frozen=True, slots=True)
class Counter:
    """A sum."""

    value: int = 0

    def initial(self) -> int:
        return self.value

    def step(self, state: int, request: Read | Add, answer: int | Unknown | None) -> tuple[bool, int]:
        match request:
            case Read():
                return answer is UNKNOWN or answer == state, state
            case Add(amount):
                return answer is UNKNOWN or answer is None or answer == state + amount, state + amount

    def is_read(self, request: Read | Add) -> bool:
        return isinstance(request, Read)


@dataclass(frozen=True, slots=True)
class Append:
    """An append, answered with the offset. Offsets grow, maybe with gaps: logs have own records."""

    value: Hashable


@dataclass(frozen=True, slots=True)
class LogState:
    """`hash_` stands for `values` in hashes: logs are long, and each step makes a new one."""

    values: tuple[Hashable, ...] = ()
    last_offset: int = -1
    """The highest in any answer."""
    hash_: int = 0

    def __hash__(self) -> int:
        return hash((self.hash_, self.last_offset))


@dataclass(frozen=True, slots=True)
class AppendLog:
    """A log that only grows. `Read` answers with all its values, as a tuple."""

    def initial(self) -> LogState:
        return LogState()

    def step(
        self, state: LogState, request: Read | Append, answer: int | tuple[Hashable, ...] | Unknown
    ) -> tuple[bool, LogState]:
        match request:
            case Read():
                return answer is UNKNOWN or answer == state.values, state
            case Append(value):
                if answer is UNKNOWN:
                    offset = state.last_offset
                elif isinstance(answer, int) and answer > state.last_offset:
                    offset = answer
                else:
                    return False, state
                return True, LogState((*state.values, value), offset, hash((state.hash_, value)))

    def is_read(self, request: Read | Append) -> bool:
        return isinstance(request, Read)


@dataclass(frozen=True, slots=True)
class AppendBatch:
    """An append, answered with the offset of the first record."""


@dataclass(frozen=True, slots=True)
class KnownLog:
    """A log that is known when its history is checked, as `AppendLog` is not. The order of appends is known
    too, so even very long and concurrent histories are quickly checked.

    `starts`: where each batch begins that any of the appends in the history left in the log, in order; of an
    append whose outcome is unknown, the log tells the answer. `Read` is answered with the end of what
    it saw, exclusive. That the records are the right ones has to be checked by other means. The state is how
    many batches are there.
    """

    starts: tuple[int, ...]

    def initial(self) -> int:
        return 0

    def step(self, state: int, request: Read | AppendBatch, answer: Hashable | Unknown) -> tuple[bool, int]:
        match request:
            case Read():
                seen = bisect_left(self.starts, answer) if isinstance(answer, int) else None
                return answer is UNKNOWN or seen == state, state
            case AppendBatch():
                is_next = state < len(self.starts) and answer == self.starts[state]
                return answer is UNKNOWN or is_next, state + is_next

    def is_read(self, request: Read | AppendBatch) -> bool:
        return isinstance(request, Read)


@dataclass(frozen=True, slots=True)
class Get:
    """A read, answered with the key's value, None if it has none."""

    key: Hashable


@dataclass(frozen=True, slots=True)
class Put:
    """A write, answered with None. The value None removes the key."""

    key: Hashable
    value: Hashable


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A key of a store: pass `key=key_of` to `check_history`, so that each is checked by itself."""

    def initial(self) -> Hashable:
        return None

    def step(self, state: Hashable, request: Get | Put, answer: Hashable | Unknown) -> tuple[bool, Hashable]:
        match request:
            case Get():
                return answer is UNKNOWN or answer == state, state
            case Put(_, value):
                return answer is UNKNOWN or answer is None, value

    def is_read(self, request: Get | Put) -> bool:
        return isinstance(request, Get)


def key_of(request: Get | Put) -> Hashable:
    return request.key
