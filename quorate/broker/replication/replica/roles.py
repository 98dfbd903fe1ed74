"""The state of a replica in one leader epoch, as leader or as follower. It dies with the epoch.

A leader's state has the ISR, committed and proposed, and its view of each follower from its fetches. All of
it is pure: offsets and times come in, decisions go out.
"""

import math
from dataclasses import dataclass
from typing import Final

from quorate.broker.metadata.metadata_records import LeaderRecoveryState
from quorate.broker.metadata.states import PartitionState
from quorate.broker.replication.foundation.current_metadata import Eligible
from quorate.invariant import invariant, ordered
from quorate.types import UNKNOWN_OFFSET, Epoch, Offset

_UNKNOWN_BROKER_EPOCH: Final = -1


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


class IsrState:
    """The ISR of a partition: the committed one, a pending change, and the members of both
    (docs/reference/kraft-rules.md#maximal-isr)."""

    __slots__ = ("committed", "elr", "maximal", "partition_epoch", "pending", "recovery")

    def __init__(self, state: PartitionState) -> None:
        self.commit_state(state)

    def commit_state(self, state: PartitionState) -> None:
        """Take in a committed state."""
        self.commit(
            state.isr,
            elr=state.elr,
            partition_epoch=state.partition_epoch,
            recovery=state.leader_recovery_state,
        )

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
        """Note that the controller refused the pending change; `proposal` asks for the committed ISR instead.
        An earlier try that was never answered may still arrive and be granted. So the replica that was to be
        added binds until the answer, whose epoch rules that out."""
        self.pending = proposal


class FetchClock:
    """The time of the last fetch of a follower's session, for all partitions that its requests do not
    name."""

    __slots__ = ("fetched_at",)

    def __init__(self, now: float) -> None:
        self.fetched_at = now


class RemoteReplica:
    """A leader's view of one follower, from its fetches. Times are `trio.current_time()`, in seconds. Offsets
    are `UNKNOWN_OFFSET` until the follower has fetched in this leader epoch."""

    __slots__ = (
        "_clock",
        "_heard_at",
        "_last_fetch_at",
        "_leader_end_at_last_fetch",
        "broker_epoch",
        "broker_id",
        "last_caught_up_at",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: int, *, in_sync: bool, now: float) -> None:
        self.broker_id = broker_id
        self.broker_epoch = -1
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.last_caught_up_at = now if in_sync else -math.inf
        """A member of the ISR is given the whole lag time to come for the first time."""
        self._heard_at = now
        self._clock: FetchClock | None = None
        self._last_fetch_at = -math.inf
        self._leader_end_at_last_fetch: float = math.inf

    @property
    def heard_at(self) -> float:
        """The time of its last fetch, or the time from which it could fetch."""
        return self._heard_at if self._clock is None else max(self._heard_at, self._clock.fetched_at)

    def fetched(
        self,
        offset: Offset,
        *,
        log_start_offset: Offset,
        leader_end_offset: Offset,
        broker_epoch: int,
        now: float,
        clock: FetchClock | None = None,
    ) -> None:
        """The follower asked for `offset`, so everything below is in its log. `clock`: its session, whose
        further fetches ask for the same offset without naming it.

        Caught up: now, if it asks at the leader's end; or when it fetched last, if it asks for what was
        the end then: a follower of a partition that is always written to is never quite at its end.
        """
        if offset >= leader_end_offset:
            self.last_caught_up_at = max(self.last_caught_up_at, now)
        elif offset >= self._leader_end_at_last_fetch:
            self.last_caught_up_at = max(self.last_caught_up_at, self._last_fetch_at)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self._leader_end_at_last_fetch = leader_end_offset
        self._last_fetch_at = self._heard_at = now
        self._clock = clock

    def leader_appends(self, end_offset: Offset) -> None:
        """The leader's log is about to grow from `end_offset`: a session's fetches until now were at its
        end, those from now on are not."""
        if self._clock is not None and self.log_end_offset >= end_offset:
            self.last_caught_up_at = max(self.last_caught_up_at, self._clock.fetched_at)
            self._leader_end_at_last_fetch = end_offset
            self._last_fetch_at = max(self._last_fetch_at, self._clock.fetched_at)

    def leave_session(self, clock: FetchClock | None, *, leader_end_offset: Offset) -> None:
        """The session with `clock`, or whichever it is in, does not fetch this partition any more."""
        if self._clock is not None and clock in (None, self._clock):
            self.leader_appends(leader_end_offset)
            self._heard_at = self.heard_at
            self._clock = None

    def caught_up(self, *, leader_end_offset: Offset, now: float, lag_s: float) -> bool:
        """Return whether it belongs in the ISR by time. An idle partition's follower always does
        (KAFKA-7152)."""
        return self.log_end_offset == leader_end_offset or now - self.last_caught_up_at <= lag_s


class LeaderState:
    """The state of a replica that leads its partition in one leader epoch. `epoch_start_offset` is the log's
    end when it began: a replica that joins the ISR must have everything below it (KAFKA-7128)."""

    __slots__ = (
        "_known_from",
        "_known_to",
        "_lag_s",
        "_original",
        "broker_id",
        "epoch_start_offset",
        "isr",
        "leader_epoch",
        "remotes",
        "replicas",
    )

    def __init__(
        self,
        broker_id: int,
        state: PartitionState,
        *,
        epoch_start_offset: Offset,
        now: float,
        lag_s: float,
    ) -> None:
        self._lag_s = lag_s
        self.broker_id = broker_id
        self.leader_epoch = state.leader_epoch
        self.epoch_start_offset = epoch_start_offset
        self.replicas = state.replicas
        self._original = len(state.original_replicas)
        self.isr = IsrState(state)
        self.remotes = {
            each: RemoteReplica(each, in_sync=each in state.isr, now=now)
            for each in state.replicas
            if each != broker_id
        }
        self._known_to = state.partition_epoch
        """Metadata has arrived here up to this partition epoch."""
        self._known_from = state.partition_epoch
        """Metadata from this partition epoch on knows which replicas were refused, and why."""

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
            self.isr.commit_state(state)
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

    def high_watermark(
        self, *, log_end_offset: Offset, min_isr: int, now: float, eligible: Eligible
    ) -> Offset | None:
        """Return the end of the exposed records: the least log end of the maximal ISR and of those about to
        join it. It is UNKNOWN_OFFSET, below any other, while a member has not fetched in this epoch; None
        while the ISR is too small (KAFKA-15583)."""
        if self.under_min_isr(min_isr):
            return None
        least = log_end_offset
        for remote in self.remotes.values():
            end = remote.log_end_offset
            if end < least and (
                remote.broker_id in self.isr.maximal
                or self._about_to_join(remote, log_end_offset, now, eligible)
            ):
                least = end
        return least

    def low_watermark(self, *, durable_log_start_offset: Offset, eligible: Eligible) -> Offset:
        """Return the least durable log start of this leader and of the followers that may lead next: those
        that are live, in the ISR, or eligible leader replicas. Kafka asks the live ones alone, so that a
        member of the ELR could bring deleted records back. -1 while one has not fetched in this epoch."""
        least = durable_log_start_offset
        for remote in self.remotes.values():
            if remote.log_start_offset < least and (
                remote.broker_id in self.isr.maximal
                or remote.broker_id in self.isr.elr
                or eligible(remote.broker_id, _UNKNOWN_BROKER_EPOCH)
            ):
                least = remote.log_start_offset
        return least

    def unheard_by_others(self, *, now: float, after_s: float) -> bool:
        """Return whether other members exist and none has fetched for `after_s`, so that nothing can be
        committed."""
        others = [remote for remote in self.remotes.values() if remote.broker_id in self.isr.maximal]
        return bool(others) and all(now - remote.heard_at >= after_s for remote in others)

    def _about_to_join(
        self, remote: RemoteReplica, log_end_offset: Offset, now: float, eligible: Eligible
    ) -> bool:
        # Otherwise a follower that is right behind might never find itself above a running high watermark.
        return (
            remote.log_end_offset >= 0
            and remote.caught_up(leader_end_offset=log_end_offset, now=now, lag_s=self._lag_s)
            and eligible(remote.broker_id, remote.broker_epoch)
        )

    def validate(self, *, log_end_offset: Offset) -> None:
        """Raise InvariantError unless the ISR is among the replicas and has the leader, the maximal ISR has
        it, the eligible replicas are outside of it, and no follower is further than the log."""
        committed, replicas = set(self.isr.committed), set(self.replicas)
        shown = {"isr": self.isr.committed, "replicas": self.replicas}
        invariant(committed <= replicas, "the ISR is not among the replicas", **shown)
        invariant(self.broker_id in committed, "the leader is not in the ISR", leader=self.broker_id, **shown)
        invariant(
            committed <= self.isr.maximal, "the maximal ISR lacks a member", maximal=self.isr.maximal, **shown
        )
        invariant(
            not committed & set(self.isr.elr), "an eligible replica is in the ISR", elr=self.isr.elr, **shown
        )
        invariant(
            self.remotes.keys() == replicas - {self.broker_id},
            "the followers are not the other replicas",
            followers=tuple(self.remotes),
            **shown,
        )
        for remote in self.remotes.values():
            ordered(follower_end=remote.log_end_offset, log_end=log_end_offset)
        ordered(epoch_start=self.epoch_start_offset, log_end=log_end_offset)

    # Changes of the ISR

    def propose_recovered(self) -> IsrProposal | None:
        """An uncleanly elected leader says first that it has recovered; only then may others join."""
        if self.isr.pending is not None or self.isr.recovery is LeaderRecoveryState.RECOVERED:
            return None
        return self._propose(self.isr.committed)

    def propose_expand(
        self, remote: RemoteReplica, *, high_watermark: Offset, eligible: Eligible
    ) -> IsrProposal | None:
        """Return the proposal that adds `remote`, which has just fetched, if it may join."""
        if (
            self.isr.pending is not None
            or self._known_to < self._known_from
            or self.isr.recovery is not LeaderRecoveryState.RECOVERED
            or remote.broker_id in self.isr.maximal
            or remote.log_end_offset < high_watermark
            or remote.log_end_offset < self.epoch_start_offset
            or not eligible(remote.broker_id, remote.broker_epoch)
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

    def propose_shrink(self, *, log_end_offset: Offset, now: float) -> IsrProposal | None:
        """Leave out the members that have been behind for longer than the lag time."""
        if self.isr.pending is not None:
            return None
        kept = tuple(each for each in self.isr.committed if self._in_sync(each, log_end_offset, now))
        return None if kept == self.isr.committed else self._propose(kept)

    def _in_sync(self, broker_id: int, log_end_offset: Offset, now: float) -> bool:
        remote = self.remotes.get(broker_id)
        return remote is None or remote.caught_up(
            leader_end_offset=log_end_offset, now=now, lag_s=self._lag_s
        )

    def _propose(self, isr: tuple[int, ...], broker_epochs: tuple[tuple[int, int], ...] = ()) -> IsrProposal:
        # The controller refuses the rest. A leader that left itself out would go on committing alone.
        invariant(self.broker_id in isr, "a leader proposes an ISR without itself", isr=isr)
        proposal = IsrProposal(
            leader_epoch=self.leader_epoch,
            partition_epoch=self.isr.partition_epoch,
            isr=isr,
            broker_epochs=broker_epochs,
        )
        self.isr.propose(proposal)
        return proposal


class FollowerState:
    """The state of a replica that follows a leader in one leader epoch. An answer from a leader counts only
    for the very object that the request was made for: after any change of leader or epoch there is another
    one (KAFKA-13207)."""

    __slots__ = ("in_isr", "leader", "leader_epoch", "partition_epoch")

    def __init__(self, broker_id: int, state: PartitionState) -> None:
        self.leader = state.leader
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.in_isr = broker_id in state.isr

    def update(self, broker_id: int, state: PartitionState) -> bool:
        """Apply a committed change within this epoch. Return False if it is older than the known state, or
        the same."""
        if state.partition_epoch <= self.partition_epoch:
            return False
        self.partition_epoch = state.partition_epoch
        self.in_isr = broker_id in state.isr
        return True
