"""The outcome of an operation: records to append, and the answer to give after their commit."""

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from quorate.broker.controller.operations.belongings import Belongings
from quorate.broker.metadata import Record

R = TypeVar("R")

Groups: TypeAlias = tuple[tuple[Record, ...], ...]
"""Records in order, each group atomic: committed whole or not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """A broker leaves every ISR, and ELRs where it may lack records. It may concern a million partitions."""

    broker_id: int
    broker_epoch: int
    """Of the incarnation that leaves."""
    has: Belongings | None
    """What it registers again with; None: nothing, and it leaves every ELR."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[R]):
    """`groups` in order, each atomic: committed whole or not at all. Different groups may end up in different
    batches, so whatever stands between two of them must be a state to live with."""

    response: R
    groups: Groups = ()
    first: Departure | None = None
    """What has to be done, after `groups`, before the operation can be decided; until then there is no
    answer, and `response` means nothing."""

    @property
    def records(self) -> tuple[Record, ...]:
        return tuple(record for group in self.groups for record in group)
