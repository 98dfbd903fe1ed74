import random
import uuid
from collections.abc import Sequence
from typing import TypeVar

import pytest
import trio
import trio.testing

from quorate.broker.controller.controller import Controller
from quorate.broker.controller.controller_settings import ControllerSettings
from quorate.broker.controller.liveness.broker_watch import BrokerWatch, Fence
from quorate.broker.controller.rpc import (
    AllocateProducerIdsRequest,
    AlterConfigsItem,
    AlterConfigsRequest,
    AlterPartitionItem,
    AlterPartitionRequest,
    BrokerHeartbeatRequest,
    ConfigAlteration,
    ConfigOperation,
    ControllerRequest,
    ControllerResponse,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    IsrMember,
    NewTopic,
    RegisterBrokerRequest,
    TopicRef,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from quorate.broker.controller.rpc_codec import (
    ANSWERS,
    Refusal,
    RpcDecodeError,
    decode_answer,
    decode_response,
    encode_request,
    encode_response,
)
from quorate.broker.metadata.batch_loader import BatchLoader
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
    BrokerEndpoint,
    BrokerRegistrationChange,
    ChangeReason,
    ConfigType,
    FeatureLevel,
    PartitionChange,
    Record,
    RegisterBroker,
)
from quorate.broker.metadata.record_codec import decode, encode
from quorate.broker.metadata.supported_features import (
    LATEST_METADATA_VERSION,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
)
from quorate.broker.settings.broker_settings import ControllerTuning, LeaderBalance
from quorate.error_code import ErrorCode
from quorate.metrics.controller_stats import ControllerStats
from quorate.raft.quorum_errors import NotLeaderError, OutcomeUnknownError
from quorate.runtime.entropy import Entropy
from quorate.simulation.world.simulated_network import SimulatedNetwork
from quorate.types import Epoch, Offset

R = TypeVar("R", bound=ControllerResponse)


class Batch:
    def __init__(self, base_offset: Offset, records: list[bytes]) -> None:
        self.base_offset = base_offset
        self.records = records
        self.done = trio.Event()
        self.error: Exception | None = None

    async def wait(self) -> "Batch":
        await self.done.wait()
        if self.error is not None:
            raise self.error
        return self


class MemoryLog:
    """A metadata log whose commits the test decides on."""

    def __init__(self, *, automatic: bool = True) -> None:
        self.leads = True
        self.automatic = automatic
        self.resigned = 0
        self.batches: list[Batch] = []
        self.committed: list[Record] = []
        self.loader = BatchLoader()
        self.epoch = 1
        self.next_offset = Offset(0)
        self._first_open = 0

    @property
    def image(self) -> MetadataImage:
        return self.loader.image

    def append_nowait(self, records: Sequence[bytes], *, epoch: int) -> Batch:
        if not self.leads or epoch != self.epoch:
            raise NotLeaderError(leader=None, epoch=Epoch(2))
        batch = Batch(self.next_offset, list(records))
        self.next_offset = Offset(self.next_offset + len(records))
        self.batches.append(batch)
        if self.automatic:
            self.commit()
        return batch

    def commit(self, *, most: int | None = None) -> None:
        opened = self.batches[self._first_open :][:most]
        for batch in opened:
            records = [decode(data) for data in batch.records]
            self.loader.load(records, base_offset=batch.base_offset, epoch=1)
            self.committed += records
            batch.done.set()
        self._first_open += len(opened)

    def lose_leadership(self) -> None:
        self.leads = False
        for batch in self.batches[self._first_open :]:
            batch.error = OutcomeUnknownError("leadership was lost")
            batch.done.set()
        del self.batches[self._first_open :]

    def resign(self) -> None:
        self.resigned += 1
        if self.leads:
            self.lose_leadership()


SETTINGS = ControllerSettings(cluster_id="c")


class Clock:
    """A wall clock that began at the billionth second."""

    def now_ms(self) -> int:
        return 10**12 + round(trio.current_time() * 1000)


class Watch(BrokerWatch):
    """The test says whose process is gone."""

    def __init__(self) -> None:
        super().__init__(SimulatedNetwork(random.Random(1)).for_node("controller"), own_id=0, confirm_s=1)
        self.gone: set[tuple[int, int]] = set()
        self.hurried = 0
        self.heard_of: list[tuple[int, int, object]] = []
        self.fence: Fence | None = None

    async def run(self, fence: Fence) -> None:
        self.fence = fence
        await trio.sleep_forever()

    def hurry(self) -> None:
        self.hurried += 1

    def heard(self, broker_id: int, broker_epoch: int, caller: object) -> None:
        self.heard_of.append((broker_id, broker_epoch, caller))

    def process_ended(self, broker_id: int, broker_epoch: int) -> bool:
        return (broker_id, broker_epoch) in self.gone

    async def report(self, broker_id: int, broker_epoch: int) -> None:
        self.gone.add((broker_id, broker_epoch))
        assert self.fence is not None
        await self.fence(broker_id, broker_epoch)


class Node:
    def __init__(self, *, automatic: bool = True, settings: ControllerSettings = SETTINGS) -> None:
        self.log = MemoryLog(automatic=automatic)
        self.watch = Watch()
        self.stats = ControllerStats()
        self.controller = Controller(
            self.log,
            settings=settings,
            entropy=Entropy(random.Random(1)),
            telemetry=self.stats,
            watch=self.watch,
            wall_clock=Clock(),
        )
        self.epochs: dict[int, int] = {}
        self._works = False

    async def ask(self, request: ControllerRequest[R]) -> R:
        """As another node asks."""
        return decode_answer(request, await self.controller.answer_encoded(encode_request(request)))

    def activate(self) -> None:
        loader = self.log.loader
        self.controller.activate(loader.image.copy(), epoch=Epoch(1), in_transaction=loader.in_transaction)
        if not self._works:
            self._works = True
            trio.lowlevel.spawn_system_task(self.controller.performer.run)

    async def register(self, broker_id: int, incarnation: int = 0) -> ErrorCode:
        response = await self.ask(
            RegisterBrokerRequest(
                broker_id=broker_id,
                cluster_id="c",
                incarnation_id=uuid.UUID(int=incarnation),
                listeners=(BrokerEndpoint(name="PLAINTEXT", host="h", port=1),),
                log_dirs=(uuid.UUID(int=1000 + broker_id),),
                features=SUPPORTED_FEATURES,
            )
        )
        if response.error is ErrorCode.NONE:
            self.epochs[broker_id] = response.broker_epoch
        return response.error

    async def beat(
        self, broker_id: int, *, stop: bool = False, fence: bool = False, offset: int | None = None
    ) -> str:
        response = await self.ask(
            BrokerHeartbeatRequest(
                broker_id=broker_id,
                broker_epoch=self.epochs[broker_id],
                current_metadata_offset=self.log.image.offset if offset is None else offset,
                want_shut_down=stop,
                want_fence=fence,
            )
        )
        if response.error:
            return response.error.name
        if response.should_shut_down:
            return "shut down"
        return "fenced" if response.is_fenced else "unfenced"

    async def start(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            assert await self.register(broker_id) is ErrorCode.NONE
            assert await self.beat(broker_id) == "unfenced"

    async def create(self, *names: str, partitions: int = 1, factor: int = 1) -> list[ErrorCode]:
        topics = tuple(
            NewTopic(name=name, num_partitions=partitions, replication_factor=factor) for name in names
        )
        response = await self.ask(CreateTopicsRequest(topics=topics))
        return [each.error for each in response.topics] or [response.error]


async def test_an_inactive_controller_says_so_to_everything() -> None:
    node = Node()
    node.epochs[1] = 0
    topic = uuid.UUID(int=1)
    item = AlterPartitionItem(
        topic_id=topic, partition_id=0, leader_epoch=0, partition_epoch=0, new_isr=(IsrMember(broker_id=1),)
    )
    assert await node.register(1) is ErrorCode.NOT_CONTROLLER
    assert await node.beat(1) == "NOT_CONTROLLER"
    assert await node.create("t") == [ErrorCode.NOT_CONTROLLER]
    for answer in (
        await node.ask(DeleteTopicsRequest(topics=(TopicRef(name="t"),))),
        await node.ask(UnregisterBrokerRequest(broker_id=1)),
        await node.ask(AllocateProducerIdsRequest(broker_id=1, broker_epoch=0)),
        await node.ask(AlterConfigsRequest(resources=())),
        await node.ask(AlterPartitionRequest(broker_id=1, broker_epoch=0, partitions=(item,))),
    ):
        assert answer.error is ErrorCode.NOT_CONTROLLER
    assert not node.log.batches


async def test_a_whole_life_over_the_wire() -> None:
    node = Node()
    node.activate()
    await node.start(1, 2)
    assert await node.create("t", partitions=2, factor=2) == [ErrorCode.NONE]
    topic = node.log.image.topic("t")
    assert topic is not None
    state = node.log.image.partitions(topic.topic_id)[0]
    shrunk = await node.ask(
        AlterPartitionRequest(
            broker_id=state.leader,
            broker_epoch=node.epochs[state.leader],
            partitions=(
                AlterPartitionItem(
                    topic_id=topic.topic_id,
                    partition_id=0,
                    leader_epoch=0,
                    partition_epoch=0,
                    new_isr=(IsrMember(broker_id=state.leader),),
                ),
            ),
        )
    )
    assert shrunk.partitions[0].partition_epoch == 1
    ids = [
        await node.ask(AllocateProducerIdsRequest(broker_id=1, broker_epoch=node.epochs[1])) for _ in range(2)
    ]
    assert [(each.first_producer_id, each.count) for each in ids] == [(0, 1000), (1000, 1000)]
    stale = await node.ask(AllocateProducerIdsRequest(broker_id=1, broker_epoch=77))
    assert stale.error is ErrorCode.STALE_BROKER_EPOCH
    gone = await node.ask(DeleteTopicsRequest(topics=(TopicRef(name="t"),)))
    assert gone.topics[0].topic_id == topic.topic_id
    assert node.log.image.topic("t") is None
    bye = await node.ask(UnregisterBrokerRequest(broker_id=2))
    assert bye.error is ErrorCode.NONE
    assert set(node.log.image.brokers) == {1}


async def test_a_brokers_epoch_is_the_offset_of_its_record() -> None:
    node = Node()
    node.activate()
    await node.start(1, 2)
    for broker_id, epoch in node.epochs.items():
        record = node.log.committed[epoch]
        assert isinstance(record, RegisterBroker)
        assert record.broker_id == broker_id


async def test_an_answer_waits_for_the_commit_of_what_it_was_computed_from(autojump_clock) -> None:
    node = Node(automatic=False)
    node.activate()
    node.log.commit()
    answers: list[object] = []

    async def register() -> None:
        answers.append(await node.register(1))

    async def create(name: str, factor: int) -> None:
        answers.append(await node.create(name, factor=factor))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(register)
        await trio.testing.wait_all_tasks_blocked()
        # A refusal writes nothing, but was computed from a registration that isn't committed.
        nursery.start_soon(create, "t", 2)
        nursery.start_soon(create, "bad/name", 1)
        await trio.testing.wait_all_tasks_blocked()
        assert answers == []
        node.log.commit()
        await trio.testing.wait_all_tasks_blocked()
        assert len(answers) == 3


async def test_operations_see_what_the_ones_before_them_did_before_it_commits(autojump_clock) -> None:
    node = Node()
    node.activate()
    await node.start(1)
    node.log.automatic = False
    answers: list[list[ErrorCode]] = []

    async def create() -> None:
        answers.append(await node.create("t"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(create)
        nursery.start_soon(create)
        await trio.testing.wait_all_tasks_blocked()
        node.log.commit()
    assert sorted(answers) == [[ErrorCode.NONE], [ErrorCode.TOPIC_ALREADY_EXISTS]]


@pytest.mark.bug("KAFKA-14946")
async def test_losing_leadership_midway_says_what_may_have_happened_and_forgets(autojump_clock) -> None:
    node = Node()
    node.activate()
    await node.start(1)
    node.log.automatic = False
    answers: list[list[ErrorCode]] = []

    async def create() -> None:
        answers.append(await node.create("t"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(create)
        nursery.start_soon(create)
        await trio.testing.wait_all_tasks_blocked()
        node.log.lose_leadership()
        node.controller.deactivate()
    # One has written the topic, the other was told that it is there, and wrote nothing.
    assert sorted(answers) == [[ErrorCode.REQUEST_TIMED_OUT], [ErrorCode.NOT_CONTROLLER]]
    assert not node.controller.active

    node.log.leads = node.log.automatic = True
    node.activate()
    assert await node.create("t") == [ErrorCode.NONE]


async def test_an_append_refused_for_lost_leadership_ends_the_activity() -> None:
    node = Node()
    node.activate()
    await node.start(1)
    node.log.leads = False
    assert await node.create("t") == [ErrorCode.NOT_CONTROLLER]
    assert not node.controller.active


async def test_control_records_of_the_quorum_in_between_do_not_disturb_the_controller() -> None:
    node = Node()
    node.activate()
    await node.start(1)
    node.log.next_offset += 2  # a first voter set, and the version that allows it
    assert await node.register(2) is ErrorCode.NONE
    registered = node.log.batches[-1]
    assert node.epochs[2] == registered.base_offset + len(registered.records) - 1
    assert node.controller.active


async def test_an_append_in_another_place_than_promised_costs_the_controller_its_leadership(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = Node()
    node.activate()
    await node.start(1)
    append = node.log.append_nowait

    def behind_another(records: Sequence[bytes], *, epoch: int) -> Batch:
        node.log.next_offset = Offset(node.log.next_offset + 1)
        return append(records, epoch=epoch)

    monkeypatch.setattr(node.log, "append_nowait", behind_another)
    # The epoch that the broker would be told is not its record's offset.
    assert await node.register(2) is ErrorCode.REQUEST_TIMED_OUT
    assert (node.controller.active, node.log.resigned) == (False, 1)


async def test_a_controller_of_an_earlier_epoch_appends_nothing() -> None:
    node = Node()
    node.activate()
    await node.start(1)
    node.log.epoch = 2
    written = len(node.log.batches)
    assert await node.create("t") == [ErrorCode.NOT_CONTROLLER]
    assert len(node.log.batches) == written
    assert not node.controller.active


async def test_a_controller_that_fails_gives_up_leadership(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    node.activate()
    await node.start(1)

    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("quorate.broker.controller.administration.create_topics", broken)
    assert await node.create("t") == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert node.log.resigned == 1
    assert not node.controller.active
    assert await node.beat(1) == "NOT_CONTROLLER"


async def test_a_record_that_does_not_fit_the_image_never_gets_into_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from quorate.broker.controller.operations.outcome import Outcome
    from quorate.broker.controller.rpc import DeleteTopicsResponse

    node = Node()
    node.activate()
    bad = PartitionChange(topic_id=uuid.UUID(int=9), partition_id=0)
    monkeypatch.setattr(
        "quorate.broker.controller.administration.delete_topics",
        lambda *args, **kwargs: Outcome(response=DeleteTopicsResponse(), groups=((bad,),)),
    )
    before = node.log.next_offset
    answer = await node.ask(DeleteTopicsRequest(topics=()))
    assert answer.error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert (node.log.next_offset, node.log.resigned) == (before, 1)


async def test_a_silent_broker_is_fenced_and_one_that_beats_is_not(autojump_clock) -> None:
    node = Node()
    node.activate()
    await node.start(1, 2)
    await node.create("t", factor=2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(node.controller.run)
        for _ in range(8):
            await trio.sleep(1.5)
            assert await node.beat(2) == "unfenced"
        nursery.cancel_scope.cancel()
    brokers = node.log.image.brokers
    assert (brokers[1].fenced, brokers[2].fenced) == (True, False)
    [(_, state)] = node.log.image.all_partitions()
    assert (state.leader, state.isr) == (2, (2,))


def fencings(node: Node) -> list[tuple[int, ChangeReason | None, int | None]]:
    """Of each: the broker, why, and when it was last heard (s)."""
    return [
        (each.broker_id, each.reason, each.last_heard_ms and each.last_heard_ms - 10**12)
        for each in node.log.committed
        if isinstance(each, BrokerRegistrationChange) and each.fenced
    ]


async def test_the_log_says_when_a_silent_broker_was_last_heard(autojump_clock) -> None:
    node = Node()
    node.activate()
    await trio.sleep(5)
    await node.start(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(node.controller.run)
        await trio.sleep(20)
        nursery.cancel_scope.cancel()
    assert fencings(node) == [(1, ChangeReason.BROKER_FENCED, 5000)]
    assert node.stats.timed_out_heartbeats == 1


async def test_a_broker_whose_process_is_gone_is_fenced_at_once(autojump_clock) -> None:
    node = Node()
    node.activate()
    assert node.watch.hurried == 1
    await node.start(1, 2)
    assert node.watch.heard_of == [(1, 1, None), (2, 3, None)]
    await node.create("t", factor=2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(node.controller.run)
        await trio.sleep(2)
        await node.beat(1)
        await trio.sleep(1)
        await node.watch.report(1, node.epochs[1])
        assert node.log.image.brokers[1].fenced
        assert fencings(node) == [(1, ChangeReason.BROKER_GONE, 2000)]
        [(_, state)] = node.log.image.all_partitions()
        assert (state.leader, state.isr) == (2, (2,))
        assert await node.register(1, incarnation=1) is ErrorCode.NONE, "nobody waits for the session"
        nursery.cancel_scope.cancel()
    assert node.stats.timed_out_heartbeats == 0


async def test_only_the_registration_that_is_gone_is_fenced_and_once(autojump_clock) -> None:
    node = Node()
    node.activate()
    await node.start(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(node.controller.run)
        await trio.testing.wait_all_tasks_blocked()
        await node.watch.report(1, node.epochs[1] - 1)
        await node.watch.report(2, 7)
        assert fencings(node) == []
        for _ in range(2):
            await node.watch.report(1, node.epochs[1])
        assert len(fencings(node)) == 1
        nursery.cancel_scope.cancel()


async def test_an_inactive_controller_fences_nobody(autojump_clock) -> None:
    node = Node()
    node.activate()
    await node.start(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(node.controller.run)
        await trio.testing.wait_all_tasks_blocked()
        node.controller.deactivate()
        await node.watch.report(1, node.epochs[1])
        assert fencings(node) == []
        nursery.cancel_scope.cancel()


async def test_a_broker_that_was_heard_while_its_fencing_waited_for_its_turn_stays(autojump_clock) -> None:
    node = Node()
    node.activate()
    await node.start(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(node.controller.run)
        await trio.testing.wait_all_tasks_blocked()
        active = node.controller.tenure
        assert active is not None
        async with active.alone():
            nursery.start_soon(node.watch.report, 1, node.epochs[1])
            await trio.sleep(0.1)
            node.watch.gone.clear()
        await trio.sleep(0.1)
        assert fencings(node) == []
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("percentage", "back"), [(25, 0), (24, 1)])
async def test_a_broker_that_leads_nearly_all_that_it_should_is_left_alone(
    autojump_clock, percentage: int, back: int
) -> None:
    node = Node(
        settings=ControllerSettings(
            cluster_id="c",
            balance=LeaderBalance(
                leader_imbalance_check_interval_seconds=30,
                leader_imbalance_per_broker_percentage=percentage,
            ),
        )
    )
    node.activate()
    await node.start(1, 2)
    await node.create("t", partitions=8, factor=2)
    firsts = [key for key, state in node.log.image.all_partitions() if state.replicas[0] == 1]
    assert len(firsts) == 4
    moved = PartitionChange(topic_id=firsts[0].topic_id, partition_id=firsts[0].partition_id, leader=2)
    node.controller.tenure.append(((moved,),))
    assert node.log.image.imbalanced_count == 1
    async with trio.open_nursery() as nursery:
        nursery.start_soon(node.controller.run)
        for _ in range(40):
            await trio.sleep(1)
            for broker_id in (1, 2):
                await node.beat(broker_id)
        nursery.cancel_scope.cancel()
    assert node.log.image.imbalanced_count == 1 - back


async def test_leaders_go_back_to_their_first_replica_after_a_while(autojump_clock) -> None:
    node = Node(
        settings=ControllerSettings(
            cluster_id="c", balance=LeaderBalance(leader_imbalance_check_interval_seconds=30)
        )
    )
    node.activate()
    await node.start(1, 2)
    await node.create("t", partitions=2, factor=2)
    assert await node.beat(1, stop=True) == "unfenced"
    await node.beat(2)
    assert await node.beat(1, stop=True) == "shut down"
    await node.register(1, incarnation=1)
    assert await node.beat(1) == "unfenced"
    for key, state in node.log.image.all_partitions():
        assert state.leader == 2
        item = AlterPartitionItem(
            topic_id=key.topic_id,
            partition_id=key.partition_id,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            new_isr=(IsrMember(broker_id=2), IsrMember(broker_id=1)),
        )
        await node.ask(AlterPartitionRequest(broker_id=2, broker_epoch=node.epochs[2], partitions=(item,)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(node.controller.run)
        leaders = []
        for _ in range(8):
            await trio.sleep(5)
            await node.beat(1)
            await node.beat(2)
            leaders.append(sorted(state.leader for _, state in node.log.image.all_partitions()))
        nursery.cancel_scope.cancel()
    assert leaders[0] == [2, 2]
    assert leaders[-1] == [1, 2]


async def test_a_new_controller_gives_every_broker_a_whole_session(autojump_clock) -> None:
    node = Node()
    node.activate()
    await node.start(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(node.controller.run)
        await trio.sleep(8)
        node.controller.deactivate()
        await trio.sleep(100)
        node.activate()
        await trio.sleep(8)
        assert not node.log.image.brokers[1].fenced
        await trio.sleep(2)
        assert node.log.image.brokers[1].fenced
        nursery.cancel_scope.cancel()


async def test_a_restarted_process_is_let_in_when_the_session_has_run_out(autojump_clock) -> None:
    node = Node()
    node.activate()
    await node.start(1)
    assert await node.register(1, incarnation=1) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    await trio.sleep(9)
    assert await node.register(1, incarnation=1) is ErrorCode.NONE
    assert await node.beat(1) == "unfenced"


@pytest.mark.bug("KAFKA-14292")
async def test_a_shutdown_completes_under_steady_writes(autojump_clock) -> None:
    node = Node()
    node.activate()
    await node.start(1, 2)
    await node.create("t", partitions=2, factor=2)
    assert await node.beat(1, stop=True) == "unfenced"
    goal = node.log.image.offset
    seen = goal - 1
    for number in range(3):
        await node.create(f"more-{number}")
        assert await node.beat(2, offset=seen) == "unfenced"
        assert await node.beat(1, stop=True) == "unfenced"
    await node.beat(2, offset=goal)
    assert await node.beat(1, stop=True) == "shut down"
    assert node.log.image.brokers[1].fenced
    # It left in order: its next process need not wait for a session to run out.
    assert await node.register(1, incarnation=1) is ErrorCode.NONE


async def test_a_new_controller_finishes_what_the_last_one_left_half_done() -> None:
    node = Node()
    node.activate()
    await node.start(1, 2)
    await node.create("t", partitions=2, factor=2)
    node.controller.deactivate()
    fenced = BrokerRegistrationChange(broker_id=1, broker_epoch=node.epochs[1], fenced=True)
    node.log.append_nowait([encode(fenced)], epoch=1)
    node.activate()
    assert [(state.leader, state.isr) for _, state in node.log.image.all_partitions()] == [(2, (2,))] * 2


@pytest.mark.bug("KAFKA-14177")
async def test_the_first_controller_writes_the_metadata_version_once() -> None:
    node = Node()
    node.activate()
    node.controller.deactivate()
    node.activate()
    levels = [record for record in node.log.committed if isinstance(record, FeatureLevel)]
    assert levels == [FeatureLevel(name=METADATA_VERSION, level=LATEST_METADATA_VERSION)]


@pytest.mark.bug("KAFKA-12670")
async def test_turning_on_unclean_elections_elects_at_once() -> None:
    node = Node()
    node.activate()
    await node.start(1, 2)
    await node.create("t", factor=2)
    for broker_id in (2, 1):
        await node.ask(
            BrokerHeartbeatRequest(
                broker_id=broker_id,
                broker_epoch=node.epochs[broker_id],
                current_metadata_offset=99,
                want_fence=True,
            )
        )
    assert await node.beat(2) == "unfenced"
    [(_, state)] = node.log.image.all_partitions()
    assert state.leader == -1
    alteration = ConfigAlteration(
        name="unclean.leader.election.enable", operation=ConfigOperation.SET, value="true"
    )
    item = AlterConfigsItem(resource_type=ConfigType.TOPIC, resource_name="t", alterations=(alteration,))
    await node.ask(AlterConfigsRequest(resources=(item,)))
    [(_, state)] = node.log.image.all_partitions()
    assert state.leader == 2


async def test_work_too_large_for_one_batch_is_refused_and_the_rest_is_split() -> None:
    node = Node(settings=ControllerSettings(cluster_id="c", max_batch_bytes=4000))
    node.activate()
    await node.start(1)
    before = len(node.log.batches)
    assert await node.create("t", partitions=100) == [ErrorCode.POLICY_VIOLATION]
    assert len(node.log.batches) == before
    assert node.controller.active
    assert node.log.resigned == 0

    assert await node.create(*(f"t{number}" for number in range(100))) == [ErrorCode.NONE] * 100
    split = node.log.batches[before:]
    assert len(split) > 1
    assert all(sum(map(len, batch.records)) <= 4000 for batch in split)
    assert all(len(batch.records) % 2 == 0 for batch in split), "a topic and its partition share a batch"
    assert len(node.log.image.topics) == 100


def test_there_is_an_operation_for_every_request_that_has_a_codec() -> None:
    assert set(Node().controller.operations) == set(ANSWERS)


async def test_bytes_that_are_no_request_are_refused_and_named() -> None:
    node = Node()
    refused = await node.controller.answer_encoded(b"\x83\x18\x63\x00\xa0")
    answer = decode_response(refused)
    assert isinstance(answer, Refusal)
    assert answer.error is ErrorCode.INVALID_REQUEST
    told = decode_answer(DeleteTopicsRequest(topics=()), refused)
    assert told.error is ErrorCode.INVALID_REQUEST
    assert told.error_message is not None
    assert "did not understand DeleteTopicsRequest" in told.error_message


def test_an_answer_to_another_question_is_refused() -> None:
    other = encode_response(UnregisterBrokerResponse())
    with pytest.raises(RpcDecodeError, match="was answered with"):
        decode_answer(DeleteTopicsRequest(topics=()), other)


async def test_the_same_seed_makes_the_same_log() -> None:
    logs = []
    for _ in range(2):
        node = Node()
        node.activate()
        await node.start(1, 2, 3)
        await node.create("a", "b", partitions=5, factor=2)
        logs.append([encode(record) for record in node.log.committed])
    assert logs[0] == logs[1]


IN_PIECES = ControllerSettings(cluster_id="c", tuning=ControllerTuning(partitions_per_step=4))


async def test_no_piece_of_a_fencing_is_longer_than_it_may_be_and_others_are_answered_meanwhile() -> None:
    node = Node(settings=IN_PIECES)
    node.activate()
    await node.start(1, 2, 3)
    await node.create("t", partitions=40, factor=3)
    before = len(node.log.batches)
    assert await node.beat(1, fence=True) == "fenced"
    answered_at: list[int] = []
    while left := node.log.image.isr_count(1):
        assert await node.beat(2) == "unfenced"
        if await node.beat(1) == "unfenced":
            assert node.log.image.isr_count(1) == 0, "it has not left yet"
        answered_at.append(left)
    assert len({*answered_at}) > 3
    written = node.log.batches[before:]
    assert len(written[0].records) == 1
    assert max(len(batch.records) for batch in written) <= 4
    assert await node.beat(1) == "unfenced"


async def test_a_registration_is_answered_when_the_last_life_has_left_in_pieces(autojump_clock) -> None:
    node = Node(settings=IN_PIECES)
    node.activate()
    await node.start(1, 2)
    await node.create("t", partitions=40, factor=2)
    await trio.sleep(9)
    assert await node.register(1, incarnation=1) is ErrorCode.NONE
    assert node.log.image.isr_count(1) == 0
    record = node.log.committed[node.epochs[1]]
    assert isinstance(record, RegisterBroker)
    assert record.broker_epoch == node.epochs[1]
    assert max(len(batch.records) for batch in node.log.batches[-11:]) <= 4


async def test_a_broker_may_stop_when_it_has_left_the_last_isr(autojump_clock) -> None:
    node = Node(settings=IN_PIECES)
    node.activate()
    await node.start(1, 2)
    await node.create("t", partitions=40, factor=2)
    answers = [await node.beat(1, stop=True)]
    while answers[-1] == "unfenced":
        await node.beat(2)
        answers.append(await node.beat(1, stop=True))
        left = node.log.image.isr_count(1)
    assert (answers[-1], left) == ("shut down", 0)
    assert len(answers) > 3


async def test_a_registration_that_waits_is_refused_when_leadership_is_lost(autojump_clock) -> None:
    node = Node(settings=IN_PIECES)
    node.activate()
    await node.start(1, 2)
    await node.create("t", partitions=400, factor=2)
    await trio.sleep(9)
    node.log.automatic = False
    answers: list[ErrorCode] = []

    async def register() -> None:
        answers.append(await node.register(1, incarnation=1))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(register)
        await trio.testing.wait_all_tasks_blocked()
        # It does not run ahead of the log: a few pieces are on their way, and the rest waits for them.
        assert 0 < node.log.next_offset - node.log.image.offset < 50
        node.log.lose_leadership()
        node.controller.deactivate()
    assert answers == [ErrorCode.REQUEST_TIMED_OUT]

    node.log.leads = node.log.automatic = True
    node.log.next_offset = node.log.image.offset + 1
    node.activate()
    await trio.sleep(9)
    assert await node.register(1, incarnation=1) is ErrorCode.NONE


async def test_lower_min_insync_replicas_empty_the_elrs_before_that_is_answered() -> None:
    static = {"min.insync.replicas": "2"}
    node = Node(
        settings=ControllerSettings(
            cluster_id="c", static=static, tuning=ControllerTuning(partitions_per_step=4)
        )
    )
    node.activate()
    await node.start(1, 2)
    await node.create("t", partitions=20, factor=2)
    assert await node.beat(1, fence=True) == "fenced"
    await trio.testing.wait_all_tasks_blocked()
    assert node.log.image.elr_count(1) == 20
    alteration = ConfigAlteration(name="min.insync.replicas", operation=ConfigOperation.SET, value="1")
    item = AlterConfigsItem(resource_type=ConfigType.TOPIC, resource_name="t", alterations=(alteration,))
    answer = await node.ask(AlterConfigsRequest(resources=(item,)))
    assert answer.resources[0].error is ErrorCode.NONE
    assert node.log.image.elr_count(1) == 0, "their leaders commit nothing while others are eligible"
