"""The outcome of an operation: records to append, and the answer to give after their commit."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from quorate.broker.controller.operations.directories import Belongings
from quorate.broker.controller.rpc import ControllerResponse
from quorate.broker.metadata.api_error import ApiError
from quorate.broker.metadata.metadata_records import Record
from quorate.error_code import ErrorCode

A = TypeVar("A")
T = TypeVar("T")
R = TypeVar("R", bound=ControllerResponse)

Groups: TypeAlias = tuple[tuple[Record, ...], ...]
"""Records in order, each group atomic: committed whole or not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """A broker leaves every ISR, and ELRs where it may lack records. It may concern a million partitions."""

    broker_id: int
    broker_epoch: int
    """The epoch of the incarnation that leaves."""
    has: Belongings | None
    """The data that the broker registers again with. None: it has none, and leaves every ELR."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[R]):
    """The outcome of an operation. Different groups may end up in different batches, so the state between any
    two of them must be sound."""

    response: R
    groups: Groups = ()
    first: Departure | None = None
    """The work to do, after `groups`, before the operation can be decided. Until then there is no answer, and
    `response` means nothing."""

    @property
    def records(self) -> tuple[Record, ...]:
        return tuple(record for group in self.groups for record in group)


def refusal(response: type[R], error: ErrorCode, message: str) -> Outcome[R]:
    """Return the outcome of an operation that is refused as a whole."""
    return Outcome(response=response(error=error, error_message=message))


def decide_each(
    items: Iterable[T],
    decide: Callable[[T], tuple[Record, ...]],
    answer: Callable[[T, ErrorCode, str | None], A],
) -> tuple[tuple[A, ...], Groups]:
    """Decide about each item by itself. Return the answers, in order, and the records of each item that has
    any as an atomic group. `decide`: the records; it refuses the item with `ApiError`."""
    answers: list[A] = []
    groups: list[tuple[Record, ...]] = []
    for item in items:
        try:
            records = decide(item)
        except ApiError as error:
            answers.append(answer(item, error.code, error.message))
            continue
        answers.append(answer(item, ErrorCode.NONE, None))
        if records:
            groups.append(records)
    return tuple(answers), tuple(groups)
