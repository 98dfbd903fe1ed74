"""The core's smallest driver: log, state, timers and network in memory, and nothing that waits.

The manual is the docstring of `quorate.raft.core`. Comments name its paragraphs. Run by
tests/raft/core/test_minimal_driver.py.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from quorate.raft.core import (
    BatchSpan,
    Core,
    CoreConfig,
    Durable,
    Effect,
    Event,
    Message,
    Propose,
    Received,
    Request,
    RequestFailed,
    SendRecords,
    Timer,
    TimerFired,
)
from quorate.raft.core import effects as fx
from quorate.types import ElectionState, Epoch, EpochStart, NodeId, Offset, RecoveredLog, ReplicaKey, VoterSet


class MinimalDriver:
    """One node. What it keeps over `restart` is its disk: `election` and `log`, one record a batch."""

    def __init__(self, node: NodeId, voters: VoterSet, network: deque[Message]) -> None:
        self.node, self.voters, self.network = node, voters, network
        self.election = ElectionState(Epoch(0))
        self.log: list[tuple[Epoch, bytes]] = []
        self.restart()

    def restart(self) -> None:
        # "Construction" and "Restart": all that is not on the disk begins anew.
        self.timers: dict[Timer, int] = {}
        self.proposals: dict[int, list[bytes]] = {}
        self.high_watermark = Offset(0)
        epochs = [epoch for epoch, _ in self.log]
        starts = (EpochStart(epoch, Offset(epochs.index(epoch))) for epoch in dict.fromkeys(epochs))
        self.core = Core(
            config=CoreConfig(),
            cluster_id="minimal",
            key=ReplicaKey(self.node),
            endpoint=None,
            voters=self.voters,
            election=self.election,
            log=RecoveredLog(epochs=tuple(starts), end_offset=Offset(len(self.log))),
        )
        self.carry_out(self.core.start())

    def step(self, event: Event) -> None:
        self.carry_out(self.core.step(event))

    def propose(self, proposal: int, values: list[bytes]) -> None:
        self.proposals[proposal] = values
        self.step(Propose(proposal, len(values)))

    def fire(self, timer: Timer) -> None:
        del self.timers[timer]
        self.step(TimerFired(timer))

    def carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:  # "Order": one after another, and a barrier is complete when `do` returns
            self.do(effect)
        if self.core.durable_end_offset < len(self.log):  # "The log": memory is as durable as it gets
            self.step(Durable(self.core.generation, Offset(len(self.log))))

    def do(self, effect: Effect) -> None:
        match effect:
            case fx.Persist(state):  # "Stored state"
                self.election = state
            case fx.AppendLeaderChange():  # "The log"
                self.log.append((effect.epoch, b""))
            case fx.AppendProposal():
                self.log += [(effect.epoch, value) for value in self.proposals.pop(effect.proposal)]
            case fx.AppendFetched(_, batches, records):
                values = bytes(records).split(b"\n")
                self.log += [(batch.epoch, value) for batch, value in zip(batches, values, strict=True)]
            case fx.RejectProposal():
                del self.proposals[effect.proposal]
            case fx.Truncate():
                del self.log[effect.end_offset :]
            case fx.Send(message):  # "Messages"
                self.network.append(message)
            case fx.SendRecords():
                self.network.append(self.with_records(effect))
            case fx.ArmTimer(timer):  # "Timers": a test fires them by hand
                self.timers[timer] = effect.max_ms
            case fx.CancelTimer(timer):
                self.timers.pop(timer, None)
            case fx.HighWatermarkAdvanced(high_watermark):  # "The application"
                self.high_watermark = high_watermark
            case fx.RoleChanged():
                pass
            case _:
                raise NotImplementedError(f"no snapshots, voter changes, reads or transfers here: {effect}")

    def with_records(self, effect: SendRecords) -> Message:
        entries = list(enumerate(self.log))[effect.start_offset :]
        spans = tuple(BatchSpan(Offset(offset), Offset(offset + 1), epoch) for offset, (epoch, _) in entries)
        records = b"\n".join(value for _, (_, value) in entries)
        return replace(effect.response, batches=spans, records=records)


def deliver_all(network: deque[Message], nodes: dict[NodeId, MinimalDriver]) -> None:
    """Until nobody has anything more to say. `nodes` are those that are up."""
    while network:
        message = network.popleft()
        if message.destination in nodes:
            nodes[message.destination].step(Received(message))
        elif isinstance(message, Request) and message.source in nodes:
            nodes[message.source].step(RequestFailed(message.destination, message.correlation))
