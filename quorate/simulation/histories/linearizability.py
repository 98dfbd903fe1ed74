"""The check for one order of a history's operations that explains every answer (linearizability)."""

import enum
import math
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, Generic, Protocol, TypeVar

from quorate.simulation.violations import SafetyViolation

State = TypeVar("State", bound=Hashable)
Request = TypeVar("Request")
Answer = TypeVar("Answer")
RequestIn = TypeVar("RequestIn", contravariant=True)
AnswerIn = TypeVar("AnswerIn", contravariant=True)


class Unknown(enum.Enum):
    """The answer of an operation whose outcome is unknown."""

    UNKNOWN = "unknown"

    def __repr__(self) -> str:
        return "?"

    __str__ = __repr__


UNKNOWN: Final = Unknown.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[Request, Answer]):
    """A call of a client. Times in any unit, from one clock. Equal times count as overlapping."""

    client: str
    request: Request
    answer: Answer | Unknown = UNKNOWN
    invoked_at: float
    returned_at: float = math.inf

    def __post_init__(self) -> None:
        if self.returned_at < self.invoked_at:
            raise ValueError(f"{self} returned before it was invoked")
        if self.answer is UNKNOWN and not math.isinf(self.returned_at):
            raise ValueError(f"{self}: without an answer, it may take effect later: it returns at infinity")

    @property
    def has_returned(self) -> bool:
        """Return whether the client got an answer."""
        return not math.isinf(self.returned_at)

    def __str__(self) -> str:
        return f"{self.client}: {self.request} -> {self.answer} ({self.invoked_at:g} to {self.returned_at:g})"


class Model(Protocol[State, RequestIn, AnswerIn]):
    """A model of one object's answers to one client at a time. States are immutable and hashable."""

    def initial(self) -> State:
        """Return the state before the first operation."""
        ...

    def step(self, state: State, request: RequestIn, answer: AnswerIn | Unknown) -> tuple[bool, State]:
        """Return whether `answer` is right in `state`, and the state after it. An unknown answer always
        is."""
        ...

    def is_read(self, request: RequestIn) -> bool:
        """True only if it leaves every state as it is. Reads make histories much easier to check."""
        ...


class Verdict(enum.Enum):
    """The outcome of a check: some order explains every answer, or none does."""

    LINEARIZABLE = "linearizable"
    NOT_LINEARIZABLE = "not linearizable"
    UNDECIDED = "undecided"
    """The search was given up: raise `configurations_max`, or cut the history by key."""


class Anomaly(enum.Enum):
    """A kind of mistake that would explain the answers of a history that no order explains."""

    STALE_READ = "stale read"
    """Reads were answered from states that were already past when they began."""
    APPLIED_TWICE = "applied twice"
    """An operation took effect once more than it was asked for, as after a retry."""
    LOST_UPDATE = "lost update"
    """An operation was answered as if it had taken effect, and left no trace in the state."""


_BYSTANDERS_SHOWN: Final = 3
"""The most that a report shows in a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Generic[Request, Answer]):
    """The result of `check_history`, with the smallest counterexample found."""

    verdict: Verdict
    operations: int
    configurations: int
    """The number of configurations visited."""
    key: Hashable = None
    """The key of the part of the history that the rest is about."""
    counterexample: tuple[Operation[Request, Answer], ...] = ()
    """The fewest operations found that no order explains, by time of invocation."""
    bystanders: tuple[Operation[Request, Answer], ...] = ()
    """The operations of `counterexample` whose own answer does not matter: others may have seen their
    effect."""
    anomaly: Anomaly | None = None
    """The first kind of mistake that would explain the answers, in the order of `Anomaly`. None: no kind
    alone does."""
    suspect: Operation[Request, Answer] | None = None
    """The operation that was applied twice or lost, if one alone explains the answers."""

    def __str__(self) -> str:
        if self.verdict is not Verdict.NOT_LINEARIZABLE:
            effort = f"{self.configurations} configurations"
            return f"{self.operations} operations, {self.verdict.value} ({effort})"
        where = "" if self.key is None else f" of key {self.key!r}"
        kind = "" if self.anomaly is None else f"{self.anomaly.value}: "
        if not self.counterexample:
            return f"{self.verdict.value}: {self.operations} operations{where}"
        lines = [f"{kind}no order of these operations{where} explains their answers:"]
        for is_bystander, group in groupby(self.counterexample, key=lambda each: each in self.bystanders):
            operations = list(group)
            left_out = len(operations) - _BYSTANDERS_SHOWN if is_bystander else 0
            if left_out > 1:
                lines.append(f"  {left_out} operations, whatever they were answered")
                operations = operations[left_out:]
            remark = ", whatever it was answered" if is_bystander else ""
            lines += [f"  {operation}{remark}" for operation in operations]
        if self.suspect is not None:
            how = "twice" if self.anomaly is Anomaly.APPLIED_TWICE else "not at all"
            lines += [f"they are explained if this took effect {how}:", f"  {self.suspect}"]
        return "\n".join(lines)

    def require(self) -> None:
        """Raise `SafetyViolation` unless the history is linearizable."""
        if self.verdict is not Verdict.LINEARIZABLE:
            raise SafetyViolation(str(self))


def check_history(
    model: Model[State, Request, Answer],
    operations: Iterable[Operation[Request, Answer]],
    *,
    key: Callable[[Request], Hashable] | None = None,
    configurations_max: int = 5_000_000,
    explain: bool = True,
) -> Report[Request, Answer]:
    """Return whether some order of `operations` explains every answer and puts each between its call and its
    return. `explain=False`: the verdict alone, without the counterexample, whose search takes longer."""
    parts: dict[Hashable, list[Operation[Request, Answer]]] = {}
    for operation in operations:
        parts.setdefault(None if key is None else key(operation.request), []).append(operation)
    total = sum(map(len, parts.values()))
    visited = 0
    verdict = Verdict.LINEARIZABLE
    for name, part in parts.items():
        part.sort(key=lambda operation: operation.invoked_at)
        search = Search(model, part, configurations_max=configurations_max)
        found = search.run()
        visited += search.configurations
        if found is Verdict.NOT_LINEARIZABLE and not explain:
            return Report(verdict=found, operations=total, configurations=visited, key=name)
        if found is Verdict.NOT_LINEARIZABLE:
            prefix = search.prefix()
            smallest = Shrinker(model).smallest(prefix)
            anomaly, suspect = _find_anomaly(model, part, prefix)
            return Report(
                verdict=found,
                operations=total,
                configurations=visited,
                key=name,
                counterexample=tuple(part.operation for part in smallest),
                bystanders=tuple(part.operation for part in smallest if part.is_bystander),
                anomaly=anomaly,
                suspect=suspect,
            )
        if found is Verdict.UNDECIDED:
            verdict = found
    return Report(verdict=verdict, operations=total, configurations=visited)


class Search(Generic[State, Request, Answer]):
    """A depth-first search over one history, whose operations are in the order of their invocation."""

    def __init__(
        self,
        model: Model[State, Request, Answer],
        operations: Sequence[Operation[Request, Answer]],
        *,
        configurations_max: int,
        bystanders: Container[int] = (),
        lost: Container[int] = (),
    ) -> None:
        self._model = model
        self._operations = operations
        self._configurations_max = configurations_max
        self._bystanders = [number in bystanders for number in range(len(operations))]
        self._leaves_state = [
            number in lost or model.is_read(operation.request) for number, operation in enumerate(operations)
        ]
        self.configurations = 0
        self._returns: list[int] = []
        """Numbers of operations, in the order of their returns."""
        self._open: list[tuple[int, ...]] = []
        """The answered operations open at each return, the returning one first."""
        self._unknown: list[int] = []
        """Numbers of the operations that never return, in the order of their invocation."""
        self._unknown_open: list[int] = []
        """The number of `_unknown` invoked by each return."""
        self._bits: list[int] = [0] * len(operations)
        """Each operation's: unique among those that are open together, or among the unknown."""
        self._seen: dict[tuple[int, int, State], list[int]] = {}
        """(number of the next return, open operations in effect, state): sets of unknown ones in effect."""
        self._stack: list[tuple[int, int, int, State]] = []
        self._furthest = 0
        self._plan()

    def _plan(self) -> None:
        moments = [(each.invoked_at, 0, number) for number, each in enumerate(self._operations)]
        moments += [
            (each.returned_at, 1, number) for number, each in enumerate(self._operations) if each.has_returned
        ]
        moments.sort()
        open_now: dict[int, None] = {}
        free: list[int] = []
        slots = 0
        for _, is_return, number in moments:
            if is_return:
                del open_now[number]
                self._returns.append(number)
                self._open.append((number, *open_now))
                self._unknown_open.append(len(self._unknown))
                free.append(self._bits[number])
            elif not self._operations[number].has_returned:
                self._bits[number] = 1 << len(self._unknown)
                self._unknown.append(number)
            else:
                open_now[number] = None
                if not free:
                    free.append(1 << slots)
                    slots += 1
                self._bits[number] = free.pop()

    def run(self) -> Verdict:
        """Search. Called once per search."""
        if self._reaches_the_end(0, 0, 0, self._model.initial()):
            return Verdict.LINEARIZABLE
        while self._stack:
            self.configurations += 1
            if self.configurations > self._configurations_max:
                return Verdict.UNDECIDED
            if self._extend(*self._stack.pop()):
                return Verdict.LINEARIZABLE
        return Verdict.NOT_LINEARIZABLE

    def _reaches_the_end(self, at: int, done: int, guessed: int, state: State) -> bool:
        """Put a configuration on the stack, unless one has been there that can do all that it can."""
        while at < len(self._returns) and done & self._bits[self._returns[at]]:
            done ^= self._bits[self._returns[at]]
            at += 1
        if at == len(self._returns):
            return True
        fewer = self._seen.setdefault((at, done, state), [])
        if not any(other & guessed == other for other in fewer):
            fewer.append(guessed)
            self._stack.append((at, done, guessed, state))
            self._furthest = max(self._furthest, at)
        return False

    def _extend(self, at: int, done: int, guessed: int, state: State) -> bool:
        """Let each open operation take effect next. The operation that is likeliest to help is pushed last,
        so that it is tried first. A read whose answer is right takes effect now: later is never better."""
        step, operations = self._model.step, self._operations
        possible: list[tuple[int, State]] = []
        for number in reversed(self._open[at]):
            bit = self._bits[number]
            if not done & bit:
                operation = operations[number]
                answer = UNKNOWN if self._bystanders[number] else operation.answer
                ok, after = step(state, operation.request, answer)
                if ok and self._leaves_state[number]:
                    return self._reaches_the_end(at, done | bit, guessed, state)
                if ok:
                    possible.append((bit, after))
        for number in self._unknown[: self._unknown_open[at]]:
            bit = self._bits[number]
            if not guessed & bit:
                ok, after = step(state, operations[number].request, operations[number].answer)
                if ok and after != state and self._reaches_the_end(at, done, guessed | bit, after):
                    return True
        for bit, after in possible:
            if self._reaches_the_end(at, done | bit, guessed, after):
                return True
        if self._bystanders[self._returns[at]]:
            return self._reaches_the_end(at + 1, done, guessed, state)
        return False

    def prefix(self) -> list[Operation[Request, Answer]]:
        """Return the operations invoked before the return that stopped a failed search."""
        until = self._operations[self._returns[self._furthest]].returned_at
        return [operation for operation in self._operations if operation.invoked_at <= until]


@dataclass(frozen=True, slots=True)
class Part(Generic[Request, Answer]):
    """An operation of a counterexample."""

    operation: Operation[Request, Answer]
    is_bystander: bool
    is_lost: bool = False
    """Its answer is right, and it leaves the state as it is."""


class Shrinker(Generic[State, Request, Answer]):
    """Makes a counterexample small without making it a lie.

    Leaving out a write would turn an honest read of it into an impossible one. So operations first become
    bystanders, if the others still can't be explained: whatever the answers, and whether or not they had an
    effect, which only allows more. Then those bystanders go that no answer needs. Each of the two ends
    where it is when `configurations_max` were visited.
    """

    def __init__(self, model: Model[State, Request, Answer], *, configurations_max: int = 1_000_000) -> None:
        self._model = model
        self._configurations_max = self._left = configurations_max

    def smallest(self, operations: Iterable[Operation[Request, Answer]]) -> list[Part[Request, Answer]]:
        """`operations` are in the order of their invocation, and not linearizable."""
        history = self._without_answers([Part(each, False) for each in operations])
        self._left = self._configurations_max
        return self._without_the_needless(history)

    def _without_answers(self, history: list[Part[Request, Answer]]) -> list[Part[Request, Answer]]:
        size = len(history)
        while size:
            for start in range(0, len(history), size):
                end = start + size
                chunk = [Part(part.operation, part.operation.has_returned) for part in history[start:end]]
                relaxed = [*history[:start], *chunk, *history[end:]]
                if relaxed != history and self._verdict(relaxed) is Verdict.NOT_LINEARIZABLE:
                    history = relaxed
            size //= 2
        return history

    def _without_the_needless(self, history: list[Part[Request, Answer]]) -> list[Part[Request, Answer]]:
        explained = [
            part
            for part in history
            if _matters(part) and self._alone(part, history) is not Verdict.NOT_LINEARIZABLE
        ]
        size = len(history)
        while size:
            start = 0
            while start < len(history):
                chunk = [part for part in history[start : start + size] if _matters(part)]
                fewer = [*history[:start], *chunk, *history[start + size :]]
                if len(fewer) < len(history) and all(
                    self._alone(part, fewer) is Verdict.LINEARIZABLE for part in explained
                ):
                    history = fewer
                    start += len(chunk)
                else:
                    start += size
            size //= 2
        return history

    def _verdict(self, history: Sequence[Part[Request, Answer]]) -> Verdict:
        if self._left <= 0:
            return Verdict.UNDECIDED
        search = Search(
            self._model,
            [part.operation for part in history],
            bystanders={number for number, part in enumerate(history) if part.is_bystander},
            configurations_max=self._left,
        )
        verdict = search.run()
        self._left -= search.configurations
        return verdict

    def _alone(self, one: Part[Request, Answer], history: Sequence[Part[Request, Answer]]) -> Verdict:
        """Return whether its answer could be right if nothing were known of the others."""
        until = one.operation.returned_at
        return self._verdict(
            [
                part if part is one else Part(part.operation, part.operation.has_returned)
                for part in history
                if part.operation.invoked_at <= until
            ]
        )


def _matters(part: Part[Request, Answer]) -> bool:
    return part.operation.has_returned and not part.is_bystander


_ANOMALY_CONFIGURATIONS: Final = 100_000
"""The configurations visited for one question about the kind of an anomaly."""


def _find_anomaly(
    model: Model[State, Request, Answer],
    history: Sequence[Operation[Request, Answer]],
    prefix: Sequence[Operation[Request, Answer]],
) -> tuple[Anomaly | None, Operation[Request, Answer] | None]:
    """Return what would explain all answers of the history, if its reads may be stale; otherwise those of the
    prefix that has no explanation. The second: the operation that it is about."""

    def explains(parts: Iterable[Part[Request, Answer]]) -> bool:
        ordered = sorted(parts, key=lambda part: part.operation.invoked_at)
        search = Search(
            model,
            [part.operation for part in ordered],
            bystanders={number for number, part in enumerate(ordered) if part.is_bystander},
            lost={number for number, part in enumerate(ordered) if part.is_lost},
            configurations_max=_ANOMALY_CONFIGURATIONS,
        )
        return search.run() is Verdict.LINEARIZABLE

    if explains(Part(each, False) for each in _stale(model, history)):
        return Anomaly.STALE_READ, None
    whole = [Part(each, False) for each in prefix]
    # The last ones first: what came before them has an explanation.
    writes = [part for part in reversed(whole) if not model.is_read(part.operation.request)]
    again = [Part(replace(write.operation, answer=UNKNOWN, returned_at=math.inf), False) for write in writes]
    for write, once_more in zip(writes, again, strict=True):
        if explains([*whole, once_more]):
            return Anomaly.APPLIED_TWICE, write.operation
    if explains([*whole, *again]):
        return Anomaly.APPLIED_TWICE, None
    for write in filter(_matters, writes):
        lost = replace(write, is_lost=True)
        if explains([*(part for part in whole if part is not write), lost]):
            return Anomaly.LOST_UPDATE, write.operation
    return None, None


def _stale(
    model: Model[State, Request, Answer], history: Sequence[Operation[Request, Answer]]
) -> Iterator[Operation[Request, Answer]]:
    """Return the history as if all reads had begun with it."""
    begin = min(operation.invoked_at for operation in history)
    return (
        replace(operation, invoked_at=begin) if model.is_read(operation.request) else operation
        for operation in history
    )
