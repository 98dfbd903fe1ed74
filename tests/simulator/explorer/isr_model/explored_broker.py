"""A broker in the explorer: its directories, and the process that runs on them, if one does."""

import copy
import math
import uuid
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Final, NamedTuple

from quorate.broker.metadata.states import PartitionState
from quorate.broker.replication.replica.roles import FollowerState, IsrProposal, LeaderState
from quorate.broker.replication.storage.proofs import Proof
from tests.simulator.explorer.isr_model.memory_log import MemoryLog, Values

LAG_SECONDS: Final = 10.0
"""`replica.lag.time.max.ms`. Time stands still but when an action lets it pass."""


class ReplicaFolder(NamedTuple):
    """A directory of `log.dirs` on a disk."""

    id: uuid.UUID
    online: bool = True
    proof: Proof | None = None
    """The life of the broker whose data it has in full, as it says itself."""
    clean: bool = False
    """`proof` is the mark of an orderly shutdown, which outlives the host."""
    values: Values | None = None
    """The replica's log, as it was when the process opened it, or died; None: there is no replica here."""
    high_watermark: int = 0
    """The checkpoint's."""
    synced: int = 0
    """The number of `values` that outlive a loss of power."""


class Asked(NamedTuple):
    """A fetch whose answer is awaited."""

    leader: int
    leader_epoch: int
    offset: int


@dataclass(slots=True)
class Process:
    """One process of a broker. Changed within a step only."""

    incarnation: int
    proof: Proof
    """The proof that it registers with."""
    epoch: int = -1
    """Its broker epoch; -1: not registered yet."""
    view: int = -1
    """The image that it has acted upon; -1: none yet."""
    inbox: tuple[int, ...] = ()
    """Newer images, in order."""
    state: PartitionState | None = None
    role: LeaderState | FollowerState | None = None
    log: MemoryLog | None = None
    where: int = -1
    """The folder that the log is in."""
    failed: frozenset[uuid.UUID] = frozenset()
    """Directories that have failed under this process."""
    failure: bool = False
    """The log can't be used any more."""
    stuck: bool = False
    """It does not follow until there is another leader epoch."""
    asked: Asked | None = None
    question: IsrProposal | None = None
    """The proposal that the controller was last asked for and has not answered."""
    stopping: bool = False
    """It was asked to shut down in order."""
    now: float = 0.0
    """Seconds, on this process's clock."""
    owed: tuple[tuple[int, int], ...] = ()
    """(mark, images of the inbox that end before it). The marks are the controller's: a broker's id for its
    return, the negative one for the end of its shutdown."""

    def copied(self) -> "Process":
        """Return a process that can be changed without this one."""
        return replace(self, role=_copied_role(self.role), log=None if self.log is None else self.log.copy())

    def key(self) -> tuple[object, ...]:
        """Return a key that equals those of processes that behave alike."""
        role, log, question = self.role, self.log, self.question
        return (
            *_PLAIN_FIELDS(self),
            _role_key(role, self.now),
            None if log is None else (log.values, log.epochs, log.high_watermark),
            question is not None and isinstance(role, LeaderState) and role.isr.pending is question,
        )

    def owes(self, mark: int) -> int | None:
        """Return how many images it has to act upon before the mark is reached; None: there is none."""
        return dict(self.owed).get(mark)


_PLAIN_FIELDS: Final = attrgetter(
    *(each.name for each in fields(Process) if each.name not in ("role", "log", "now"))
)
"""Returns all that a process holds and that says by its value how the process behaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExploredBroker:
    """A broker's host. `process` is never changed but in the step that makes it."""

    id: int
    folders: tuple[ReplicaFolder, ...]
    process: Process | None
    lives: int = 1
    """Processes that there were, this one included."""
    disks: int = 0
    """Disks that were put in place of others."""

    def key(self) -> tuple[object, ...]:
        process = self.process
        return (self.folders, None if process is None else process.key(), self.lives, self.disks)

    @property
    def values(self) -> Values | None:
        """The replica's log, if its directory is there."""
        process = self.process
        if process is not None and process.log is not None and not process.failure:
            return process.log.values
        found = (each.values for each in self.folders if each.online and each.values is not None)
        return next(found, None)

    def written_back(self, *, high_watermark: bool, synced: bool) -> tuple[ReplicaFolder, ...]:
        """Return the folders as the process leaves them. `high_watermark`: whether it was stored."""
        process = self.process
        if process is None or process.log is None:
            return self.folders
        log = process.log
        folder = self.folders[process.where]
        kept = replace_folder(
            folder,
            values=log.values,
            high_watermark=int(log.high_watermark)
            if high_watermark
            else min(folder.high_watermark, len(log.values)),
            synced=len(log.values) if synced else min(folder.synced, len(log.values)),
        )
        return with_folder(self.folders, process.where, kept)


def replace_folder(
    folder: ReplicaFolder, *, values: Values | None, high_watermark: int = 0, synced: int = 0
) -> ReplicaFolder:
    """Return the folder with another log."""
    return folder._replace(values=values, high_watermark=high_watermark, synced=synced)


def with_folder(
    folders: tuple[ReplicaFolder, ...], index: int, folder: ReplicaFolder
) -> tuple[ReplicaFolder, ...]:
    """Return the folders with another one at `index`."""
    return (*folders[:index], folder, *folders[index + 1 :])


def _copied_role(role: LeaderState | FollowerState | None) -> LeaderState | FollowerState | None:
    """Return a copy of the role. Its immutable parts, a pending proposal above all, stay the same objects."""
    if role is None:
        return None
    twin = copy.copy(role)
    if isinstance(twin, LeaderState):
        twin.isr = copy.copy(twin.isr)
        twin.remotes = {each: copy.copy(remote) for each, remote in twin.remotes.items()}
    return twin


def _role_key(role: LeaderState | FollowerState | None, now: float) -> object:
    if role is None:
        return None
    if isinstance(role, FollowerState):
        return tuple(_values_of(role, "", now))
    remotes = tuple(tuple(_values_of(role.remotes[each], each, now)) for each in sorted(role.remotes))
    return (
        tuple(_values_of(role, "leader", now, but=("isr", "remotes"))),
        tuple(_values_of(role.isr, "isr", now)),
        remotes,
    )


def _values_of(state: object, name: object, now: float, *, but: tuple[str, ...] = ()) -> list[object]:
    """All that an object holds. Of a time only whether it was within the lag time."""
    found: list[object] = [name]
    for slot in type(state).__slots__:  # type: ignore[attr-defined]
        if slot in but:
            continue
        held = getattr(state, slot)
        assert not callable(held), (
            f"{slot} of {type(state).__name__} is no value: no two states would be equal"
        )
        if slot.endswith("_at"):
            held = not math.isinf(held) and now - held <= LAG_SECONDS
        found.append(held)
    return found
