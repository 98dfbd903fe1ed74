"""The directories of `log.dirs` at the start of a broker, and the replicas that it may open in them."""

import uuid
from collections.abc import Container
from dataclasses import dataclass

from quorate.broker.metadata import LOST, MIGRATING, NO_LEADER, PartitionState, is_reserved


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """A directory of `log.dirs`, with its id (KIP-858)."""

    path: str
    id: uuid.UUID
    holds_metadata: bool = False
    """The metadata log is in it: a node can't go on without this folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BadDirectory:
    """A directory that was unusable at the start. Its replicas are offline, and its id is unknown."""

    path: str
    reason: str


def may_open(
    state: PartitionState,
    broker_id: int,
    *,
    found: uuid.UUID | None,
    moved: uuid.UUID | None = None,
    own: Container[uuid.UUID],
    all_usable: bool,
) -> bool:
    """Return whether the broker may open its replica, and begin an empty log where there is none.

    `found`: the directory that has a folder of the replica, if one does. `moved`: the one that this broker
    moved it to, if metadata may not say so yet. `own`: the broker's directories. `all_usable`: none of them
    was bad at the start.

    A replica that is recorded in a directory that isn't here may not be opened: the controller would take an
    empty log or an older copy for the replica, which could lead without acknowledged records. Where another
    broker leads, and does not count on this one, the replica may follow.
    """
    recorded = state.directory_of(broker_id) if moved is None else moved
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
