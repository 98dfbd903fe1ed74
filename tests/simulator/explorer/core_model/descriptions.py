"""The core's model in words."""

import dataclasses

from quorate.raft.core import Durable, Event, Message, RequestFailed, TimerFired
from tests.simulator.explorer.core_model.actions import Action
from tests.simulator.explorer.core_model.machine import Machine, Packet
from tests.simulator.explorer.core_model.world import World

_HIDDEN = frozenset(
    (
        "source",
        "destination",
        "correlation",
        "cluster_id",
        "leader_endpoint",
        "endpoint",
        "max_wait_ms",
        "max_bytes",
        "records",
        "chunk",
        "voter",
        "candidate",
        "replica",
        "batches",
    )
)


def describe(world: World, action: Action) -> str:
    """Describe an action. The text tells it from any other in the same state."""
    node = world.names[action.node]
    match action.what:
        case "deliver":
            text = f"node {node} receives {_packet(world.packets[action.event])}"
        case "repeat":
            text = f"node {node} receives a copy of {_packet(world.packets[action.event])}"
        case "lose":
            text = f"{_packet(world.packets[action.event])} to node {node} is lost"
        case "start":
            text = f"node {node} starts"
        case "crash":
            text = f"node {node}'s process is killed"
        case "power":
            text = f"node {node} loses power, and all but the first {action.keep} batches of its log"
        case _:
            text = _event(node, world.events[action.event])
    if action.crash_point >= 0:
        text += f", and is killed before it has done all of it (point {action.crash_point + 1})"
    return text


def _event(node: int, event: Event) -> str:
    match event:
        case TimerFired():
            of = f" for node {event.timer.node}" if event.timer.node is not None else ""
            return f"node {node}'s {event.timer.kind.value} timer{of} fires"
        case Durable():
            return f"node {node} has synced its log below {event.end_offset} (generation {event.generation})"
        case RequestFailed():
            return f"node {node} gives up its request to node {event.destination}"
        case _:
            return f"node {node} is given {event}"


def _packet(packet: Packet) -> str:
    message = packet.message
    fields = [
        f"{each.name}={_value(getattr(message, each.name))}"
        for each in dataclasses.fields(message)
        if each.name not in _HIDDEN and getattr(message, each.name) not in (None, False)
    ]
    if packet.history:
        fields.append("[" + " ".join(f"{batch.base_offset}:e{batch.epoch}" for batch in packet.history) + "]")
    stale = "" if message.correlation else ", which nobody waits for"
    return f"{_kind(message)}({', '.join(fields)}) from node {message.source}{stale}"


def _kind(message: Message) -> str:
    return type(message).__name__


def _value(value: object) -> str:
    return str(getattr(value, "name", value))


def describe_machine(machine: Machine) -> str:
    """Describe a node in a line."""
    disk, core = machine.disk, machine.core
    log = " ".join(
        f"{batch.base_offset}:e{batch.epoch}{'' if batch.end_offset <= disk.synced else '?'}"
        for batch in disk.history
    )
    stored = f"log [{log}]"
    if disk.log_start_offset:
        stored += f" from {disk.log_start_offset}"
    if core is None:
        return f"node {machine.key.id}: down, epoch {disk.election.epoch}, {stored}"
    return (
        f"node {machine.key.id}: {core.role.value}, epoch {core.epoch}, leader {core.leader}, "
        f"{stored}, high watermark {core.high_watermark}"
    )
