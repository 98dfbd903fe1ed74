"""Brokers and the controller: registrations, heartbeats, and the marks for which the controller waits."""

from dataclasses import replace

from quorate.broker.controller.rpc import BrokerHeartbeatRequest, RegisterBrokerRequest
from tests.simulator.explorer.isr_model.explored_broker import ExploredBroker
from tests.simulator.explorer.isr_model.explored_images import (
    CLUSTER,
    LISTENERS,
    incarnation_id,
    next_epoch_of,
)
from tests.simulator.explorer.isr_model.isr_packets import RegistrationUnderWay, UnregistrationUnderWay
from tests.simulator.explorer.isr_model.scene import Scene


def register(scene: Scene, broker_id: int) -> None:
    """Send the registration of a process."""
    machine, process = scene.machine(broker_id), scene.process(broker_id)
    request = RegisterBrokerRequest(
        broker_id=broker_id,
        cluster_id=CLUSTER,
        incarnation_id=incarnation_id(broker_id, process.incarnation),
        listeners=LISTENERS,
        log_dirs=tuple(each.id for each in machine.folders if each.online and each.id not in process.failed),
        previous_broker_epoch=process.proof.broker_epoch,
        previous_log_dirs=tuple(sorted(process.proof.directories)),
    )
    scene.send(RegistrationUnderWay(request, process.incarnation, None, awaited=True))


def decide_registration(scene: Scene, packet: RegistrationUnderWay) -> None:
    """Let the controller decide, now or when the broker has left its ISRs."""
    broker_id = packet.request.broker_id
    held = scene.image.broker(broker_id)
    process = scene.machine(broker_id).process
    known = max(-1 if held is None else held.epoch, -1 if process is None else process.epoch)
    epoch = next_epoch_of(broker_id, packet.life, known)
    live = (
        held is not None
        and not held.fenced
        and process is not None
        and held.incarnation_id == incarnation_id(broker_id, process.incarnation)
    )
    controller = scene.tables.controller
    decision = scene.decide(
        (packet[:3], epoch, live),
        lambda control: controller.register(
            control, packet.request, departed=packet.departed, epoch=epoch, live=live
        ),
    )
    if decision.waits:
        assert held is not None
        scene.send(packet._replace(departed=held.epoch))
        return
    if decision.registered is None:
        return
    registered, view = decision.registered[1], scene.controlling.image
    if held is None or held.epoch != registered:
        scene.past_becomes(lambda past: past.registered(broker_id, packet.life))
        forget_mark(scene, broker_id)
    if packet.awaited:
        steps = scene.tables.steps
        scene.step(
            broker_id,
            ("registered", registered, view),
            lambda machine: steps.registered(machine, registered, view),
        )


def decide_unregistration(scene: Scene, packet: UnregistrationUnderWay) -> None:
    """Let the controller forget a broker, now or when it has left its ISRs."""
    broker_id = packet.broker_id
    held, controller = scene.image.broker(broker_id), scene.tables.controller
    decision = scene.decide(
        packet, lambda control: controller.unregister(control, broker_id, departed=packet.departed)
    )
    if decision.waits:
        assert held is not None
        scene.send(packet._replace(departed=held.epoch))


def heartbeat(scene: Scene, broker_id: int) -> None:
    """Send a heartbeat, and take its answer."""
    process, steps, controller = scene.process(broker_id), scene.tables.steps, scene.tables.controller
    held = scene.image.broker(broker_id)
    assert held is not None
    request = BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=process.epoch,
        current_metadata_offset=-1,
        want_shut_down=process.stopping,
        offline_log_dirs=tuple(sorted(process.failed)),
    )
    owes = process.owes(broker_id)
    caught_up = owes == 0 if owes is not None else not process.inbox
    seen = process.owes(-broker_id) is not None and all(
        _has_seen(scene.machine(each), -broker_id) for each in scene.brokers if scene.image.is_active(each)
    )
    decision = scene.decide(
        (request, caught_up, seen),
        lambda control: controller.heartbeat(control, request, caught_up=caught_up, all_have_seen=seen),
    )
    response = decision.heartbeat
    assert response is not None
    if held.fenced and not decision.leaves and owes is None and response.is_fenced:
        _mark(scene, broker_id, broker_id)
    if response.should_shut_down and process.stopping:
        scene.step(broker_id, "stopped", steps.stopped)
        return
    broker = scene.image.broker(broker_id)
    if (
        broker is not None
        and broker.in_controlled_shutdown
        and not broker.fenced
        and not scene.image.isr_count(broker_id)
        and process.owes(-broker_id) is None
    ):
        for each in scene.brokers:
            _mark(scene, each, -broker_id)


def _has_seen(machine: ExploredBroker, mark: int) -> bool:
    process = machine.process
    return process is not None and process.view >= 0 and not process.owes(mark)


def _mark(scene: Scene, broker_id: int, mark: int) -> None:
    """Note how far the broker has to come."""

    def marked(machine: ExploredBroker) -> ExploredBroker:
        if machine.process is None:
            return machine
        process = machine.process.copied()
        process.owed = tuple(sorted({**dict(process.owed), mark: len(process.inbox)}.items()))
        return replace(machine, process=process)

    scene.step(broker_id, ("mark", mark), marked)


def forget_mark(scene: Scene, broker_id: int, *, everything: bool = False) -> None:
    """Drop the broker's own mark, or all of its marks: the controller waits for them no longer."""

    def unmarked(machine: ExploredBroker) -> ExploredBroker:
        if machine.process is None or not machine.process.owed:
            return machine
        process = machine.process.copied()
        process.owed = () if everything else tuple(each for each in process.owed if each[0] != broker_id)
        return replace(machine, process=process)

    scene.step(broker_id, ("no mark", everything), unmarked)
