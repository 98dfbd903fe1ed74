"""Chores: the consequences of a record in many partitions, carried out in pieces.

A broker that is fenced has to leave its ISRs, one that is unfenced may lead partitions without a leader, a
lower min.insync.replicas empties ELRs. Each of them may concern a million partitions, and no step of the
controller may take longer than some milliseconds. So the record of the change comes first, alone. What
follows from it is a rule about the image, not a list: no inactive broker is in an ISR, no replica in an
offline directory is in an ISR or an ELR, no partition is without a leader that could have one, no ELR
outlives its need. A piece brings some partitions nearer to the rule, decided from the image as it is by then,
and is sound by itself. Anything may happen between two pieces (an AlterPartition, a heartbeat, another
controller): the next piece starts from the image, and the work is done when the rule holds.

Between two pieces a fenced broker may still be a member of ISRs, and even a leader. It is not elected, joins
no ISR, and isn't unfenced or registered anew before it has left them (`brokers.heartbeat`,
`brokers.register_broker`). An ISR member that is dead is still one: nothing is committed without it.
"""

import enum
import uuid
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple, Protocol

import trio

from quorate.broker.controller.operations.directories import Belongings
from quorate.broker.controller.operations.directory_changes import leave_offline, leave_with
from quorate.broker.controller.operations.leaderships import (
    Changes,
    Elections,
    Partitions,
    elect_leaderless,
    elect_preferred,
    leave_isrs,
    settle_elrs,
)
from quorate.broker.controller.operations.outcome import Departure, Groups
from quorate.broker.controller.operations.reassignments import end_reassignments, ended
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
    BrokerRegistrationChange,
    ChangeReason,
    Config,
    PartitionChange,
    Record,
    RegisterBroker,
    UnregisterBroker,
)
from quorate.broker.metadata.states import PartitionKey, PartitionState
from quorate.runtime import WORK, get_logger

log = get_logger(__name__)

LOOKS_PER_CHANGE: Final = 16
"""A partition that is only looked at costs less than this part of one that is changed."""


class ChoreKind(enum.Enum):
    """The kinds of chores."""

    LEAVE = "a broker leaves its ISRs"
    OFFLINE = "replicas in directories that are offline leave their ISRs"
    SETTLE = "ELRs that are not needed become empty"
    ELECT = "partitions without a leader get one"
    PREFER = "leaders go back to their first replicas"
    END = "reassignments end whose replicas are in sync"


class Name(NamedTuple):
    """The name of a chore. There is one of each at a time."""

    kind: ChoreKind
    broker_id: int = -1
    """The broker that leaves."""


class _Sweep:
    """A pass over the image's partitions, a few at a time, while records are applied in between.

    It visits each partition that exists when it begins, unless its topic is deleted before its turn. A
    partition that a record creates later isn't visited: its creation is decided with the image as it is then.
    """

    __slots__ = ("_partition_id", "_topic", "_topic_ids")

    def __init__(self, image: MetadataImage) -> None:
        self._topic_ids: list[uuid.UUID] = list(image.topics)
        self._topic = 0
        self._partition_id = 0

    @property
    def ended(self) -> bool:
        return self._topic == len(self._topic_ids)

    def look(self, image: MetadataImage, *, most: int) -> Iterator[tuple[PartitionKey, PartitionState]]:
        """Yield up to `most` further partitions. The next call continues where the iterator is left. Nothing
        may be applied to the image while the iterator is in use."""
        left = most
        while left and self._topic < len(self._topic_ids):
            topic_id = self._topic_ids[self._topic]
            states = image.partitions(topic_id)
            first = self._partition_id
            # As one slice, because a look at a single partition costs as much again.
            for partition_id, state in enumerate(states[first : first + left], first):
                self._partition_id += 1
                left -= 1
                WORK.records += 1
                yield PartitionKey(topic_id, partition_id), state
            if self._partition_id >= len(states):
                # A topic without partitions counts too, so that a million of them don't make one piece.
                left -= left > 0 and not states
                self._topic += 1
                self._partition_id = 0


class _RuleChanges(Protocol):
    """Yields the records that some partitions need under a rule."""

    def __call__(
        self, image: MetadataImage, /, *, among: Partitions, static: Mapping[str, str]
    ) -> Changes: ...


class Chore:
    """One rule that the controller establishes by passes over the partitions."""

    __slots__ = ("_changed", "_changes", "_most", "_needed", "_stale", "_sweep", "finished")

    def __init__(
        self,
        changes: Callable[[MetadataImage, Partitions], Changes],
        *,
        needed: Callable[[MetadataImage], bool],
        most: int | None = None,
    ) -> None:
        """`changes`: the records that some partitions need. `needed`: False as soon as no partition can need
        any. `most`: changes in all, None for no limit."""
        self._changes = changes
        self._needed = needed
        self._most = most
        self._sweep: _Sweep | None = None
        self._stale = False
        self._changed = 0
        self.finished = trio.Event()
        """Set when the rule holds, or the controller that would have seen to it is no longer active."""

    def begin_again(self) -> None:
        """Visit all partitions again, because a change may concern those that were visited already."""
        self._stale = self._sweep is not None

    def piece(self, image: MetadataImage, *, size: int) -> tuple[Groups, int]:
        """Return up to `size` records, each its own atomic group, and the number of partitions examined.
        Apply the records before the next call of any method."""
        if not self._needed(image):
            return (), 0
        if self._sweep is None or self._sweep.ended:
            self._sweep, self._stale, self._changed = _Sweep(image), False, 0
        sweep, looked = self._sweep, 0

        def counted() -> Partitions:
            nonlocal looked
            for each in sweep.look(image, most=size * LOOKS_PER_CHANGE):
                looked += 1
                yield each

        left = size if self._most is None else min(size, self._most - self._changed)
        groups = tuple(islice(self._changes(image, counted()), left))
        self._changed += len(groups)
        return groups, looked

    def settled(self, image: MetadataImage) -> bool:
        """Return whether nothing is left to do, once the last piece is applied."""
        if not self._needed(image) or self._changed == self._most:
            return True
        return self._sweep is not None and self._sweep.ended and not self._stale


class Chores:
    """The chores under way. Each `piece` takes some of them in turn. One active controller owns them."""

    __slots__ = (
        "_by_name",
        "_elects_for",
        "_has",
        "_leaves_for",
        "_lost",
        "_order",
        "_size",
        "_static",
        "image",
    )

    def __init__(self, image: MetadataImage, *, static: Mapping[str, str], size: int) -> None:
        """`size`: the number of partitions that one piece may change."""
        self.image = image
        """The image that chores are decided from. The active controller replaces it when a transaction
        ends."""
        self._static = static
        self._size = size
        self._by_name: dict[Name, Chore] = {}
        self._order: deque[Name] = deque()
        self._lost: set[int] = set()
        self._has: dict[int, set[Belongings]] = {}
        """The data of brokers that are about to register anew."""
        self._leaves_for: dict[int, ChangeReason] = {}
        """The reasons of brokers that leave before a record gives one: they are being unregistered."""
        self._elects_for = ChangeReason.BROKER_UNFENCED
        """The reason why partitions without a leader may have one."""

    def __bool__(self) -> bool:
        return bool(self._order)

    # Beginning chores

    def repair(self) -> None:
        """Begin the chores that an earlier controller may not have finished."""
        image = self.image
        for broker_id in image.isr_members():
            if not image.is_active(broker_id):
                self.leave(broker_id)
        self.offline()
        self.settle()
        self.elect(ChangeReason.BROKER_UNFENCED)
        self.end_reassignments()

    def after(self, record: Record) -> None:
        """Begin the chores that `record`, which is applied already, makes necessary."""
        match record:
            case BrokerRegistrationChange(broker_id=broker_id, fenced=fenced, in_controlled_shutdown=leaves):
                if record.log_dirs is not None:
                    self.offline()
                if fenced or leaves:
                    self.leave(broker_id)
                elif fenced is False:
                    self.elect(ChangeReason.BROKER_UNFENCED)
            case RegisterBroker(broker_epoch=epoch) if epoch != self.image.offset:
                # The same incarnation again, perhaps with fewer directories: a new one has left everything.
                self.offline()
            case Config(name="min.insync.replicas"):
                self.settle()
                self.end_reassignments()
            case UnregisterBroker():
                self.end_reassignments()
            case PartitionChange(isr=isr) if isr is not None and self._may_end(record):
                # An election. AlterPartition and reassignment requests end one in their own record.
                self.end_reassignments()
            case Config(name="unclean.leader.election.enable"):
                self.elect(ChangeReason.CONFIG_CHANGED)
            case _:
                pass

    def leave(self, broker_id: int, *, lost: bool = False) -> Chore:
        """Remove an inactive broker from every ISR. `lost`: from every ELR too, because it may lack
        committed records."""
        name = Name(ChoreKind.LEAVE, broker_id)
        if lost and broker_id not in self._lost:
            self._lost.add(broker_id)
            self._again(name)

        def changes(image: MetadataImage, among: Partitions) -> Changes:
            lost, has = broker_id in self._lost, self._has.get(broker_id)
            if has is None or lost:
                reason = self._leaves_for.get(broker_id) or _why_inactive(image, broker_id)
                return leave_isrs(
                    image, broker_id, among=among, static=self._static, reason=reason, lost=lost
                )
            return leave_with(image, broker_id, has, among=among, static=self._static)

        def needed(image: MetadataImage) -> bool:
            has = self._has.get(broker_id, ())
            lost = broker_id in self._lost or not all(each.complete for each in has)
            return (
                image.isr_count(broker_id) > 0
                or (lost and image.elr_count(broker_id) > 0)
                or (any(each.missing for each in has) and image.leaderless_count > 0)
            )

        return self._begin(name, changes, needed)

    def depart(self, departure: Departure) -> Chore:
        """Do the same as `leave`, for a broker that registers again or is unregistered."""
        broker_id, has = departure.broker_id, departure.has
        if has is None:
            self._leaves_for[broker_id] = ChangeReason.BROKER_UNREGISTERED
            return self.leave(broker_id, lost=True)
        if has not in self._has.setdefault(broker_id, set()):
            self._has[broker_id].add(has)
            self._again(Name(ChoreKind.LEAVE, broker_id))
        return self.leave(broker_id)

    def offline(self) -> Chore:
        """Remove replicas in offline directories from ISRs and ELRs."""
        return self._begin_anew(
            ChoreKind.OFFLINE, leave_offline, lambda image: bool(image.isr_members()) or image.has_elrs
        )

    def leaves(self, broker_id: int) -> bool:
        """Return whether the broker still has to leave an ISR or ELR."""
        return Name(ChoreKind.LEAVE, broker_id) in self._by_name

    def of_settings(self) -> tuple[Chore, ...]:
        """Return the chores under way that a change of settings may have begun."""
        return tuple(
            chore for name, chore in self._by_name.items() if name.kind in (ChoreKind.SETTLE, ChoreKind.ELECT)
        )

    def elect(self, reason: ChangeReason) -> Chore:
        """Elect leaders for leaderless partitions that can have one. `reason`: the cause of the elections."""
        self._elects_for = reason
        return self._begin_anew(
            ChoreKind.ELECT,
            lambda image, *, among, static: elect_leaderless(
                image, among=among, static=static, reason=self._elects_for
            ),
            lambda image: image.leaderless_count > 0,
        )

    def settle(self) -> Chore:
        """Empty the ELRs of partitions whose ISR has `min.insync.replicas` members."""
        return self._begin_anew(ChoreKind.SETTLE, settle_elrs, lambda image: image.has_elrs)

    def end_reassignments(self) -> Chore:
        """End the reassignments whose target has enough replicas in the ISR."""
        return self._begin_anew(ChoreKind.END, end_reassignments, lambda image: image.reassigning_count > 0)

    def _may_end(self, record: PartitionChange) -> bool:
        if not self.image.reassigning_count:
            return False
        key = PartitionKey(record.topic_id, record.partition_id)
        state = self.image.partition(*key)
        return state is not None and ended(Elections(self.image, self._static), key, state) is not None

    def prefer(self, *, most: int, brokers: Collection[int]) -> Chore:
        """Return up to `most` partitions to their preferred leader, if that is one of `brokers`."""
        return self._begin(
            Name(ChoreKind.PREFER),
            lambda image, among: elect_preferred(image, among=among, static=self._static, brokers=brokers),
            lambda image: True,
            most=most,
        )

    def _begin_anew(
        self, kind: ChoreKind, changes: _RuleChanges, needed: Callable[[MetadataImage], bool]
    ) -> Chore:
        """Begin a chore, or visit all partitions again if it is under way."""
        self._again(Name(kind))
        return self._begin(
            Name(kind), lambda image, among: changes(image, among=among, static=self._static), needed
        )

    def _again(self, name: Name) -> None:
        held = self._by_name.get(name)
        if held is not None:
            held.begin_again()

    def _begin(
        self,
        name: Name,
        changes: Callable[[MetadataImage, Partitions], Changes],
        needed: Callable[[MetadataImage], bool],
        *,
        most: int | None = None,
    ) -> Chore:
        chore = self._by_name.get(name)
        if chore is None:
            chore = self._by_name[name] = Chore(changes, needed=needed, most=most)
            self._order.append(name)
        return chore

    # Doing them

    def piece(self) -> Iterator[tuple[Groups, int]]:
        """Return a piece of work, of as many chores as fit: the records, and the number of partitions
        examined. Apply each before the next is requested."""
        left = self._size
        while left > 0 and self._order:
            name = self._order[0]
            chore = self._by_name[name]
            groups, looked = chore.piece(self.image, size=left)
            yield groups, looked
            left -= max(len(groups), looked // LOOKS_PER_CHANGE, looked > 0)
            self._order.rotate(-1)
            if chore.settled(self.image):
                self._end(name, chore)

    def _end(self, name: Name, chore: Chore) -> None:
        if name.kind is ChoreKind.LEAVE:
            log.info("a broker has left its ISRs", broker_id=name.broker_id)
            self._lost.discard(name.broker_id)
            self._leaves_for.pop(name.broker_id, None)
            self._has.pop(name.broker_id, None)
        self._order.remove(name)
        del self._by_name[name]
        chore.finished.set()

    def give_up(self) -> None:
        """End all chores, because this controller is no longer active. Their waiters are released."""
        self._order.clear()
        for chore in self._by_name.values():
            chore.finished.set()


def _why_inactive(image: MetadataImage, broker_id: int) -> ChangeReason:
    """Return the reason why a broker is inactive. Without one in the image, which an earlier version may have
    written: the likeliest."""
    broker = image.broker(broker_id)
    if broker is None:
        return ChangeReason.BROKER_UNREGISTERED
    if broker.inactive_reason is not None:
        return broker.inactive_reason
    if broker.in_controlled_shutdown and not broker.fenced:
        return ChangeReason.CONTROLLED_SHUTDOWN
    return ChangeReason.BROKER_FENCED
