"""The steps of the active controller, one for each request: the shipped operations and chores, on a copy of
its image.

What is committed is so at once: the core's explorer has the quorum. What an operation leaves to be done
(leave the ISRs, elect, end a reassignment) may be a step of its own, so that anything may come between.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

from quorate.broker.controller.chores import Chore, Chores
from quorate.broker.controller.operations.alter_partition import alter_partition
from quorate.broker.controller.operations.brokers import (
    fence_broker,
    heartbeat,
    register_broker,
    unregister_broker,
)
from quorate.broker.controller.operations.directory_changes import assign_replicas_to_dirs
from quorate.broker.controller.operations.outcome import Departure, Groups
from quorate.broker.controller.operations.reassignments import alter_partition_reassignments
from quorate.broker.controller.rpc import (
    AlterPartitionItem,
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    AlterPartitionResult,
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    DirectoryAssignment,
    ReassignmentItem,
    RegisterBrokerRequest,
    UnregisterBrokerRequest,
)
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import ChangeReason, RegisterBroker
from quorate.broker.metadata.states import PartitionState
from quorate.error_code import ErrorCode
from tests.simulator.explorer.isr_model.explored_images import (
    CLUSTER,
    TOPIC,
    Images,
    partition_of,
    set_config,
)

Call = tuple[str, object]
"""A chore that was begun: its name, and its argument."""
_SIZE = 128
"""Partitions in a piece. There is one."""


class _RecordedChores(Chores):
    """Notes the chores that were begun, to begin them again on another image."""

    def __init__(self, image: MetadataImage, calls: tuple[Call, ...]) -> None:
        super().__init__(image, static={}, size=_SIZE)
        self.calls: dict[Call, None] = {}
        for name, argument in calls:
            match name, argument:
                case "leave", (int(broker_id), bool(lost)):
                    self.leave(broker_id, lost=lost)
                case "depart", Departure():
                    self.depart(argument)
                case "elect", ChangeReason():
                    self.elect(argument)
                case "offline", _:
                    self.offline()
                case "settle", _:
                    self.settle()
                case _:
                    self.end_reassignments()

    def leave(self, broker_id: int, *, lost: bool = False) -> Chore:
        self.calls["leave", (broker_id, lost)] = None
        return super().leave(broker_id, lost=lost)

    def depart(self, departure: Departure) -> Chore:
        self.calls["depart", departure] = None
        return super().depart(departure)

    def offline(self) -> Chore:
        self.calls["offline", None] = None
        return super().offline()

    def elect(self, reason: ChangeReason) -> Chore:
        self.calls["elect", reason] = None
        return super().elect(reason)

    def settle(self) -> Chore:
        self.calls["settle", None] = None
        return super().settle()

    def end_reassignments(self) -> Chore:
        self.calls["end", None] = None
        return super().end_reassignments()


class ControlState(NamedTuple):
    """All that a controller knows."""

    image: int
    calls: tuple[Call, ...] = ()
    """The chores that were begun and not done."""


class CommittedChange(NamedTuple):
    """One committed change of the partition."""

    before: PartitionState
    after: PartitionState


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The outcome of one step of the controller."""

    state: ControlState
    images: tuple[int, ...] = ()
    """After each atomic group of records."""
    committed_changes: tuple[CommittedChange, ...] = ()
    registered: tuple[int, int] | None = None
    """(broker id, broker epoch)"""
    answer: AlterPartitionResult | None = None
    """The answer about an ISR; None also where the whole request was refused."""
    heartbeat: BrokerHeartbeatResponse | None = None
    waits: bool = False
    """The request is decided again when the chores are done."""
    leaves: bool = False
    """The broker of the heartbeat still has to leave an ISR or ELR."""

    @property
    def changes(self) -> bool:
        """Return whether anything came of it."""
        return bool(self.images)


class ControllerSteps:
    """Pure: every method decides from the state that it is given."""

    def __init__(self, images: Images, *, at_once: bool) -> None:
        """`at_once`: the chores of an operation are done in its step, as in a small cluster."""
        self._images = images
        self._at_once = at_once

    def image(self, state: ControlState) -> MetadataImage:
        """Return the newest metadata."""
        return self._images[state.image]

    def _append(self, state: ControlState, groups: Groups, *, departure: Departure | None = None) -> Decision:
        """Commit the groups, and begin the chores that follow."""
        tenure = _Tenure(self._images, state)
        tenure.append(groups)
        if departure is not None:
            tenure.chores.depart(departure)
        if self._at_once:
            tenure.work()
        return tenure.decision()

    # What nobody asks for

    def work(self, state: ControlState) -> Decision:
        """Do the chores that were begun."""
        tenure = _Tenure(self._images, state)
        tenure.work()
        return tenure.decision()

    def take_over(self, state: ControlState) -> Decision:
        """Another controller becomes active. It knows only the chores that the metadata shows."""
        tenure = _Tenure(self._images, ControlState(state.image))
        tenure.chores.repair()
        if self._at_once:
            tenure.work()
        return tenure.decision()

    def fence(self, state: ControlState, broker_id: int) -> Decision:
        """The broker's session runs out, whether it lives or not."""
        groups = fence_broker(
            self.image(state), broker_id, reason=ChangeReason.BROKER_FENCED, last_heard_ms=None
        )
        return self._append(state, groups)

    # Requests of brokers

    def register(
        self,
        state: ControlState,
        request: RegisterBrokerRequest,
        *,
        departed: int | None,
        epoch: int,
        live: bool,
    ) -> Decision:
        """Register a process. `departed`: the broker epoch that has left its ISRs for this request; `epoch`:
        the broker epoch that it gets, if it gets one; `live`: the process that is registered lives."""
        outcome = register_broker(
            self.image(state),
            request,
            cluster_id=CLUSTER,
            live_session=live,
            next_offset=epoch,
            departed=departed,
        )
        decision = self._append(state, outcome.groups, departure=outcome.first)
        if outcome.first is not None:
            return replace(decision, waits=True)
        if outcome.response.error is not ErrorCode.NONE:
            return decision
        return replace(decision, registered=(request.broker_id, outcome.response.broker_epoch))

    def heartbeat(
        self, state: ControlState, request: BrokerHeartbeatRequest, *, caught_up: bool, all_have_seen: bool
    ) -> Decision:
        """Answer a heartbeat. `caught_up`: the broker has applied all that it must have to be unfenced;
        `all_have_seen`: every active broker has applied that this one has left its ISRs."""
        chores = _RecordedChores(self.image(state), state.calls)
        leaves = chores.leaves(request.broker_id)
        outcome = heartbeat(
            self.image(state),
            replace(request, current_metadata_offset=_FAR if caught_up else -1),
            return_offset=-1,
            shutdown_offset=_FAR if all_have_seen else None,
            lowest_active_offset=_FAR,
            leaves=leaves,
        )
        decision = self._append(state, outcome.groups)
        response = outcome.response
        if response.should_shut_down and self.image(decision.state).isr_count(request.broker_id):
            response = replace(response, should_shut_down=False)
        return replace(decision, heartbeat=response, leaves=leaves)

    def alter_isr(
        self, state: ControlState, item: AlterPartitionItem, *, sender: int, epoch: int
    ) -> Decision:
        """Decide upon another ISR."""
        request = AlterPartitionRequest(broker_id=sender, broker_epoch=epoch, partitions=(item,))
        outcome = alter_partition(self.image(state), request, static={})
        decision = self._append(state, outcome.groups)
        if outcome.response.error is not ErrorCode.NONE:
            return decision
        (result,) = outcome.response.partitions
        return replace(decision, answer=result)

    def assign(
        self, state: ControlState, directory: DirectoryAssignment, *, broker_id: int, epoch: int
    ) -> Decision:
        """Record where a broker's replica is."""
        request = AssignReplicasToDirsRequest(
            broker_id=broker_id, broker_epoch=epoch, assignments=(directory,)
        )
        return self._append(state, assign_replicas_to_dirs(self.image(state), request, static={}).groups)

    # Requests of operators

    def unregister(self, state: ControlState, broker_id: int, *, departed: int | None) -> Decision:
        """Forget a broker."""
        outcome = unregister_broker(
            self.image(state), UnregisterBrokerRequest(broker_id=broker_id), departed=departed
        )
        decision = self._append(state, outcome.groups, departure=outcome.first)
        return replace(decision, waits=outcome.first is not None)

    def reassign(self, state: ControlState, target: tuple[int, ...] | None) -> Decision:
        """Begin a reassignment, or cancel the one under way."""
        item = ReassignmentItem(topic=TOPIC, partition_id=0, replicas=target)
        request = AlterPartitionReassignmentsRequest(partitions=(item,))
        return self._append(
            state, alter_partition_reassignments(self.image(state), request, static={}).groups
        )

    def configure(self, state: ControlState, name: str, value: str) -> Decision:
        """Set one of the topic's settings."""
        return self._append(state, ((set_config(name, value),),))


_FAR = 1 << 40


class _Tenure:
    def __init__(self, images: Images, state: ControlState) -> None:
        self._images = images
        self._image = images[state.image].copy()
        self.chores = _RecordedChores(self._image, state.calls)
        self._number = state.image
        self._numbers: list[int] = []
        self._changes: list[CommittedChange] = []

    def append(self, groups: Groups) -> None:
        image = self._image
        for group in groups:
            for record in group:
                before = partition_of(image)
                offset = 0
                if isinstance(record, RegisterBroker):
                    held = image.broker(record.broker_id)
                    is_new = held is None or held.epoch != record.broker_epoch
                    offset = record.broker_epoch if is_new else _FAR
                image.apply(record, offset=offset, epoch=1)
                self.chores.after(record)
                after = partition_of(image)
                if after != before:
                    self._changes.append(CommittedChange(before, after))
            number = self._images.number(image.copy())
            if number != self._number:
                self._number = number
                self._numbers.append(number)

    def work(self) -> None:
        while self.chores:
            for groups, _ in self.chores.piece():
                self.append(groups)
        self.chores.calls.clear()

    def decision(self) -> Decision:
        return Decision(
            state=ControlState(self._number, tuple(self.chores.calls) if self.chores else ()),
            images=tuple(self._numbers),
            committed_changes=tuple(self._changes),
        )
