"""The folders of `log.dirs` as a broker finds them at its start, and which replicas it may open in them."""

import uuid
from collections.abc import Container
from dataclasses import dataclass

from quorate.broker.metadata import LOST, MIGRATING, NO_LEADER, PartitionState, is_reserved


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """One folder of `log.dirs`, with its id (KIP-858)."""

    path: str
    id: uuid.UUID
    holds_metadata: bool = False
    """The metadata log is in it too: a node can't go on without this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BadDirectory:
    """One that could not be used at the start. What is in it is offline; which id it has is not known."""

    path: str
    reason: str


def may_open(
    state: PartitionState,
    broker_id: int,
    *,
    found: uuid.UUID | None,
    own: Container[uuid.UUID],
    all_usable: bool,
) -> bool:
    """Whether the broker may open its replica, and begin an empty log where there is none.

    `found`: the directory that has a folder of the replica, if one does. `own`: the broker's directories.
    `all_usable`: none of them was bad at the start.

    A replica that is recorded in a directory that isn't here may not: an empty log or an older copy that the
    controller then took for the replica could lead with less than what was acknowledged. Where another
    broker leads, and does not count on this one, there is no such danger: it follows.
    """
    recorded = state.directory_of(broker_id)
    if recorded in own:
        return True
    if is_reserved(recorded) and recorded != LOST:
        # One of unknown place may be in the folder that is bad.
        return found is not None or all_usable or recorded != MIGRATING
    if recorded == LOST and found is not None:
        # Nobody ever wrote down where it is: it is the only copy that this broker ever had.
        return True
    follows = state.leader not in (NO_LEADER, broker_id) and broker_id not in (*state.isr, *state.elr)
    return follows and all_usable
