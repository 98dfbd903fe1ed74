"""Brokers' replicas in one process: real replica managers and fetchers over simulated disks and a simulated
network, under a controller that is the shipped pure functions over one image."""

import random
import uuid
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import trio
import trio.testing

from quorate.broker.apis import fetch as fetch_api
from quorate.broker.apis.api_table import BROKER_APIS
from quorate.broker.controller.chores import Chores
from quorate.broker.controller.operations.alter_partition import alter_partition
from quorate.broker.controller.operations.brokers import (
    fence_broker,
    heartbeat,
    register_broker,
    unfence_broker,
)
from quorate.broker.controller.operations.directories import default_directory
from quorate.broker.controller.operations.directory_changes import assign_replicas_to_dirs
from quorate.broker.controller.rpc import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerHeartbeatRequest,
    RegisterBrokerRequest,
)
from quorate.broker.log_directories import open_directories
from quorate.broker.metadata.configs import StaticConfig
from quorate.broker.metadata.delta import apply_records
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
    BrokerEndpoint,
    ChangeReason,
    Config,
    ConfigType,
    PartitionChange,
    RemoveTopic,
    Topic,
)
from quorate.broker.metadata.metadata_records import Partition as PartitionRecord
from quorate.broker.metadata_cache import whole_image
from quorate.broker.replication.foundation.errors import PartitionError
from quorate.broker.replication.foundation.requests import (
    DeleteRecordsItem,
    FetchItem,
    FetchOptions,
    ProduceItem,
)
from quorate.broker.replication.replica_manager import ReplicaManager
from quorate.broker.replication.wiring import ReplicationContext
from quorate.broker.settings.client_settings import KafkaServerConfig
from quorate.broker.settings.replication_config import ReplicationConfig
from quorate.broker.wire.kafka_server import WireServer
from quorate.error_code import ErrorCode
from quorate.log.batches.batch import read_batches, read_header
from quorate.log.batches.records import build_batch, records_of
from quorate.runtime.network import Address, NetworkError
from quorate.simulation.world.simulated_network import SimulatedNetwork
from quorate.simulation.world.simulated_runtime import SimulatedRuntime

CLUSTER_ID = "replicas"
DATA = "data"
FIRST = "data/t-0/00000000000000000000.log"
"""The first segment of partition 0 of `t`."""


def batch(*values, producer=(-1, -1, -1), timestamp_ms=1000, control=False):
    """One produced batch; `producer`: (id, epoch, first sequence)."""
    return build_batch(
        base_offset=0,
        epoch=-1,
        timestamp_ms=timestamp_ms,
        values=[value.encode() for value in values],
        control=control,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
    )


def header(producer_id, epoch, sequence, count=1):
    """The header of a produced batch."""
    return read_header(batch(*["v"] * count, producer=(producer_id, epoch, sequence)))


@contextmanager
def refused_with(code):
    """The block raises a `PartitionError` with this code."""
    with pytest.raises(PartitionError) as refused:
        yield
    assert refused.value.code is code


class Answer:
    """The answer to a request that is made in a task of its own."""

    def __init__(self, nursery, ask):
        self.result = None
        """None until it is there."""
        self._ask = ask
        nursery.start_soon(self._run)

    async def _run(self):
        self.result = await self._ask()

    async def is_there(self):
        """Return whether it is, once all that follows from now has happened. No time passes meanwhile."""
        await trio.testing.wait_all_tasks_blocked()
        return self.result is not None


class Controller:
    """Commits at once; every broker hears of it at once, unless its metadata is held."""

    def __init__(self, static):
        self.racks = {}
        """Of brokers that register from now on."""
        self.static = static
        self.image = MetadataImage()
        self.chores = Chores(self.image, static=static, size=128)
        self.end_offset = 0
        self.brokers: list[Broker] = []
        self.requests: list[AlterPartitionRequest] = []
        """Every AlterPartition that arrived."""
        self.unreachable = False
        self.lost_answers = 0
        """So many AlterPartitions are carried out, and their senders never learn of it."""
        self.answer: Callable[[AlterPartitionRequest], AlterPartitionResponse | None] = lambda request: None
        """Answers in place of the controller, if it returns something."""
        self.rtt_s = 0.01

    def commit(self, *records):
        apply_records(self.image, records, base_offset=self.end_offset, epoch=1)
        base, self.end_offset = self.end_offset, self.end_offset + len(records)
        for broker in self.brokers:
            broker.hear(base, records)

    def commit_groups(self, groups: Iterable[tuple]):
        for group in groups:
            self.commit(*group)
            for record in group:
                self.chores.after(record)

    def finish(self):
        """Commit the consequences of the records, in as many partitions as they concern."""
        while self.chores:
            for groups, _ in self.chores.piece():
                self.commit_groups(groups)

    async def alter_partition(self, request):
        await trio.sleep(self.rtt_s)
        if self.unreachable:
            raise NetworkError("no controller")
        self.requests.append(request)
        answer = self.answer(request)
        if answer is not None:
            return answer
        outcome = alter_partition(self.image, request, static=self.static)
        self.commit_groups(outcome.groups)
        if self.lost_answers:
            self.lost_answers -= 1
            raise NetworkError("the answer was lost")
        await trio.sleep(self.rtt_s)
        return outcome.response

    async def assign_directories(self, request):
        await trio.sleep(self.rtt_s)
        if self.unreachable:
            raise NetworkError("no controller")
        outcome = assign_replicas_to_dirs(self.image, request, static=self.static)
        self.commit_groups(outcome.groups)
        await trio.sleep(self.rtt_s)
        return outcome.response

    def register(self, broker_id, incarnation, *, log_dirs, proof):
        request = RegisterBrokerRequest(
            broker_id=broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=incarnation,
            listeners=(BrokerEndpoint(name="PLAINTEXT", host=f"b{broker_id}", port=9092),),
            rack=self.racks.get(broker_id),
            log_dirs=log_dirs,
            previous_broker_epoch=proof.broker_epoch,
            previous_log_dirs=tuple(sorted(proof.directories)),
        )
        departed = None
        while True:
            outcome = register_broker(
                self.image,
                request,
                cluster_id=CLUSTER_ID,
                live_session=False,
                next_offset=self.end_offset,
                departed=departed,
            )
            self.commit_groups(outcome.groups)
            assert outcome.response.error is ErrorCode.NONE, outcome.response.error_message
            if outcome.first is None:
                return outcome.response.broker_epoch
            departed = outcome.first.broker_epoch
            self.chores.depart(outcome.first)
            self.finish()

    def beat(self, broker_id):
        """A heartbeat of a broker that runs."""
        broker = self.image.broker(broker_id)
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=broker.epoch,
            current_metadata_offset=self.end_offset,
            offline_log_dirs=next(
                each for each in self.brokers if each.id == broker_id
            ).replicas.directories.failed_ids,
        )
        outcome = heartbeat(
            self.image,
            request,
            shutdown_offset=None,
            lowest_active_offset=None,
            leaves=False,
        )
        self.commit_groups(outcome.groups)
        self.finish()

    def unfence(self, broker_id):
        self.commit_groups(unfence_broker(self.image.broker(broker_id)))
        self.finish()

    def fence(self, broker_id):
        self.commit_groups(
            fence_broker(self.image, broker_id, reason=ChangeReason.BROKER_FENCED, last_heard_ms=None)
        )
        self.finish()

    def elect_leaderless(self):
        self.chores.elect(ChangeReason.CONFIG_CHANGED)
        self.finish()

    def topic_id(self, name="t"):
        return self.image.topic(name).topic_id

    def state(self, name="t", partition_id=0):
        return self.image.partition(self.topic_id(name), partition_id)

    def change(self, name="t", partition_id=0, **changes):
        self.commit(PartitionChange(topic_id=self.topic_id(name), partition_id=partition_id, **changes))

    def elect(self, leader, *, isr=None, name="t", **changes):
        self.change(name, leader=leader, isr=isr, **changes)

    def create(self, name="t", replicas=(1, 2, 3), partitions=1, isr=None, number=1):
        topic_id = uuid.UUID(int=(7 << 100) + number)
        isr = replicas if isr is None else isr
        self.commit(
            Topic(name=name, topic_id=topic_id),
            *(
                PartitionRecord(
                    topic_id=topic_id,
                    partition_id=each,
                    replicas=replicas,
                    isr=isr,
                    leader=isr[0],
                    directories=tuple(default_directory(self.image, replica) for replica in replicas),
                )
                for each in range(partitions)
            ),
        )

    def delete(self, name="t"):
        self.commit(RemoveTopic(topic_id=self.topic_id(name)))

    def configure(self, name="t", **values):
        self.commit(
            *(
                Config(
                    resource_type=ConfigType.TOPIC,
                    resource_name=name,
                    name=key.replace("_", "."),
                    value=str(value),
                )
                for key, value in values.items()
            )
        )


class Broker:
    """One broker; `manager` is that of its running process."""

    def __init__(self, cluster, broker_id):
        self.cluster = cluster
        self.id = broker_id
        self.name = f"b{broker_id}"
        self.host = SimulatedRuntime(self.name, cluster.network, cluster.random)
        self.manager: ReplicaManager | None = None
        self.errors: list[BaseException] = []
        """What its processes ended with by themselves. A test takes out what it expects."""
        self.starts = 0
        self._held: list[tuple[int, tuple]] | None = None
        self._scope = trio.CancelScope()
        self._image = MetadataImage()
        self._listening = False
        self._ended = trio.Event()

    @property
    def running(self):
        return self.manager is not None and not self._ended.is_set()

    @property
    def replicas(self):
        return self.manager.replicas

    @property
    def disk(self):
        return self.host.disk

    async def start(self, *, unfence=True, log_dirs=(DATA,)):
        controller = self.cluster.controller
        self.starts += 1
        runtime = self.host.runtime()
        config = ReplicationConfig(**self.cluster.config)
        directories = await open_directories(
            runtime,
            log_dirs,
            cluster_id=CLUSTER_ID,
            node_id=self.id,
            metadata_dir=None,
            lock=lambda path: None,
        )
        context = ReplicationContext(
            broker_id=self.id,
            config=config,
            runtime=runtime,
            static=StaticConfig(controller.static, node_id=self.id),
            alter_partition=controller.alter_partition,
            assign_directories=controller.assign_directories,
            connect=self._address_of,
            controller_silent_s=lambda: 0.0,
            disk_failed=lambda directories: None,
        )
        manager = await ReplicaManager.open(context, directories)
        folders = manager.replicas.directories
        incarnation = uuid.UUID(int=(9 << 100) + self.id * 1000 + self.starts)
        epoch = controller.register(self.id, incarnation, log_dirs=folders.online_ids, proof=folders.proof)
        manager.registered(epoch)
        self.manager, self.wall_clock = manager, runtime.wall_clock
        self._scope = trio.CancelScope()
        self._ended = trio.Event()
        started = trio.Event()
        self.cluster.nursery.start_soon(self._run, manager, runtime, started, self._scope, self._ended)
        await started.wait()
        self._image = controller.image.copy()
        self._held = None
        self._listening = True
        manager.intake.apply(whole_image(self._image), self._image)
        if unfence:
            controller.unfence(self.id)

    def _address_of(self, other):
        held = self._image.broker(other)
        listener = None if held is None else held.endpoint("PLAINTEXT")
        return None if listener is None else Address(listener.host, listener.port)

    async def _run(self, manager, runtime, started, scope, ended):
        api = SimpleNamespace(
            replicas=manager.replicas,
            endpoint=lambda *_: None,
            image=SimpleNamespace(has_quotas=False),
            is_open=True,
        )

        async def handle(context, request):
            return await fetch_api.handle_fetch(api, context, request)

        try:
            with scope:
                async with trio.open_nursery() as nursery:
                    listener = await runtime.network.listen(Address(self.name, 9092))
                    nursery.start_soon(manager.run)
                    handler = SimpleNamespace(handle=handle, apis=BROKER_APIS)
                    nursery.start_soon(WireServer(listener, handler, KafkaServerConfig()).run)
                    started.set()
        except Exception as error:
            if self._listening:
                self.errors.append(error)
        finally:
            started.set()
            ended.set()

    # Metadata

    def hear(self, base, records):
        if not self._listening:
            return
        if self._held is not None:
            self._held.append((base, records))
            return
        delta = apply_records(self._image, records, base_offset=base, epoch=1)
        self.manager.intake.apply(delta, self._image)

    def hold_metadata(self):
        self._held = self._held or []

    def release_metadata(self, count=None):
        held, self._held = self._held or [], None
        rest = [] if count is None else held[count:]
        for base, records in held if count is None else held[:count]:
            self.hear(base, records)
        if rest:
            self._held = rest

    # Ends

    async def stop(self, *, clean=True):
        """Stop in order: the controller moves the partitions that it leads, and its logs are closed."""
        self.cluster.controller.fence(self.id)
        await self._end()
        await self.manager.close(clean=clean)
        self.manager = None
        self.disk.crash_process()

    async def crash(self, *, power=False):
        """End without tidying up, and without a notice to the controller."""
        self._listening = False
        self.disk.cut()
        self.cluster.network.crash_node(self.name, silent=False)
        await self._end()
        self.manager = None
        if power:
            self.disk.lose_power(self.cluster.random)
        else:
            self.disk.crash_process()
        self.cluster.network.restart_node(self.name)

    async def _end(self):
        self._listening = False
        self._scope.cancel()
        await self._ended.wait()

    # Use

    def partition(self, name="t", partition_id=0):
        return self.replicas.lookups.partition(name, partition_id)

    def produce(self, *values, acks=-1, name="t", partition_id=0, timeout_ms=5000, **fields):
        return self.send(
            batch(*values, **fields), acks=acks, name=name, partition_id=partition_id, timeout_ms=timeout_ms
        )

    def send(self, records, *, acks=-1, name="t", partition_id=0, timeout_ms=5000):
        items = [ProduceItem(name, partition_id, records)]
        return self.replicas.produces.append(items, acks=acks, timeout_ms=timeout_ms)

    async def produced(self, *values, **options):
        """Produce and wait for the answer."""
        pending = self.produce(*values, **options)
        await pending.wait()
        return pending.results()[0]

    async def produce_each(self, values, **options):
        """Produce each value in a batch of its own. None is refused."""
        for value in values:
            result = await self.produced(value, **options)
            assert not result.error, result

    async def deleted(self, offset, *, name="t", partition_id=0, timeout_ms=5000):
        """Delete what is below `offset`, and wait for the answer."""
        items = [DeleteRecordsItem(name, partition_id, offset)]
        pending = await self.replicas.deletions.delete(items, timeout_ms=timeout_ms)
        await pending.wait()
        return pending.results()[0]

    async def fetch(self, offset, *, name="t", partition_id=0, max_wait_ms=0, min_bytes=1, **fields):
        names = ("replica_id", "replica_epoch", "any_replica", "rack_id", "listener")
        options = {key: fields.pop(key) for key in names if key in fields}
        item = FetchItem(name, partition_id, offset, 1 << 20, **fields)
        request = FetchOptions(items=[item], max_wait_ms=max_wait_ms, min_bytes=min_bytes, **options)
        return (await self.replicas.fetches.fetch(request))[0]

    async def consumed(self, offset=0, **options):
        """Values from `offset` on, as a consumer reads them, up to the high watermark."""
        values = []
        while True:
            result = await self.fetch(offset, **options)
            assert not result.error, result
            if not result.records:
                return values
            for piece in result.records:
                for each in read_batches(piece):
                    values += [record.value.decode() for record in records_of(each)]
                    offset = each.header.end_offset

    async def log_bytes(self, name="t", partition_id=0):
        """Everything in the log, as it is."""
        held = self.partition(name, partition_id).log
        pieces, offset = [], int(held.log_start_offset)
        while offset < held.end_offset:
            piece = await held.read(offset, 1 << 20)
            pieces.append(piece)
            offset = list(read_batches(piece))[-1].header.end_offset
        return b"".join(pieces)


class Cluster:
    """Brokers 1 to `brokers`, started with `start`."""

    def __init__(self, nursery, *, brokers=3, seed=0, min_isr=2, **config):
        self.nursery = nursery
        self.random = random.Random(seed)
        self.network = SimulatedNetwork(self.random)
        self.config = config
        self.controller = Controller({"min.insync.replicas": str(min_isr)})
        self.brokers = {each: Broker(self, each) for each in range(1, brokers + 1)}
        self.controller.brokers = list(self.brokers.values())

    def __getitem__(self, broker_id):
        return self.brokers[broker_id]

    async def start(self, *broker_ids):
        for broker_id in broker_ids or self.brokers:
            await self[broker_id].start()

    async def with_topic(self, **fields):
        """All brokers up, one topic `t`, and every broker in its roles."""
        await self.start()
        self.controller.create(**fields)
        await self.all_opened()

    async def opened(self, name="t", partition_id=0):
        """Every broker that is up and has a replica of the partition is in its role."""

        def all_open():
            state = self.controller.state(name, partition_id)
            return all(
                broker.partition(name, partition_id).leader_epoch == state.leader_epoch
                for broker in self.brokers.values()
                if broker.running and broker.id in state.replicas
            )

        await self.until(all_open)

    async def all_opened(self, name="t"):
        """Every broker that is up is in its roles in all partitions of the topic."""
        for partition_id in range(len(self.controller.image.partitions(self.controller.topic_id(name)))):
            await self.opened(name, partition_id)

    async def lead(self, leader, *, name="t", **changes):
        """Elect a leader, and wait until every broker is in its role."""
        self.controller.elect(leader, name=name, **changes)
        await self.opened(name)

    async def restart(self, broker_id, *, stop=False, power=False, fence=False, **options):
        """End a broker, in order (`stop`) or not, start it again, and wait until every broker is in its role.
        `fence`: the controller notices a crash. `options`: those of `Broker.start`."""
        broker = self[broker_id]
        if stop:
            await broker.stop()
        else:
            await broker.crash(power=power)
        if fence:
            self.controller.fence(broker_id)
        await broker.start(**options)
        await self.opened()

    async def until(self, condition, *, within_s=60.0):
        """`condition` may ask for partitions that are not open yet."""
        with trio.fail_after(within_s):
            while True:
                try:
                    if condition():
                        return
                except PartitionError:
                    pass
                await trio.sleep(0.01)

    async def in_sync(self, *broker_ids, name="t"):
        await self.until(lambda: sorted(self.controller.state(name).isr) == sorted(broker_ids))

    async def caught_up(self, *broker_ids, name="t", within_s=60.0):
        """Logs end where the leader's does, and all know its high watermark."""

        def equal():
            leader = self[self.controller.state(name).leader].partition(name)
            return all(
                self[each].partition(name).log.end_offset == leader.log.end_offset
                and self[each].partition(name).high_watermark == leader.high_watermark
                for each in broker_ids or self.brokers
            )

        await self.until(equal, within_s=within_s)

    def cut_off(self, broker_id):
        """No traffic between it and the other brokers; the controller still reaches it."""
        others = [each.name for each in self.brokers.values() if each.id != broker_id]
        self.network.partition([self[broker_id].name], others)

    def heal(self):
        self.network.heal()


@pytest.fixture
async def make_brokers(nursery):
    """A `Cluster`. Tests ask for `autojump_clock` too, by name, as pytest-trio wants it."""
    brokers = []

    def make(**options):
        cluster = Cluster(nursery, **options)
        brokers.extend(cluster.brokers.values())
        return cluster

    yield make
    errors = {broker.id: broker.errors for broker in brokers if broker.errors}
    assert errors == {}, "brokers ended by themselves, and the test did not expect it"


@pytest.fixture
def make_cluster(make_brokers):
    """`await make_cluster(2)`: two brokers, and topic `t` with a replica on both. Without a number there are
    three, and two of them have to be in sync. `log_dirs`: of broker 1. `cut_off`: brokers that never hear of
    another one."""

    async def make(brokers=3, *, min_isr=None, log_dirs=(DATA,), racks=None, cut_off=(), **options):
        topic = {key: options.pop(key) for key in ("replicas", "isr", "partitions") if key in options}
        min_isr = min_isr or (2 if brokers > 2 else 1)
        cluster = make_brokers(brokers=brokers, min_isr=min_isr, **options)
        cluster.controller.racks = racks or {}
        for each in cluster.brokers.values():
            await each.start(log_dirs=log_dirs if each.id == 1 else (DATA,))
        for each in cut_off:
            cluster.cut_off(each)
        cluster.controller.create(**{"replicas": tuple(range(1, brokers + 1))} | topic)
        await cluster.all_opened()
        return cluster

    return make


async def with_old_segments(make_cluster, *, values=60, **options):
    """Three brokers with records in closed segments of `t`, each in a batch of its own, and a scrub."""
    cluster = await make_cluster(**({"scrub_interval_ms": 5000} | options))
    cluster.controller.configure(segment_bytes=1000, index_interval_bytes=200)
    await cluster[1].produce_each(f"value {number}" for number in range(values))
    await cluster.caught_up()
    return cluster


def batch_size(broker):
    """The size of the first batch in `FIRST`."""
    return int.from_bytes(broker.disk.content(FIRST)[8:12], "big") + 12
