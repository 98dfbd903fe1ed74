"""A model to explore: its states, the actions in each, and the words for both."""

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

import trio

State: TypeAlias = tuple[int, ...]
"""Numbers, which are names for things that are kept once, in tables."""
K = TypeVar("K")
T = TypeVar("T")
Action = TypeVar("Action")
ActionIn = TypeVar("ActionIn", contravariant=True)


class Memo(dict[K, T]):
    """Computes the value of a key once, when it is first asked for."""

    __slots__ = ("_compute",)

    def __init__(self, compute: Callable[[K], T]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, key: K) -> T:
        value = self[key] = self._compute(key)
        return value


class Table(Generic[T]):
    """Equal things, by `identity`, have one number, counted from 0."""

    __slots__ = ("_identity", "_numbers", "_things")

    def __init__(self, identity: Callable[[T], Hashable] = lambda thing: thing) -> None:
        self._identity = identity
        self._numbers: dict[Hashable, int] = {}
        self._things: list[T] = []

    def number(self, thing: T) -> int:
        key = self._identity(thing)
        number = self._numbers.get(key)
        if number is None:
            number = len(self._things)
            self._numbers[key] = number
            self._things.append(thing)
        return number

    def mapped(self, change: Callable[[T], T]) -> Memo[int, int]:
        """Return, for each thing's number, the number of the thing that `change` makes of it."""
        return Memo(lambda number: self.number(change(self[number])))

    def __getitem__(self, number: int) -> T:
        return self._things[number]

    def __len__(self) -> int:
        return len(self._things)


def counts_of(kinds: type[enum.IntEnum], limits: Mapping[str, int]) -> tuple[int, ...]:
    """Return how often actions of each kind may happen on the way to any state: as `limits` says by the
    kind's name in lower case, and never if it says nothing. Raises `KeyError` for any other name."""
    given = {kinds[name.upper()]: limit for name, limit in limits.items()}
    return tuple(given.get(kind, 0) for kind in kinds)


class Broken(Exception, Generic[Action]):
    """An action from a state breaks an invariant."""

    def __init__(self, action: Action, invariant: str) -> None:
        super().__init__(invariant)
        self.action = action
        self.invariant = invariant


class Symmetry(Protocol[ActionIn]):
    """Renamings of states: one state stands for its namesakes."""

    def least(self, state: State) -> State:
        """Return the one that stands for this state and its namesakes."""
        ...

    def namesakes(self, state: State) -> set[State]:
        """Return the state's namesakes, itself among them."""
        ...

    def keeps(self, state: State, action: ActionIn) -> bool:
        """Return whether this step is alike under all renamings."""
        ...


class Model(ABC, Generic[Action]):
    """A transition system within a bound. Its methods are called in a run of trio with `clock`."""

    clock: trio.abc.Clock | None = None
    """None: steps don't look at the time."""
    cut = 0
    """The number of transitions that led out of bounds."""

    @property
    @abstractmethod
    def steps_max(self) -> int | None:
        """Return the bound of the steps from the initial state; None is no bound."""

    @abstractmethod
    def begin(self) -> State:
        """Return the initial state. Raises `Broken`."""

    @abstractmethod
    async def next_states(self, state: State) -> Iterable[tuple[Action, State]]:
        """Return every state that one action can lead to, some more than once. Raises `Broken`, also while
        the result is iterated over."""

    def symmetry(self, beginning: State) -> Symmetry[Action] | None:
        """Return the renamings that leave `beginning` as it is; None if there is none."""
        return None

    def violations_of_all(self) -> Iterator[tuple[str, Action, Callable[[State], bool]]]:
        """Yield the violations that show only when all states are known: the invariant, an action that breaks
        it, and a function that returns whether it does in a state."""
        yield from ()

    # --- in words ---

    @property
    def beginning(self) -> str:
        """Return the name of the initial state."""
        return "the initial state"

    @abstractmethod
    def describe(self, action: Action) -> str:
        """Describe an action. The text tells it from any other in the same state."""

    @abstractmethod
    def describe_state(self, state: State) -> Iterator[str]:
        """Yield a line for each part of a state."""

    @abstractmethod
    def describe_step(self, before: State, action: Action, after: State) -> Iterator[str]:
        """Yield a line for each part that the action changed."""


@dataclass(frozen=True, slots=True)
class Violation(Generic[Action]):
    """A broken invariant, and a shortest path to it."""

    invariant: str
    path: tuple[tuple[State, Action], ...]
    """Each state from the initial one on, and the action in it. Empty if the initial state breaks it."""
