"""What an operation decided: records to append and the answer to give once they are committed."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from quorate.broker.controller.records import Record

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[R]):
    """`groups` in order, each atomic: committed whole or not at all. Different groups may end up in different
    batches, so whatever stands between two of them must be a state to live with."""

    response: R
    groups: tuple[tuple[Record, ...], ...] = ()

    @property
    def records(self) -> tuple[Record, ...]:
        return tuple(record for group in self.groups for record in group)
