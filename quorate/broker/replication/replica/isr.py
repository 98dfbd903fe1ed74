"""The in-sync replicas as their leader knows them: committed, and at most one change asked for."""

from dataclasses import dataclass

from quorate.broker.metadata import LeaderRecoveryState
from quorate.types import Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposal:
    """A change that the controller was asked for and that may or may not be committed already."""

    leader_epoch: Epoch
    partition_epoch: int
    """The partition epoch of the state that it changes."""
    isr: tuple[int, ...]
    recovery: LeaderRecoveryState = LeaderRecoveryState.RECOVERED
    broker_epochs: tuple[tuple[int, int], ...] = ()
    """(broker id, epoch in its fetches) of the members to be added."""

    @property
    def added(self) -> tuple[int, ...]:
        return tuple(broker_id for broker_id, _ in self.broker_epochs)


class IsrState:
    """The ISR of a partition: the committed one, a pending change, and the members of both
    (docs/reference/kraft-rules.md#maximal-isr)."""

    __slots__ = ("committed", "elr", "maximal", "partition_epoch", "pending", "recovery")

    def __init__(
        self,
        isr: tuple[int, ...],
        *,
        elr: tuple[int, ...],
        partition_epoch: int,
        recovery: LeaderRecoveryState,
    ) -> None:
        self.commit(isr, elr=elr, partition_epoch=partition_epoch, recovery=recovery)

    def commit(
        self,
        isr: tuple[int, ...],
        *,
        elr: tuple[int, ...],
        partition_epoch: int,
        recovery: LeaderRecoveryState,
    ) -> None:
        """Take in a committed record. A pending change is part of it, or is refused by its epoch."""
        self.committed = isr
        self.elr = elr
        """Eligible leader replicas (KIP-966): the controller may elect them, so nothing that they may lack
        can be committed."""
        self.partition_epoch = partition_epoch
        self.recovery = recovery
        self.pending: IsrProposal | None = None
        self.maximal = frozenset(isr)

    def propose(self, proposal: IsrProposal) -> None:
        self.pending = proposal
        self.maximal = frozenset((*self.committed, *proposal.isr))

    def take_back(self, proposal: IsrProposal) -> None:
        """The controller refused the pending change; `proposal` asks for what is committed instead. An
        earlier try that was never answered may still arrive, and be granted by then: until the answer, whose
        epoch rules that out, whoever was to be added binds."""
        self.pending = proposal
