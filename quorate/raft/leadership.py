"""The leader, as the application sees it."""

from collections.abc import Callable
from dataclasses import dataclass

import trio

from quorate.raft.core import Role, RoleChanged
from quorate.raft.quorum_errors import QuorumError, QuorumStoppedError
from quorate.types import Epoch, NodeId, Offset


@dataclass(frozen=True, slots=True)
class Leadership:
    """The leader and the epoch, as one node knows them. `leader` is this node only after it has applied all
    records that earlier epochs committed, so its own state is current then."""

    epoch: Epoch
    leader: NodeId | None


class LeadershipView:
    """The latest view and a way to wait for the next one."""

    __slots__ = ("_changed", "_is_awaited", "_progress", "_stopped", "current", "role")

    def __init__(self) -> None:
        self.current = Leadership(Epoch(0), None)
        self.role = Role.UNATTACHED
        self._changed = trio.Event()
        self._progress = trio.Event()
        self._is_awaited = False
        """True while `wait_progress` is called."""
        self._stopped: QuorumError | None = None

    def stop(self, error: QuorumError) -> None:
        """Fail the waiters with `error`. No leader is known from then on."""
        self._stopped = self._stopped or error
        self.role = Role.UNATTACHED
        self.current = Leadership(self.current.epoch, None)
        self._changed.set()
        self._progress.set()

    def set(self, role: Role, leadership: Leadership) -> None:
        if (role, leadership) != (self.role, self.current):
            self.role = role
            self.current = leadership
            self.notify()

    def notify(self) -> None:
        """Wake the waiters, although the view is the same."""
        changed, self._changed = self._changed, trio.Event()
        changed.set()
        self.note_progress()

    def note_progress(self) -> None:
        """Wake the tasks in `wait_progress`: records were applied."""
        if self._is_awaited:
            self._is_awaited = False
            progress, self._progress = self._progress, trio.Event()
            progress.set()

    async def wait_progress(self) -> None:
        """Return when records were applied, or the waiters for the view are woken. Raises
        `QuorumStoppedError`."""
        if self._stopped is None:
            self._is_awaited = True
            await self._progress.wait()
        self._check_running()

    async def wait_change(self) -> None:
        """Raises `QuorumStoppedError`."""
        if self._stopped is None:
            await self._changed.wait()
        self._check_running()

    def _check_running(self) -> None:
        if self._stopped is not None:
            raise QuorumStoppedError(str(self._stopped)) from self._stopped.__cause__

    async def wait_other_leader(self, node: NodeId) -> None:
        """Return when another node than `node` leads."""
        while self.current.leader in (None, node):
            await self.wait_change()

    async def wait_other(self, seen: Leadership | None) -> Leadership:
        """Return the current view as soon as it is not `seen`. Raises `QuorumStoppedError`."""
        while self.current == seen:
            await self.wait_change()
        return self.current


class Announcer:
    """Turns the core's roles into what the application may know."""

    __slots__ = ("_applied_offset", "_node", "_on_leader", "_role", "_silent", "_view")

    def __init__(
        self, node: NodeId, view: LeadershipView, *, on_leader: Callable[[Epoch, NodeId | None], None]
    ) -> None:
        """`on_leader`: called at each change of role with the leader, if known, before the view changes."""
        self._node = node
        self._on_leader = on_leader
        self._view = view
        self._role = RoleChanged(Role.UNATTACHED, Epoch(0), None, None)
        self._applied_offset = Offset(0)
        self._silent = False

    def note_silence(self, *, silent: bool) -> None:
        """Note whether the node is silent (see `Hearing`). A silent leader still names itself here until it
        resigns, because a leadership can't begin twice in an epoch."""
        self._silent = silent
        self._announce()
        self._view.notify()

    def note_role(self, role: RoleChanged) -> None:
        self._role = role
        self._on_leader(role.epoch, role.leader)
        self._announce()

    def note_applied(self, applied_offset: Offset) -> None:
        self._applied_offset = applied_offset
        self._view.note_progress()
        if self._role.role is Role.LEADER and self._view.current.leader is None:
            self._announce()

    def stop(self, error: QuorumError) -> None:
        self._view.stop(error)

    def _announce(self) -> None:
        role, leader = self._role, self._role.leader
        if role.role is Role.RESIGNED:
            leader = None
        elif role.role is Role.LEADER:
            start = role.epoch_start_offset
            leader = self._node if start is not None and self._applied_offset > start else None
        elif self._silent:
            leader = None
        self._view.set(role.role, Leadership(role.epoch, leader))
