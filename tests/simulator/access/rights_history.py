"""The rights at each offset of the committed metadata log, and the rule that no record behind a revocation is
what that forbids."""

import uuid
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence

import trio

from quorate.broker.metadata.acls import Acl, AclOperation, ResourceType
from quorate.broker.metadata.metadata_records import (
    AbortTransaction,
    AccessControlEntry,
    BeginTransaction,
    EndTransaction,
    Record,
    RemoveAccessControlEntry,
    RemoveTopic,
    RemoveUserScramCredential,
    Topic,
    UserScramCredential,
)
from quorate.broker.metadata.record_codec import decode
from quorate.log.batches.batch import read_batches
from quorate.log.batches.records import records_of
from quorate.simulation.checkers.invariants import CommittedLog, Invariant
from quorate.simulation.checkers.node_view import NodeView, RoleSeen
from quorate.simulation.violations import SafetyViolation
from quorate.types import Offset
from tests.simulator.access.naive_rights import SUPER_USER, Right, Rights

ALTER_CLUSTER = (Right(AclOperation.ALTER, ResourceType.CLUSTER),)


def creation_of(topic: str) -> tuple[Right, ...]:
    """The rights of which one is enough to create a topic."""
    return (
        Right(AclOperation.CREATE, ResourceType.CLUSTER),
        Right(AclOperation.CREATE, ResourceType.TOPIC, topic),
    )


def deletion_of(topic: str) -> tuple[Right, ...]:
    """The rights of which one is enough to delete a topic."""
    return (
        Right(AclOperation.DELETE, ResourceType.CLUSTER),
        Right(AclOperation.DELETE, ResourceType.TOPIC, topic),
    )


class RightsHistory(Invariant):
    """Comes behind the invariants that extend `committed`. Sees each committed record once, as soon as any
    node knows that it is: before anybody is answered."""

    def __init__(self, committed: CommittedLog) -> None:
        self._committed = committed
        self._next_offset = Offset(0)
        self.states: list[Rights] = [Rights(-1)]
        """The rights that nodes may go by, in order."""
        self.times: list[float] = [0.0]
        """The times at which each was first known to be committed."""
        self._after_records: list[tuple[int, Rights]] = []
        """The rights after each record, with the number of its batch's state. A batch is applied whole, so
        that no node goes by those inside it. Two changes that were asked for at once may share one."""
        self._offsets: list[int] = [-1]
        self._acls: dict[uuid.UUID, Acl] = {}
        self._salts: dict[str, bytes] = {}
        self._kept: tuple[dict[uuid.UUID, Acl], dict[str, bytes]] | None = None
        """What was before the open transaction."""
        self.topics: dict[uuid.UUID, str] = {}
        self.created = set[str]()
        """Topics whose creation is not under way any more: one that was deleted before would come again, with
        the same leader epochs (`OneLeaderPerLeaderEpoch` goes by names)."""
        self.checked = 0
        """The number of records that a client asked for."""
        self.askers: dict[str, set[str]] = defaultdict(set)
        """The principals by the change that they asked for: a topic, a principal's ACL, a salt."""

    @property
    def now(self) -> Rights:
        """The newest committed rights."""
        return self.states[-1]

    def at(self, offset: int) -> int:
        """Return the number of the rights by which a node with records up to `offset` (inclusive) goes."""
        return bisect_right(self._offsets, offset) - 1

    def at_time(self, time: float) -> int:
        """Return the number of the rights that were the newest at a time."""
        return max(0, bisect_right(self.times, time) - 1)

    def were_there(self, first: int, holds: Callable[[Rights], bool]) -> bool:
        """Return whether there were such rights since the state of that number (inclusive)."""
        return any(map(holds, self.states[first:])) or any(
            number > first and holds(rights) for number, rights in self._after_records
        )

    def high_watermark(self, node: NodeView, offset: Offset, role: RoleSeen | None) -> None:
        self.read_committed()

    def read_committed(self) -> None:
        """Take in what was committed since the last call."""
        while (piece := self._committed.at(self._next_offset)) is not None:
            self._next_offset = piece.end_offset
            for batch in read_batches(piece.data):
                if batch.header.is_control:
                    continue
                changed = False
                for read in records_of(batch):
                    if self._take(decode(read.value or b""), read.offset):
                        changed = True
                        if self._kept is None:
                            self._after_records.append((len(self.states), self._rights(read.offset)))
                if changed and self._kept is None:
                    self._show(piece.end_offset - 1)

    def _show(self, offset: int) -> None:
        self.states.append(self._rights(offset))
        self._offsets.append(offset)
        self.times.append(trio.current_time())

    def _rights(self, offset: int) -> Rights:
        return Rights(offset, tuple(self._acls.values()), dict(self._salts))

    def _take(self, record: Record, offset: int) -> bool:
        """Take in the record, and return whether it may have changed the rights."""
        match record:
            case AccessControlEntry():
                if record.acl.host not in ("*", DECOY_HOST):
                    self._check(f"acl/{record.acl.host}", ALTER_CLUSTER, offset)
                self._acls[record.id] = record.acl
            case RemoveAccessControlEntry():
                del self._acls[record.id]
            case UserScramCredential():
                self._check(f"salt/{record.salt.hex()}", ALTER_CLUSTER, offset)
                if f"User:{record.name}" == SUPER_USER:
                    raise SafetyViolation(f"offset {offset} sets the password of a super user")
                self._salts[record.name] = bytes(record.salt)
            case RemoveUserScramCredential():
                self._salts.pop(record.name, None)
            case Topic():
                self._check(f"create/{record.name}", creation_of(record.name), offset)
                self.topics[record.topic_id] = record.name
                return False
            case RemoveTopic():
                name = self.topics.pop(record.topic_id)
                self._check(f"delete/{name}", deletion_of(name), offset)
                return False
            case BeginTransaction():
                self._kept = (dict(self._acls), dict(self._salts))
                return False
            case EndTransaction():
                self._kept = None
            case AbortTransaction() if self._kept is not None:
                (self._acls, self._salts), self._kept = self._kept, None
                return False
            case _:
                return False
        return True

    def _check(self, change: str, any_of: tuple[Right, ...], offset: int) -> None:
        """Check that somebody asked for a change who may have it made, by the records below its own."""
        rights = Rights(offset - 1, tuple(self._acls.values()))
        askers = self.askers[change]
        self.checked += 1
        if not any(rights.allow(each, any_of) for each in askers):
            raise SafetyViolation(
                f"NothingForbiddenIsBehindARevocation: offset {offset} has {change}, for which "
                f"{sorted(askers)} asked, who may not: {list(map(str, rights.acls))}"
            )


DECOY_HOST = "10.0.0.9"
"""An address that no client has."""


def some_of(states: Sequence[Rights], first: int, last: int) -> Sequence[Rights]:
    return states[max(0, first) : last + 1]
