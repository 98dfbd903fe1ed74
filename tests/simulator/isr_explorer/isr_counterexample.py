"""A violation of the ISR protocol, action by action, and how to see it again."""

import hashlib
from collections.abc import Iterator

import trio

from quorate.broker.metadata import LeaderRecoveryState, PartitionState
from quorate.broker.replication.replica import LeaderState
from tests.simulator.isr_explorer.broker_steps import StepClock
from tests.simulator.isr_explorer.explored_broker import ExploredBroker
from tests.simulator.isr_explorer.isr_actions import IsrAction
from tests.simulator.isr_explorer.isr_bounds import IsrBound
from tests.simulator.isr_explorer.isr_packets import (
    FetchAnswer,
    FetchUnderWay,
    Packet,
    QuestionAnswer,
    QuestionUnderWay,
    RegistrationUnderWay,
    UnregistrationUnderWay,
)
from tests.simulator.isr_explorer.isr_search import Breach
from tests.simulator.isr_explorer.isr_world import BrokenError, IsrWorld
from tests.simulator.isr_explorer.scene import IsrState

_SAID = {
    "start": "broker {} starts",
    "register": "broker {} asks to be registered",
    "heartbeat": "broker {} heartbeats",
    "fetch": "broker {} fetches",
    "propose": "broker {} asks for another ISR",
    "produce": "broker {} appends a record for a producer (acks=all)",
    "lag": "the lag time passes on broker {}, and it scans its ISR",
    "assign": "broker {} says in which directory its replica is",
    "fence": "the session of broker {} runs out",
    "unregister": "an operator unregisters broker {}",
    "kill": "broker {}'s process is killed",
    "shut down": "broker {} is asked to shut down",
    "stop now": "broker {} ends in order without waiting for the controller",
    "directory fails": "broker {}'s first directory fails under it",
    "directory gone": "broker {}'s first directory is not there any more",
    "directory back": "broker {}'s first directory is back as it was",
    "disk replaced": "broker {} gets an empty disk in the place of its first directory",
    "work": "the controller does what is left to be done",
    "take over": "another controller takes over",
}


def described(world: IsrWorld, action: IsrAction) -> str:
    """Describe an action. The text tells it from any other in the same state."""
    match action.what:
        case "apply":
            (images,) = action.detail
            return f"broker {action.broker} acts upon {images} change{'s' if images > 1 else ''} of metadata"
        case "deliver":
            return _delivered(world.tables.packets[action.packet])
        case "give up":
            waits = f"broker {action.broker} waits no longer: "
            return waits + _delivered(world.tables.packets[action.packet])
        case "power":
            kept = "but what was not synced is there" if action.detail[0] else "and what was not synced"
            return f"the host of broker {action.broker} loses power, {kept}"
        case "reassign":
            return (
                f"an operator reassigns to {list(action.detail)}"
                if action.detail
                else "the reassignment is cancelled"
            )
        case "configure":
            return f"min.insync.replicas becomes {action.detail[0]}"
        case _:
            return _SAID[action.what].format(action.broker)


def _delivered(packet: Packet) -> str:
    match packet:
        case FetchUnderWay(follower, leader, asked, epoch, awaited):
            late = "" if awaited else ", late"
            return (
                f"broker {leader} gets the fetch of broker {follower} (broker epoch {epoch}) at offset "
                f"{asked.fetch_offset} in leader epoch {asked.current_leader_epoch}, last epoch "
                f"{asked.last_fetched_epoch}{late}"
            )
        case FetchAnswer(follower, leader, answer):
            what = f"{sum(len(each) > 0 for each in answer.records)} runs of records"
            if answer.diverging_epoch is not None:
                what = f"diverging at {answer.diverging_epoch}"
            elif int(answer.error):
                what = answer.error.name
            return (
                f"broker {follower} gets the answer of broker {leader}: {what}, high watermark "
                f"{answer.high_watermark}"
            )
        case QuestionUnderWay(leader, item, epoch, awaited):
            isr = [(each.broker_id, each.broker_epoch) for each in item.new_isr]
            return (
                f"the controller gets the question of broker {leader} (broker epoch {epoch}): ISR {isr} for "
                f"partition epoch {item.partition_epoch} of leader epoch {item.leader_epoch}"
                f"{'' if awaited else ', late'}"
            )
        case QuestionAnswer(leader, result):
            what = "nothing" if result is None else f"{result.error.name}, ISR {list(result.isr)}"
            return f"broker {leader} gets the controller's answer: {what}"
        case RegistrationUnderWay(request, life, departed, awaited):
            again = "" if departed is None else " again, now that it has left its ISRs"
            return (
                f"the controller gets the registration of broker {request.broker_id}, life {life}, which "
                f"proves epoch {request.previous_broker_epoch}{again}{'' if awaited else ', late'}"
            )
        case UnregistrationUnderWay(broker_id, _):
            return f"the controller forgets broker {broker_id}, now that it has left its ISRs"


def token(world: IsrWorld, action: IsrAction) -> str:
    """Name the action for a replay."""
    return hashlib.blake2b(described(world, action).encode(), digest_size=3).hexdigest()


def way_of(world: IsrWorld, breach: Breach) -> str:
    """Return the name of a way, for `replayed`."""
    return ".".join(token(world, action) for _, action in breach.way)


def lines_of(world: IsrWorld, breach: Breach) -> Iterator[str]:
    """Yield a line for each action, and what it changes."""
    yield f"BROKEN: {breach.invariant}"
    yield f"It takes {len(breach.way)} steps:"
    states = [state for state, _ in breach.way]
    for machine in world.tables.scene(states[0]).brokers:
        yield f"     {_machine(world.tables.scene(states[0]).machine(machine))}"
    yield f"     {_partition(world.tables.scene(states[0]).partition)}"
    for index, (state, action) in enumerate(breach.way):
        yield f"{index + 1:3}. {described(world, action)}"
        if index + 1 < len(states):
            yield from _changes(world, state, states[index + 1])


def _changes(world: IsrWorld, before: IsrState, after: IsrState) -> Iterator[str]:
    old, new = world.tables.scene(before), world.tables.scene(after)
    for each in new.brokers:
        if _machine(old.machine(each)) != _machine(new.machine(each)):
            yield f"     -> {_machine(new.machine(each))}"
    if old.partition != new.partition:
        yield f"     -> {_partition(new.partition)}"


def _partition(state: PartitionState) -> str:
    recovering = state.leader_recovery_state is LeaderRecoveryState.RECOVERING
    return (
        f"metadata: leader {state.leader} in epoch {state.leader_epoch}, partition epoch "
        f"{state.partition_epoch}, replicas {list(state.replicas)}, ISR {list(state.isr)}, "
        f"ELR {list(state.elr)}{', recovering' if recovering else ''}"
    )


def _machine(machine: ExploredBroker) -> str:
    process = machine.process
    values = machine.values
    log = (
        "no log" if values is None else "[" + " ".join(f"{each.value}:e{each.epoch}" for each in values) + "]"
    )
    if process is None:
        return f"broker {machine.id}: down, {log}"
    role = "nothing"
    if isinstance(process.role, LeaderState):
        pending = process.role.isr.pending
        asks = "" if pending is None else f", asks for {list(pending.isr)}"
        role = f"leads epoch {process.role.leader_epoch} with ISR {list(process.role.isr.committed)}{asks}"
    elif process.role is not None:
        role = f"follows {process.role.leader} in epoch {process.role.leader_epoch}"
    failed = ", its disk failed" if process.failure else ""
    high_watermark = "" if process.log is None else f", high watermark {process.log.high_watermark}"
    return (
        f"broker {machine.id} (epoch {process.epoch}): {role}, {log}{high_watermark}{failed}, "
        f"{len(process.inbox)} behind"
    )


def replayed(bound: IsrBound, way: str) -> tuple[IsrWorld, Breach | None]:
    """Go a way again. Raises ValueError if this code has no such way."""
    clock = StepClock()
    world = IsrWorld(bound, clock)
    return world, trio.run(_replay, world, way, clock=clock)


async def _replay(world: IsrWorld, way: str) -> Breach | None:
    state = world.begin()
    done: list[tuple[IsrState, IsrAction]] = []
    for step in way.split("."):
        try:
            successors = await world.successors(state)
        except BrokenError as broken:
            return Breach(broken.invariant, (*done, (state, broken.action)))
        found = next(((action, after) for action, after in successors if token(world, action) == step), None)
        if found is None:
            raise ValueError(f"nothing called {step} can happen after {len(done)} steps")
        done.append((state, found[0]))
        state = found[1]
    return None
