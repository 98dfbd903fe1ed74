"""The actions that may come next in a state of the ISR protocol."""

from collections.abc import Iterator
from typing import NamedTuple

from quorate.broker.replication.replica.roles import FollowerState, LeaderState
from tests.simulator.explorer.isr_model.explored_broker import ExploredBroker, Process
from tests.simulator.explorer.isr_model.explored_images import incarnation_id
from tests.simulator.explorer.isr_model.isr_bounds import Budget
from tests.simulator.explorer.isr_model.isr_packets import (
    RegistrationUnderWay,
    is_parked,
    receiver_of,
    waits_for,
)
from tests.simulator.explorer.isr_model.scene import Scene


class IsrAction(NamedTuple):
    """An action: its kind, the broker or packet, and further details."""

    what: str
    broker: int = 0
    packet: int = -1
    detail: tuple[int, ...] = ()


def possible_actions(scene: Scene) -> Iterator[IsrAction]:
    """Yield the possible actions. Some of them change nothing."""
    left, image, bound = scene.left, scene.image, scene.tables.bound
    if not scene.controlling.calls:
        waiting = [number for number in scene.packets if is_parked(scene.tables.packets[number])]
        if waiting:
            # Who waits for chores is decided again as soon as they are done.
            yield IsrAction("deliver", 0, waiting[0])
            return
    for each in scene.brokers:
        machine = scene.machine(each)
        if machine.process is None:
            yield from _of_dead(scene, machine)
        else:
            yield from _of_living(scene, machine, machine.process)
        broker = image.broker(each)
        if broker is not None and each in bound.victims:
            if not broker.fenced and left[Budget.FENCES]:
                yield IsrAction("fence", each)
            if left[Budget.UNREGISTRATIONS]:
                yield IsrAction("unregister", each)
    calls = scene.controlling.calls
    for number in dict.fromkeys(scene.packets):
        packet = scene.tables.packets[number]
        if not is_parked(packet):
            yield IsrAction("deliver", receiver_of(packet), number)
        if left[Budget.GIVEN_UP] and (asker := waits_for(packet)):
            yield IsrAction("give up", asker, number)
    if calls:
        yield IsrAction("work")
    if left[Budget.TAKEOVERS]:
        yield IsrAction("take over")
    if left[Budget.REASSIGNMENTS]:
        for target in bound.targets:
            yield IsrAction("reassign", detail=target)
        if scene.partition.is_reassigning:
            yield IsrAction("reassign")
    if left[Budget.CONFIGS]:
        yield IsrAction("configure", detail=(1,))
        yield IsrAction("configure", detail=(2,))


def _of_dead(scene: Scene, machine: ExploredBroker) -> Iterator[IsrAction]:
    if any(folder.online for folder in machine.folders):
        yield IsrAction("start", machine.id)
    if scene.left[Budget.FOLDERS] and machine.id in scene.tables.bound.victims:
        if machine.folders[0].online:
            yield IsrAction("directory gone", machine.id)
        else:
            yield IsrAction("directory back", machine.id)
        yield IsrAction("disk replaced", machine.id)


def _of_living(scene: Scene, machine: ExploredBroker, process: Process) -> Iterator[IsrAction]:
    left, each = scene.left, machine.id
    if process.inbox:
        yield IsrAction("apply", each, detail=(1,))
        if len(process.inbox) > 1:
            yield IsrAction("apply", each, detail=(len(process.inbox),))
    held = scene.image.broker(each)
    known = (
        process.epoch >= 0
        and held is not None
        and held.incarnation_id == incarnation_id(each, process.incarnation)
    )
    if not known and not any(
        isinstance(packet, RegistrationUnderWay) and waits_for(packet) == each for packet in scene.under_way()
    ):
        yield IsrAction("register", each)
    if process.view >= 0:
        if known:
            yield IsrAction("heartbeat", each)
        if process.log is not None and not process.failure:
            yield from _of_replica(scene, machine, process)
        if process.stopping:
            yield IsrAction("stop now", each)
    if each not in scene.tables.bound.victims:
        return
    if left[Budget.SHUTDOWNS] and process.view >= 0 and not process.stopping:
        yield IsrAction("shut down", each)
    if left[Budget.KILLS]:
        yield IsrAction("kill", each)
    if left[Budget.POWER_LOSSES]:
        yield IsrAction("power", each, detail=(0,))
        if _has_unsynced(machine, process):
            yield IsrAction("power", each, detail=(1,))
    folders = machine.folders
    can_fail = len(folders) > 1 and folders[0].online and folders[0].id not in process.failed
    if left[Budget.FOLDERS] and can_fail:
        yield IsrAction("directory fails", each)


def _has_unsynced(machine: ExploredBroker, process: Process) -> bool:
    if process.log is None:
        return False
    return len(process.log.values) > machine.folders[process.where].synced


def _of_replica(scene: Scene, machine: ExploredBroker, process: Process) -> Iterator[IsrAction]:
    left, each, role = scene.left, machine.id, process.role
    if isinstance(role, FollowerState):
        if process.asked is None and not process.stuck:
            yield IsrAction("fetch", each)
    elif isinstance(role, LeaderState):
        if role.isr.pending is not None and process.question is None:
            yield IsrAction("propose", each)
        if left[Budget.PRODUCES]:
            yield IsrAction("produce", each)
        if left[Budget.LAGS]:
            yield IsrAction("lag", each)
    state = process.state
    if state is not None and process.epoch >= 0:
        recorded = state.directory_of(each)
        if recorded != machine.folders[process.where].id:
            yield IsrAction("assign", each)
