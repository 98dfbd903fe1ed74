"""An active controller over a log in memory, asked as other nodes ask it."""

import random
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import trio
import trio.testing

from quorate.broker.controller.controller import Controller
from quorate.broker.controller.controller_settings import ControllerSettings
from quorate.broker.controller.liveness.broker_watch import BrokerWatch, Fence
from quorate.broker.controller.rpc import (
    AlterConfigsItem,
    AlterConfigsRequest,
    AlterPartitionItem,
    AlterPartitionRequest,
    AlterPartitionResult,
    BrokerHeartbeatRequest,
    ConfigAlteration,
    ConfigOperation,
    ControllerRequest,
    ControllerResponse,
    CreateTopicsRequest,
    IsrMember,
    NewTopic,
    RegisterBrokerRequest,
)
from quorate.broker.controller.rpc_codec import (
    decode_answer,
    encode_request,
)
from quorate.broker.metadata.batch_loader import BatchLoader
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
    BrokerEndpoint,
    ConfigType,
    Record,
)
from quorate.broker.metadata.record_codec import decode
from quorate.broker.metadata.states import PartitionKey
from quorate.broker.metadata.supported_features import (
    SUPPORTED_FEATURES,
)
from quorate.broker.settings.broker_settings import ControllerTuning
from quorate.error_code import ErrorCode
from quorate.metrics.controller_stats import ControllerStats
from quorate.raft import HeardLeader
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

    def activate(self, *, predecessor: HeardLeader | None = None) -> None:
        loader = self.log.loader
        self.controller.activate(
            loader.image.copy(),
            epoch=Epoch(1),
            in_transaction=loader.in_transaction,
            predecessor=predecessor,
        )
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

    async def configure(self, topic: str, name: str, value: str) -> ErrorCode:
        """Set a value of the topic."""
        alteration = ConfigAlteration(name=name, operation=ConfigOperation.SET, value=value)
        item = AlterConfigsItem(
            resource_type=ConfigType.TOPIC, resource_name=topic, alterations=(alteration,)
        )
        return (await self.ask(AlterConfigsRequest(resources=(item,)))).resources[0].error

    async def alter_isr(self, key: PartitionKey, *isr: int) -> AlterPartitionResult:
        """The leader asks for this ISR."""
        state = self.log.image.partition(*key)
        item = AlterPartitionItem(
            topic_id=key.topic_id,
            partition_id=key.partition_id,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            new_isr=tuple(IsrMember(broker_id=each) for each in isr),
        )
        request = AlterPartitionRequest(
            broker_id=state.leader, broker_epoch=self.epochs[state.leader], partitions=(item,)
        )
        (result,) = (await self.ask(request)).partitions
        return result

    @asynccontextmanager
    async def tended(self) -> AsyncIterator[trio.Nursery]:
        """The controller looks after its brokers within the block."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.controller.run)
            await trio.testing.wait_all_tasks_blocked()
            yield nursery
            nursery.cancel_scope.cancel()


IN_PIECES = ControllerSettings(cluster_id="c", tuning=ControllerTuning(partitions_per_step=4))


async def running(*broker_ids: int, settings: ControllerSettings = SETTINGS) -> Node:
    """An active controller, with these brokers unfenced."""
    node = Node(settings=settings)
    node.activate()
    await node.start(*broker_ids)
    return node


async def started(*, automatic: bool = True) -> Node:
    """Brokers 1 and 2, and a controller that changes four partitions in a step."""
    node = await running(1, 2, settings=IN_PIECES)
    node.log.automatic = automatic
    return node
