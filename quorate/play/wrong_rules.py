"""Wrong rules, to show what the right one is for. Each is the core with one rule of the protocol broken.

None can be reached from a node: only the world of teaching mode takes another core than `Core`, and only it
may be imported by the command (the layers in `pyproject.toml`).
"""

from dataclasses import dataclass, replace
from typing import Final

from quorate.raft.core import (
    Core,
    Durable,
    Effect,
    Event,
    FetchRequest,
    NodeState,
    Persist,
    ReadIndex,
    ReadIndexConfirmed,
    Received,
    VoterChange,
)
from quorate.raft.core.roles.leader import Leader
from quorate.raft.core.roles.voter_changes import Refused, VoterChanges
from quorate.types import Offset


class CommitsOldEpochs(Core):
    """Counts replicas for records of earlier epochs too."""

    __slots__ = ()

    def step(self, event: Event) -> tuple[Effect, ...]:
        if isinstance(self._roles.role, Leader):
            self._roles.role.epoch_start_offset = Offset(-1)
        return super().step(event)


class ForgetsItsVote(Core):
    """Keeps its vote in memory only."""

    __slots__ = ()

    def step(self, event: Event) -> tuple[Effect, ...]:
        return tuple(
            Persist(replace(effect.state, voted=None)) if isinstance(effect, Persist) else effect
            for effect in super().step(event)
        )


class AcknowledgesBeforeDurable(Core):
    """Takes an append for durable as soon as it is written."""

    __slots__ = ()

    def step(self, event: Event) -> tuple[Effect, ...]:
        effects = super().step(event)
        if self.durable_end_offset < self.log_end_offset:
            effects += super().step(Durable(self.generation, self.log_end_offset))
        return effects


class CountsDivergingLogs(Core):
    """Counts the offset at which a follower fetches, before it looks whether the log below it is the same."""

    __slots__ = ()

    def step(self, event: Event) -> tuple[Effect, ...]:
        role = self._roles.role
        if isinstance(role, Leader) and isinstance(event, Received):
            request = event.message
            if isinstance(request, FetchRequest) and request.epoch == self.epoch:
                role._replicas.voter_end_offsets[request.source] = request.offset
                role._advance_high_watermark(self._node)
        return super().step(event)


class ReadsWithoutAsking(Core):
    """Answers reads from its own state, because it believes that it leads."""

    __slots__ = ()

    def step(self, event: Event) -> tuple[Effect, ...]:
        if isinstance(event, ReadIndex) and isinstance(self._roles.role, Leader):
            return (ReadIndexConfirmed(event.read_round, self.high_watermark or Offset(0)),)
        return super().step(event)


class _EarlyChanges(VoterChanges):
    """Takes everything in the log for committed."""

    __slots__ = ()

    def _refusal_now(
        self, node: NodeState, change: VoterChange, *, high_watermark: Offset | None
    ) -> Refused | None:
        return super()._refusal_now(node, change, high_watermark=node.log.end_offset)


class ChangesVotersEarly(Core):
    """Changes the voters before it has committed anything in its epoch."""

    __slots__ = ()

    def step(self, event: Event) -> tuple[Effect, ...]:
        role = self._roles.role
        if isinstance(role, Leader) and type(role._changes) is VoterChanges:
            early = _EarlyChanges()
            early._pending = role._changes._pending
            role._changes = early
        return super().step(event)


@dataclass(frozen=True, slots=True)
class WrongRule:
    name: str
    core: type[Core]
    wrong: str
    """What it does."""
    right: str
    """What the core does."""


WRONG_RULES: Final = {
    each.name: each
    for each in (
        WrongRule(
            "commits-old-epochs",
            CommitsOldEpochs,
            "A leader commits a record of an earlier epoch as soon as a majority has it.",
            "A leader commits records of earlier epochs only together with one of its own.",
        ),
        WrongRule(
            "forgets-its-vote",
            ForgetsItsVote,
            "A vote is kept in memory and not on the disk.",
            "A vote is durable before it is said.",
        ),
        WrongRule(
            "acknowledges-before-durable",
            AcknowledgesBeforeDurable,
            "A node acknowledges what it has written, before the disk has it.",
            "A node acknowledges only what is durable.",
        ),
        WrongRule(
            "counts-diverging-logs",
            CountsDivergingLogs,
            "A leader counts the end of a follower's log, whatever is in it.",
            "A leader counts a follower only as far as their logs are known to be equal.",
        ),
        WrongRule(
            "reads-without-asking",
            ReadsWithoutAsking,
            "A leader answers reads from its own state.",
            "A leader answers a read once a majority has confirmed that it still leads.",
        ),
        WrongRule(
            "changes-voters-early",
            ChangesVotersEarly,
            "A leader changes the voters as soon as it is elected.",
            "A leader changes the voters only when it has committed a record of its own epoch.",
        ),
    )
}
