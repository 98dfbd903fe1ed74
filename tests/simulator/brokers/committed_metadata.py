"""The committed metadata as rules see it: the records that became visible together, and the image."""

from collections.abc import Callable, Sequence

from quorate.broker.metadata import MetadataImage, Record
from quorate.simulation.checkers import Invariant, NodeView, RoleSeen
from quorate.types import Offset
from tests.simulator.brokers.metadata_invariants import MetadataChangesAreLegal

Rule = Callable[[Sequence[Record], MetadataImage], None]
"""Raises `SafetyViolation`, whose text begins with the name of what is violated."""


class CommittedMetadata(Invariant):
    """Comes behind `MetadataChangesAreLegal`, which reads the records. A transaction is visible at its
    end, and never if it is aborted."""

    def __init__(self, legal: MetadataChangesAreLegal, *rules: Rule) -> None:
        self._legal = legal
        self.rules = list(rules)

    @property
    def image(self) -> MetadataImage:
        """The newest, whichever nodes know it."""
        return self._legal.image

    @property
    def in_transaction(self) -> bool:
        """Return whether the newest committed record is within a transaction."""
        return self._legal.in_transaction

    def high_watermark(self, node: NodeView, offset: Offset, role: RoleSeen | None) -> None:
        records = self._legal.take_visible()
        if records:
            for rule in self.rules:
                rule(records, self.image)
