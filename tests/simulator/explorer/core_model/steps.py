"""The step of one node for one event.

Everything here concerns one node alone, so each (node, event) pair is computed once, however many states of
the whole it occurs in. What a step says that others must agree with is handed on as a `Observation`.
"""

from collections.abc import Callable
from dataclasses import replace

from quorate.raft.core import (
    Core,
    Durable,
    Effect,
    Event,
    HighWatermarkAdvanced,
    InvariantError,
    SnapshotChecked,
    SnapshotDamaged,
)
from quorate.simulation.violations import SafetyViolation
from tests.simulator.explorer.core_model import canonical
from tests.simulator.explorer.core_model.interpreter import Interpreter
from tests.simulator.explorer.core_model.machine import Machine, Packet, StepOutcome

Make = Callable[[Machine], Core]
"""Makes a core from a machine's stored data."""


def start(machine: Machine, make: Make) -> StepOutcome:
    """Start or restart a machine. Recovered data is synced before the first step."""
    disk = machine.disk
    disk = replace(disk, synced=disk.end_offset)
    core = make(replace(machine, disk=disk))
    return _carry_out(Machine(machine.key, core, disk), core, None, core.start, packet=None)


def step(
    machine: Machine, event: Event, packet: Packet | None = None, *, fetch_batches: int = 1000
) -> StepOutcome:
    """Clone the core, give it `event`, and carry out the effects. `packet`: the content of `Received`;
    `fetch_batches`: the most batches in the answer to a Fetch."""
    before = machine.up
    core = before.clone()
    changed: Machine = replace(machine, core=core)
    match event:
        case Durable():
            changed = _synced(changed, event)
        case SnapshotChecked():
            if machine.partial is not None:
                kept = (*machine.disk.snapshots, machine.partial)
                disk = replace(machine.disk, snapshots=kept)
                changed = replace(changed, disk=disk, partial=None, position=0, checking=None)
        case SnapshotDamaged():
            changed = replace(changed, partial=None, position=0, checking=None)
        case _:
            pass
    return _carry_out(
        changed, core, before, lambda: core.step(event), packet=packet, fetch_batches=fetch_batches
    )


def _synced(machine: Machine, durable: Durable) -> Machine:
    """Return the machine after one sync, which makes everything before it durable too and is reported
    once."""
    disk = machine.disk
    core = machine.up
    if durable.generation == core.generation:
        disk = replace(disk, synced=max(disk.synced, durable.end_offset))
    syncs = tuple(
        each
        for each in machine.syncs
        if each.generation != durable.generation or each.end_offset > durable.end_offset
    )
    return replace(machine, disk=disk, syncs=syncs)


def _carry_out(
    machine: Machine,
    core: Core,
    before: Core | None,
    act: Callable[[], tuple[Effect, ...]],
    *,
    packet: Packet | None,
    fetch_batches: int = 1000,
) -> StepOutcome:
    asked = canonical.asked(before)
    try:
        effects = act()
    except InvariantError as error:
        return StepOutcome(machine, broken=f"no impossible step: {error}")
    except Exception as error:
        return StepOutcome(machine, broken=f"no step fails: {type(error).__name__}: {error}")
    interpreter = Interpreter(
        machine, core, packet, before.role if before is not None else None, fetch_batches
    )
    high_watermark = before.high_watermark if before is not None else None
    try:
        for effect in effects:
            if isinstance(effect, HighWatermarkAdvanced):
                interpreter.require(
                    high_watermark is None or effect.high_watermark > high_watermark,
                    f"the high watermark goes up, not from {high_watermark} to {effect.high_watermark}",
                )
                high_watermark = effect.high_watermark
            interpreter.carry_out(effect)
        interpreter.check(before)
    except (SafetyViolation, InvariantError) as violation:
        return StepOutcome(machine, effects=effects, broken=str(violation))
    sent = canonical.numbered(core, tuple(interpreter.sent))
    forgotten = canonical.settle(core, asked)
    syncs = canonical.generations(core, tuple(interpreter.syncs))
    return StepOutcome(
        machine=Machine(
            machine.key,
            core,
            interpreter.disk,
            frozenset(interpreter.timers),
            syncs,
            interpreter.partial,
            interpreter.position,
            interpreter.checking,
        ),
        sent=sent,
        observations=tuple(interpreter.observations),
        forgotten=forgotten,
        crash_points=tuple(interpreter.crash_points),
        effects=effects,
    )
