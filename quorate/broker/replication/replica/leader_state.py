"""The state of a replica that leads its partition in one leader epoch. Dies with the epoch.

Pure: offsets and times come in, decisions go out.
"""

from collections.abc import Callable
from typing import TypeAlias

from quorate.broker.metadata import LeaderRecoveryState, PartitionState
from quorate.broker.replication.replica.isr import IsrProposal, IsrState
from quorate.broker.replication.replica.remote_replica import RemoteReplica
from quorate.types import Offset
from quorate.value import value

Eligible: TypeAlias = Callable[[int, int], bool]
"""(broker id, broker epoch in its fetches, -1 unknown): may it join an ISR? Registered, unfenced, not
shutting down, its directory online, and the same incarnation that fetches."""


@value(frozen=True, slots=True, kw_only=True)
class LagRule:
    """The time rule by which a follower counts as caught up."""

    now: float
    lag_s: float
    eligible: Eligible


class LeaderState:
    """One leader epoch. `epoch_start_offset` is the log's end when it began: whoever joins the ISR must have
    everything below it (KAFKA-7128)."""

    __slots__ = (
        "_known_from",
        "_known_to",
        "_original",
        "broker_id",
        "epoch_start_offset",
        "isr",
        "leader_epoch",
        "remotes",
        "replicas",
    )

    def __init__(
        self, broker_id: int, state: PartitionState, *, epoch_start_offset: Offset, now: float
    ) -> None:
        self.broker_id = broker_id
        self.leader_epoch = state.leader_epoch
        self.epoch_start_offset = epoch_start_offset
        self.replicas = state.replicas
        self._original = len(state.original_replicas)
        self.isr = IsrState(
            state.isr,
            elr=state.elr,
            partition_epoch=state.partition_epoch,
            recovery=state.leader_recovery_state,
        )
        self.remotes = {
            each: RemoteReplica(each, in_sync=each in state.isr, now=now)
            for each in state.replicas
            if each != broker_id
        }
        self._known_to = state.partition_epoch
        """Metadata has arrived here up to this partition epoch."""
        self._known_from = state.partition_epoch
        """Metadata from this partition epoch on knows who was refused, and why."""

    def update(self, state: PartitionState, *, now: float) -> bool:
        """Apply a committed change of ISR or replicas within this epoch. Return False if it is older than the
        known state. Positions of followers stay as they are (KAFKA-13790)."""
        self._known_to = max(self._known_to, state.partition_epoch)
        if state.partition_epoch < self.isr.partition_epoch:
            return False
        self.replicas = state.replicas
        self._original = len(state.original_replicas)
        if state.partition_epoch > self.isr.partition_epoch:
            # The same epoch leaves a pending change pending: it may still be granted.
            self.isr.commit(
                state.isr,
                elr=state.elr,
                partition_epoch=state.partition_epoch,
                recovery=state.leader_recovery_state,
            )
        self.remotes = {
            each: self.remotes.get(each) or RemoteReplica(each, in_sync=each in state.isr, now=now)
            for each in state.replicas
            if each != self.broker_id
        }
        return True

    def about_to_append(self, end_offset: Offset) -> None:
        """The log is about to grow from `end_offset`."""
        for remote in self.remotes.values():
            remote.leader_appends(end_offset)

    def effective_min_isr(self, min_isr: int) -> int:
        """Return `min_isr`, but no more than there are replicas (KAFKA-15583), without those that a
        reassignment adds: while they copy, the others serve as before."""
        return min(min_isr, self._original)

    def under_min_isr(self, min_isr: int) -> bool:
        """Return whether the ISR is too small. True as well while eligible leader replicas exist: the
        controller may have decided by another min.insync.replicas than ours."""
        return bool(self.isr.elr) or len(self.isr.committed) < self.effective_min_isr(min_isr)

    def high_watermark(self, *, log_end_offset: Offset, min_isr: int, rule: LagRule) -> Offset | None:
        """Return the end of the exposed records: the least log end of the maximal ISR and of those about to
        join it. It is UNKNOWN_OFFSET, below any other, while a member has not fetched in this epoch; None
        while the ISR is too small (KAFKA-15583)."""
        if self.under_min_isr(min_isr):
            return None
        least = log_end_offset
        for remote in self.remotes.values():
            end = remote.log_end_offset
            if end < least and (
                remote.broker_id in self.isr.maximal or self._about_to_join(remote, log_end_offset, rule)
            ):
                least = end
        return least

    def unheard_by_others(self, *, now: float, after_s: float) -> bool:
        """Return whether other members exist and none has fetched for `after_s`, so that nothing can be
        committed."""
        others = [remote for remote in self.remotes.values() if remote.broker_id in self.isr.maximal]
        return bool(others) and all(now - remote.heard_at >= after_s for remote in others)

    def _about_to_join(self, remote: RemoteReplica, log_end_offset: Offset, rule: LagRule) -> bool:
        # Otherwise a follower that is right behind might never find itself above a running high watermark.
        return (
            remote.log_end_offset >= 0
            and remote.caught_up(leader_end_offset=log_end_offset, now=rule.now, lag_s=rule.lag_s)
            and rule.eligible(remote.broker_id, remote.broker_epoch)
        )

    # Changes of the ISR

    def propose_recovered(self) -> IsrProposal | None:
        """An uncleanly elected leader says first that it has recovered; only then may others join."""
        if self.isr.pending is not None or self.isr.recovery is LeaderRecoveryState.RECOVERED:
            return None
        return self._propose(self.isr.committed)

    def propose_expand(
        self, remote: RemoteReplica, *, high_watermark: Offset, rule: LagRule
    ) -> IsrProposal | None:
        """Return the proposal that adds `remote`, which has just fetched, if it may join."""
        if (
            self.isr.pending is not None
            or self._known_to < self._known_from
            or self.isr.recovery is not LeaderRecoveryState.RECOVERED
            or remote.broker_id in self.isr.maximal
            or remote.log_end_offset < high_watermark
            or remote.log_end_offset < self.epoch_start_offset
            or not rule.eligible(remote.broker_id, remote.broker_epoch)
        ):
            return None
        return self._propose(
            (*self.isr.committed, remote.broker_id), ((remote.broker_id, remote.broker_epoch),)
        )

    def take_back(self) -> IsrProposal | None:
        """Ask for the committed ISR after a refusal, until that is granted."""
        refused = self.isr.pending
        if refused is None:
            return None
        # With that record metadata has everything that the controller judged by.
        self._known_from = self.isr.partition_epoch + 1
        proposal = IsrProposal(
            leader_epoch=self.leader_epoch,
            partition_epoch=self.isr.partition_epoch,
            isr=self.isr.committed,
            recovery=self.isr.recovery,
        )
        self.isr.take_back(proposal)
        return proposal

    def is_reached(self, log_end_offset: Offset) -> bool:
        """Return whether every follower has fetched up to the log's end."""
        return all(remote.log_end_offset == log_end_offset for remote in self.remotes.values())

    def propose_shrink(self, *, log_end_offset: Offset, rule: LagRule) -> IsrProposal | None:
        """Leave out the members that have been behind for longer than the lag time."""
        if self.isr.pending is not None:
            return None
        kept = tuple(each for each in self.isr.committed if self._in_sync(each, log_end_offset, rule))
        return None if kept == self.isr.committed else self._propose(kept)

    def _in_sync(self, broker_id: int, log_end_offset: Offset, rule: LagRule) -> bool:
        remote = self.remotes.get(broker_id)
        return remote is None or remote.caught_up(
            leader_end_offset=log_end_offset, now=rule.now, lag_s=rule.lag_s
        )

    def _propose(self, isr: tuple[int, ...], broker_epochs: tuple[tuple[int, int], ...] = ()) -> IsrProposal:
        proposal = IsrProposal(
            leader_epoch=self.leader_epoch,
            partition_epoch=self.isr.partition_epoch,
            isr=isr,
            broker_epochs=broker_epochs,
        )
        self.isr.propose(proposal)
        return proposal
