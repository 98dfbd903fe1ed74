"""The transition system of the ISR protocol: a controller, brokers, the packets between them, and the result
of each action."""

from collections.abc import Iterator

from quorate.broker.controller.rpc import DirectoryAssignment
from quorate.broker.metadata.states import BrokerState
from quorate.broker.replication.storage.proofs import NO_PROOF, Proof
from quorate.simulation.violations import SafetyViolation
from tests.simulator.explorer.isr_model.broker_lives import (
    decide_registration,
    decide_unregistration,
    forget_mark,
    heartbeat,
    register,
)
from tests.simulator.explorer.isr_model.broker_steps import StepClock
from tests.simulator.explorer.isr_model.controller_steps import ControlState
from tests.simulator.explorer.isr_model.explored_broker import ExploredBroker, Process, ReplicaFolder
from tests.simulator.explorer.isr_model.explored_images import (
    TOPIC_ID,
    directory_id,
    first_epoch_of,
    first_image,
    incarnation_id,
)
from tests.simulator.explorer.isr_model.isr_actions import IsrAction, possible_actions
from tests.simulator.explorer.isr_model.isr_bounds import Budget, IsrBound
from tests.simulator.explorer.isr_model.isr_descriptions import (
    describe,
    describe_broker,
    describe_partition,
)
from tests.simulator.explorer.isr_model.isr_invariants import IsrPast
from tests.simulator.explorer.isr_model.isr_packets import (
    FetchAnswer,
    FetchUnderWay,
    Packet,
    QuestionAnswer,
    QuestionUnderWay,
    RegistrationUnderWay,
    UnregistrationUnderWay,
    is_parked,
)
from tests.simulator.explorer.isr_model.memory_log import LoggedValue
from tests.simulator.explorer.isr_model.scene import Scene, Tables
from tests.simulator.explorer.model import Broken, Model, State


class IsrModel(Model[IsrAction]):
    """All states of one bound."""

    def __init__(self, bound: IsrBound) -> None:
        clock = StepClock()
        self.bound = bound
        self.clock = clock
        self.tables = Tables(bound, clock)

    @property
    def steps_max(self) -> int | None:
        return self.bound.steps

    def begin(self) -> State:
        """Return the initial state: all is well, and every node knows it."""
        bound, tables = self.bound, self.tables
        image = first_image(
            brokers=tables.ids,
            replicas=bound.replicas,
            isr=bound.isr,
            folders=bound.directories,
            min_isr=bound.min_isr,
            unclean=bound.unclean,
        )
        first = tables.images.number(image)
        committed = tuple(LoggedValue(0, 100 + number) for number in range(bound.records))
        machines: dict[int, ExploredBroker] = {}
        for each in tables.ids:
            ids = [directory_id(each, number) for number in range(bound.directories)]
            proof = Proof(first_epoch_of(each), frozenset(ids))
            folders = tuple(ReplicaFolder(directory, proof=proof) for directory in ids)
            if each in bound.isr:
                # Followers have not heard yet what is committed.
                known = len(committed) if each == bound.isr[0] else 0
                kept = folders[0]._replace(values=committed, high_watermark=known, synced=len(committed))
                folders = (kept, *folders[1:])
            process = Process(incarnation=1, proof=NO_PROOF, epoch=first_epoch_of(each), inbox=(first,))
            machines[each] = tables.steps.apply(ExploredBroker(id=each, folders=folders, process=process), 1)
        return tables.numbered(IsrPast(committed), ControlState(first), machines)

    def describe(self, action: IsrAction) -> str:
        return describe(self.tables, action)

    def describe_state(self, state: State) -> Iterator[str]:
        scene = self.tables.scene(state)
        yield from (describe_broker(scene.machine(each)) for each in scene.brokers)
        yield describe_partition(scene.partition)

    def describe_step(self, before: State, action: IsrAction, after: State) -> Iterator[str]:
        was = set(self.describe_state(before))
        yield from (line for line in self.describe_state(after) if line not in was)

    async def next_states(self, state: State) -> list[tuple[IsrAction, State]]:
        found: list[tuple[IsrAction, State]] = []
        for action in tuple(possible_actions(self.tables.scene(state))):
            scene = self.tables.scene(state)
            try:
                if not await self._act(scene, action):
                    continue
                _tidy(scene)
                if not scene.check():
                    self.cut += 1
                    continue
            except SafetyViolation as violation:
                raise Broken(action, str(violation)) from None
            except Exception as error:
                raise Broken(action, f"no step fails: {type(error).__name__}: {error}") from error
            after = scene.state()
            if after != state:
                found.append((action, after))
        return found

    async def _act(self, scene: Scene, action: IsrAction) -> bool:
        """Change the scene. Return False if nothing happens."""
        each, steps, controller = action.broker, self.tables.steps, self.tables.controller
        match action.what:
            case "apply":
                scene.step(each, action, lambda machine: steps.apply(machine, action.detail[0]))
            case "start":
                scene.step(each, action, steps.start)
            case "register":
                register(scene, each)
            case "heartbeat":
                heartbeat(scene, each)
            case "fetch":
                fetch = scene.step_with(each, action, steps.ask)
                assert fetch is not None
                scene.send(FetchUnderWay(each, *fetch, scene.process(each).epoch, awaited=True))
            case "propose":
                item = scene.step_with(each, action, steps.propose)
                if item is None:
                    return False
                scene.send(QuestionUnderWay(each, item, scene.process(each).epoch, awaited=True))
            case "produce":
                value = self.bound.budgets[Budget.PRODUCES] - scene.left[Budget.PRODUCES]
                done = scene.step_with(each, (action, value), lambda machine: steps.produce(machine, value))
                if done is None:
                    return False
                scene.spend(Budget.PRODUCES)
            case "lag":
                scene.step(each, action, steps.lag)
                scene.spend(Budget.LAGS)
            case "assign":
                process = scene.process(each)
                directory = DirectoryAssignment(
                    topic_id=TOPIC_ID,
                    partition_id=0,
                    directory_id=scene.machine(each).folders[process.where].id,
                )
                epoch = process.epoch
                scene.decide(
                    (directory, epoch),
                    lambda control: controller.assign(control, directory, broker_id=each, epoch=epoch),
                )
            case "deliver" | "give up":
                scene.packets.remove(action.packet)
                if action.what == "give up":
                    scene.spend(Budget.GIVEN_UP)
                    _give_up(scene, self.tables.packets[action.packet])
                else:
                    await self._deliver(scene, action.packet)
            case "work":
                scene.decide("work", controller.work)
            case _:
                return self._fault(scene, action)
        return True

    def _fault(self, scene: Scene, action: IsrAction) -> bool:
        each, steps, controller = action.broker, self.tables.steps, self.tables.controller
        match action.what:
            case "fence":
                scene.decide(action, lambda control: controller.fence(control, each))
                forget_mark(scene, each)
                scene.spend(Budget.FENCES)
            case "unregister":
                if any(isinstance(packet, UnregistrationUnderWay) for packet in scene.under_way()):
                    return False
                scene.past_becomes(lambda past: past.given_up(each))
                decide_unregistration(scene, UnregistrationUnderWay(each, None))
                scene.spend(Budget.UNREGISTRATIONS)
            case "take over":
                scene.packets = [
                    number for number in scene.packets if not is_parked(self.tables.packets[number])
                ]
                scene.decide(action, controller.take_over)
                for broker_id in scene.brokers:
                    forget_mark(scene, broker_id, everything=True)
                scene.spend(Budget.TAKEOVERS)
            case "reassign":
                scene.spend(Budget.REASSIGNMENTS)
                target = action.detail or None
                return scene.decide(action, lambda control: controller.reassign(control, target)).changes
            case "configure":
                scene.spend(Budget.CONFIGS)
                value = str(action.detail[0])
                name = "min.insync.replicas"
                return scene.decide(
                    action, lambda control: controller.configure(control, name, value)
                ).changes
            case "shut down":
                scene.step(each, action, steps.asked_to_stop)
                scene.spend(Budget.SHUTDOWNS)
            case "stop now":
                scene.step(each, "stopped", steps.stopped)
            case "kill":
                scene.step(each, action, steps.killed)
                scene.spend(Budget.KILLS)
            case "power":
                scene.step(
                    each, action, lambda machine: steps.power_lost(machine, tail=bool(action.detail[0]))
                )
                scene.past_becomes(lambda past: past.damaged(each, scene.machine(each).lives))
                scene.spend(Budget.POWER_LOSSES)
            case _:
                self._directory_fault(scene, action)
        return True

    def _directory_fault(self, scene: Scene, action: IsrAction) -> None:
        each, steps = action.broker, self.tables.steps
        scene.spend(Budget.FOLDERS)
        match action.what:
            case "directory back":
                scene.step(each, action, steps.folder_back)
                return
            case "directory fails":
                scene.step(each, action, steps.folder_failed)
            case "directory gone":
                scene.step(each, action, steps.folder_missing)
            case "disk replaced":
                fresh = directory_id(each, 100 + scene.machine(each).disks)
                scene.step(each, action, lambda machine: steps.disk_replaced(machine, fresh))
            case _:
                raise ValueError(f"nobody knows what {action.what!r} is")
        scene.past_becomes(lambda past: past.damaged(each, scene.machine(each).lives))

    async def _deliver(self, scene: Scene, number: int) -> None:
        steps, controller = self.tables.steps, self.tables.controller
        packet = self.tables.packets[number]
        match packet:
            case FetchUnderWay(follower, leader, asked, epoch, awaited):
                answered = await scene.step_awaited(
                    leader,
                    packet[:4],
                    lambda machine: steps.fetched(machine, asked, follower=follower, epoch=epoch),
                )
                if awaited:
                    scene.send(FetchAnswer(follower, leader, answered))
            case FetchAnswer(follower, _, answer):
                await scene.step_awaited(
                    follower, ("taken", number), lambda machine: steps.take(machine, answer)
                )
            case QuestionUnderWay(leader, item, epoch, awaited):
                decision = scene.decide(
                    packet[:3],
                    lambda control: controller.alter_isr(control, item, sender=leader, epoch=epoch),
                )
                if awaited:
                    scene.send(QuestionAnswer(leader, decision.answer))
            case QuestionAnswer(leader, result):
                scene.step(leader, ("settle", result), lambda machine: steps.settle(machine, result))
            case RegistrationUnderWay():
                decide_registration(scene, packet)
            case UnregistrationUnderWay():
                decide_unregistration(scene, packet)


def _give_up(scene: Scene, packet: Packet) -> None:
    """The waiting side gives up. A request may still arrive."""
    steps = scene.tables.steps
    match packet:
        case FetchUnderWay(follower):
            scene.step(follower, "no fetch", steps.give_up_fetch)
            scene.send(packet._replace(awaited=False))
        case FetchAnswer(follower):
            scene.step(follower, "no fetch", steps.give_up_fetch)
        case QuestionUnderWay(leader):
            scene.step(leader, "no answer", lambda machine: steps.settle(machine, None))
            scene.send(packet._replace(awaited=False))
        case QuestionAnswer(leader):
            scene.step(leader, "no answer", lambda machine: steps.settle(machine, None))
        case RegistrationUnderWay():
            scene.send(packet._replace(awaited=False))
        case UnregistrationUnderWay():
            pass


def _is_later(broker: BrokerState, life: int) -> bool:
    """Return whether the process that is registered began after `life` of its broker."""
    return broker.incarnation_id.int > incarnation_id(broker.broker_id, life).int


def _tidy(scene: Scene) -> None:
    """Drop packets that can do nothing any more, and mark those that are no longer awaited."""
    kept: list[int] = []
    for number in scene.packets:
        packet = scene.tables.packets[number]
        waits = False
        match packet:
            case FetchUnderWay(follower, leader, asked, _, awaited):
                process, receiver = scene.machine(follower).process, scene.machine(leader).process
                waits = awaited and process is not None and process.asked is not None
                if receiver is None:
                    # The connection has ended with the process.
                    if waits:
                        scene.step(follower, "no fetch", scene.tables.steps.give_up_fetch)
                    continue
                known = -1 if receiver.state is None else receiver.state.leader_epoch
                if not waits and known > asked.current_leader_epoch:
                    continue
            case FetchAnswer(follower):
                process = scene.machine(follower).process
                if process is not None and process.asked is not None:
                    kept.append(number)
                continue
            case QuestionUnderWay(leader, item, epoch, awaited):
                process, broker = scene.machine(leader).process, scene.image.broker(leader)
                waits = awaited and process is not None and process.question is not None
                if not waits and (
                    broker is None
                    or broker.epoch > epoch
                    or (item.leader_epoch, item.partition_epoch)
                    < (scene.partition.leader_epoch, scene.partition.partition_epoch)
                ):
                    continue
            case QuestionAnswer(leader):
                process = scene.machine(leader).process
                if process is not None and process.question is not None:
                    kept.append(number)
                continue
            case RegistrationUnderWay(_, life, _, awaited):
                machine = scene.machine(packet.request.broker_id)
                process, broker = machine.process, scene.image.broker(machine.id)
                waits = awaited and process is not None and process.incarnation == life
                if broker is not None and not broker.fenced and _is_later(broker, life):
                    # It comes late, but not after a later process of the broker has become active.
                    continue
            case UnregistrationUnderWay():
                kept.append(number)
                continue
        kept.append(
            number if waits == packet.awaited else scene.tables.packets.number(packet._replace(awaited=waits))
        )
    scene.packets = kept
