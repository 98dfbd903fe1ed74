"""Canonical forms: values without meaning for the explorer are made equal.

Correlations and generations only ever matter by being the latest or not. The order of preferred successors
only sets how long each waits, and here every timer that is armed may fire at any time: it is that of their
ids.

In the explorer the request in flight to a peer has correlation `CURRENT` and every older one `STALE`; the
log's generation is `CURRENT` and every older one `STALE`. The core counts on from there in its next step, and
is brought back here after it. Outside the core and its tests, nothing but this module and `renamed_core`
touches what the core keeps to itself.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from quorate.raft.core import Core, Durable, EndQuorumEpochRequest, Generation, Message, Request
from quorate.raft.core.roles.leader import Leader
from quorate.raft.core.roles.resigned import Resigned
from quorate.types import NodeId

if TYPE_CHECKING:
    from tests.simulator.explorer.core_model.machine import Packet

STALE: Final = 0
CURRENT: Final = 1


def fresh(core: Core) -> None:
    """Make a new core canonical, whose requests are numbered from `CURRENT` on."""
    core._node.log.generation = Generation(CURRENT)


def asked(core: Core | None) -> Mapping[NodeId, int]:
    """The requests in flight."""
    return dict(core._node.in_flight) if core is not None else {}


def numbered(core: Core, packets: "tuple[Packet, ...]") -> "tuple[Packet, ...]":
    """Return a step's packets, with canonical correlations. Called before `settle`."""
    in_flight = core._node.in_flight
    return tuple(replace(packet, message=_with_correlation(packet.message, in_flight)) for packet in packets)


def _with_correlation(message: Message, in_flight: Mapping[NodeId, int]) -> Message:
    if not isinstance(message, Request):
        return message  # it has that of the request
    if isinstance(message, EndQuorumEpochRequest):
        message = replace(message, preferred_successors=tuple(sorted(message.preferred_successors)))
    current = in_flight.get(message.destination) == message.correlation
    return replace(message, correlation=CURRENT if current else STALE)


def settle(core: Core, before: Mapping[NodeId, int]) -> tuple[NodeId, ...]:
    """Number the requests in flight. Return the peers whose request from before the step is no longer in
    flight."""
    node = core._node
    forgotten = tuple(sorted(peer for peer in before if node.in_flight.get(peer) != CURRENT))
    for peer in node.in_flight:
        node.in_flight[peer] = CURRENT
    role = core._roles.role
    if isinstance(role, Resigned):
        role._preferred_successors = tuple(sorted(role._preferred_successors))
    node.correlation = CURRENT
    return forgotten


def generations(core: Core, syncs: tuple[Durable, ...]) -> tuple[Durable, ...]:
    """The pending syncs by canonical generation; the core's own becomes that too."""
    log = core._node.log
    current = log.generation
    log.generation = Generation(CURRENT)
    if current == CURRENT and all(sync.generation in (STALE, CURRENT) for sync in syncs):
        return syncs
    return tuple(
        Durable(Generation(CURRENT if sync.generation == current else STALE), sync.end_offset)
        for sync in syncs
    )


def parked(core: Core) -> tuple[NodeId, ...]:
    """Return the nodes that wait here for the answer to their request in flight."""
    role = core._roles.role
    if not isinstance(role, Leader):
        return ()
    return tuple(
        replica.parked.source
        for replica in role._replicas
        if replica.parked is not None and replica.parked.correlation == CURRENT
    )


def forget(core: Core, source: NodeId) -> Core:
    """A core like this one, where the Fetch of `source` that is parked here is one it no longer waits for."""
    twin = core.clone()
    role = twin._roles.role
    if isinstance(role, Leader):
        for replica in role._replicas:
            if replica.parked is not None and replica.parked.source == source:
                replica.parked = replace(replica.parked, correlation=STALE)
    return twin
