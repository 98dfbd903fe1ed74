"""The checkers' view of a node of the quorum."""

from dataclasses import dataclass
from typing import Protocol, TypeVar

from quorate.log import Log
from quorate.raft import Quorum
from quorate.raft.core import Role, validate
from quorate.simulation.world.simulated_disk import SimulatedDisk
from quorate.types import Epoch, NodeId

_ALL = 2**31
Outcome = TypeVar("Outcome")


class NodeView(Protocol):
    """The parts of a node that the checks read."""

    @property
    def id(self) -> NodeId: ...

    @property
    def folder(self) -> str: ...

    @property
    def disk(self) -> SimulatedDisk: ...

    @property
    def life(self) -> int:
        """Return the number of the node's processes so far."""
        ...

    @property
    def disks(self) -> int:
        """Return the number of its disks so far: with another one it is another replica that may vote."""
        ...

    @property
    def log(self) -> Log: ...

    def validate(self) -> None:
        """Raise InvariantError if the offsets of its quorum are not in order."""
        ...

    @property
    def damaged(self) -> bool:
        """Return whether it lost synced bytes."""
        ...

    @property
    def alive(self) -> bool:
        """Return False from the kill of the process on: its further reports don't count."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LostReplica:
    """`NodeView` of a replica whose disk is lost, with the records that it had acknowledged by then."""

    id: NodeId
    folder: str
    disk: SimulatedDisk
    life: int
    disks: int
    damaged: bool = False
    alive: bool = False

    @property
    def log(self) -> Log:
        raise ValueError(f"node {self.id} lost disk {self.disks} with its log")

    def validate(self) -> None:
        """Do nothing: the replica runs no quorum."""


@dataclass(frozen=True, slots=True)
class RoleSeen:
    role: Role
    epoch: Epoch
    leader: NodeId | None
    voted: NodeId | None


def validate_quorum(quorum: Quorum[Outcome]) -> None:
    """Raise InvariantError if the offsets of a running quorum are not in order."""
    driver = quorum._node.driver
    validate(driver.core, applied=driver.applier.applied_offset)


def read_log(node: NodeView, offset: int, end_offset: int) -> bytes:
    """Whole batches of a node's log from `offset` on, past any fault of its disk. May stop before
    `end_offset`."""
    log = node.log
    data = log.read_tail(offset, _ALL, end_offset=end_offset)
    if data is None:
        found = log.slice_of(offset, _ALL, end_offset=end_offset)
        if found is None:
            return b""
        data = node.disk.content(found.file.path)[found.position : found.position + found.size]
    return data
