"""The operator's verbs while nodes are killed, stopped, parted one way and run out of disk, drawn from a seed
that is printed. Every answer is true afterwards: what was done is there, what was refused is not, and what is
unknown is one or the other."""

import enum
import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from kio.schema.errors import ErrorCode

from quorate.broker.admin.controllers import Controllers
from quorate.broker.controller.rpc import FewerPartitions, ShrinkTopicsRequest
from quorate.broker.wire.api import ApiKey
from quorate.raft import RequestRefusedError
from quorate.runtime.network import Address
from quorate.runtime.real import RealNetwork
from tests.kit.full_disk import fill
from tests.kit.namespaces import NODES, Namespaces
from tests.system.fleet_operator import Fleet
from tests.system.node_connections import PATIENCE_S, Cluster, NotAskedError

pytestmark = [pytest.mark.system, pytest.mark.slow]

SECONDS = 30.0
"""The time of the faults. The cluster needs some more to begin and to end."""
COMPARED_S = 30.0
"""The limit of an answer when nothing else happens any more."""
TIMEOUT = timedelta(seconds=2.5)
OPERATORS = 3
SPARE = 4
"""A broker that is no controller. It is drained, unregistered and started anew."""
SMALL_DISK = 2
"""The node whose data is on a disk of 64 MB."""
UNKNOWN: Final = {
    ErrorCode.request_timed_out,
    ErrorCode.unknown_server_error,
    ErrorCode.not_controller,
    ErrorCode.not_coordinator,
    ErrorCode.coordinator_not_available,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.not_leader_or_follower,
    ErrorCode.leader_not_available,
    ErrorCode.network_exception,
}
"""Errors after which the request may have been carried out."""


class Fault(enum.Enum):
    KILL_ASKED = "kill who is asked"
    KILL_CONTROLLER = "kill the active controller"
    KILL_ALONE = "kill the active controller while the others stand still"
    """The controller's own answers are lost then."""
    STOP = "stop"
    MUTE = "mute"
    FILL = "fill the disk"


@dataclass(frozen=True)
class State:
    """An operator's knowledge of a topic."""

    there: bool = False
    partitions: int = 0
    retention: str | None = None
    replicas: frozenset[int] = frozenset(NODES)
    quota: float | None = None
    committed: int = -1
    """The offset that the group of the topic's name has committed in its partition 0."""


@dataclass
class Thing:
    """A topic, and the client and the group of its name. After an answer that never came it is left alone:
    the request may yet be carried out."""

    name: str
    possible: list[State] = field(default_factory=lambda: [State()])
    history: list[str] = field(default_factory=list)

    @property
    def known(self) -> bool:
        return len(self.possible) == 1

    @property
    def state(self) -> State:
        (state,) = self.possible
        return state


Verb = tuple[str, Callable[[], Any], State]
"""A request in words, the call, and the state when it is done."""


class Operator:
    """Asks for one thing after the other, of any broker, and notes the answers."""

    def __init__(self, cluster: Cluster, number: int, draw: random.Random) -> None:
        self.cluster = cluster
        self.number = number
        self.draw = draw
        self.things: list[Thing] = []
        self.outcomes: dict[str, int] = {}
        self.asked_of = 1

    async def run(self) -> None:
        while True:
            known = [thing for thing in self.things if thing.known]
            if len(known) < 3:
                known.append(Thing(f"topic-{self.number}-{len(self.things)}"))
                self.things.append(known[-1])
            await self.ask(self.draw.choice(known))
            await trio.sleep(self.draw.uniform(0, 0.1))

    async def ask(self, thing: Thing) -> None:
        before = thing.state
        what, action, after = self.draw.choice(list(self.verbs(thing, before)))
        self.asked_of = self.draw.choice(NODES)
        thing.possible = [before, after]
        try:
            with trio.fail_after(PATIENCE_S):
                error = await action()
        except NotAskedError:
            outcome, thing.possible = "not asked", [before]
        except (Exception, trio.TooSlowError) as failure:
            outcome = f"unknown ({type(failure).__name__})"
        else:
            if error is ErrorCode.none:
                outcome, thing.possible = "done", [after]
            elif error in UNKNOWN:
                outcome = f"unknown ({error.name})"
            else:
                outcome, thing.possible = f"refused ({error.name})", [before]
        if after == before:
            thing.possible = [before]
        thing.history.append(f"{what} of broker {self.asked_of}: {outcome}")
        kind = f"{what.split()[0]}: {outcome.split()[0]}"
        self.outcomes[kind] = self.outcomes.get(kind, 0) + 1

    # Verbs

    def verbs(self, thing: Thing, now: State) -> Iterator[Verb]:
        """Yield the requests that are possible for a topic in this state, those that have to be refused among
        them."""
        name, count = thing.name, self.draw.randint(1, 4)
        created = State(there=True, partitions=count, quota=now.quota)
        if not now.there:
            for _ in range(4):  # as likely as all the rest together
                yield f"create {count}", lambda: self.create(name, count), created
            yield "delete nothing", lambda: self.delete(name), now
            return
        more, value = now.partitions + count, str(self.draw.randint(10**6, 10**9))
        replicas = tuple(self.draw.sample(NODES, self.draw.choice((2, 3))))
        gone = State(quota=now.quota)
        yield "create again", lambda: self.create(name, count), now
        yield "delete", lambda: self.delete(name), gone
        yield f"grow to {more}", lambda: self.grow(name, more, added=count), replace(now, partitions=more)
        yield "grow to nothing", lambda: self.grow(name, 0, added=0), now
        if now.partitions > 1:
            fewer = now.partitions - 1
            yield f"shrink to {fewer}", lambda: self.shrink(name, fewer), replace(now, partitions=fewer)
        yield f"set {value}", lambda: self.configure(name, value), replace(now, retention=value)
        yield "set nonsense", lambda: self.configure(name, "soon"), now
        yield (
            f"move to {replicas}",
            lambda: self.move(name, replicas),
            replace(now, replicas=frozenset(replicas)),
        )
        yield "elect", lambda: self.elect(name), now
        rate = float(self.draw.randint(10**6, 10**9))
        yield f"quota {rate}", lambda: self.limit(name, rate), replace(now, quota=rate)
        offset = self.draw.randint(0, 10**6)
        yield f"commit {offset}", lambda: self.commit(name, offset), replace(now, committed=offset)
        if now.committed >= 0:
            yield "forget group", lambda: self.forget_group(name), replace(now, committed=-1)
            yield "forget offset", lambda: self.forget_offset(name), replace(now, committed=-1)

    async def call(self, api: ApiKey, node: int | None = None, **values: Any) -> Any:
        return await self.cluster.call(self.asked_of if node is None else node, api, **values)

    async def create(self, name: str, count: int) -> ErrorCode:
        # Not on the spare broker, which is drained.
        assignments = [{"partition_index": each, "broker_ids": self.replicas()} for each in range(count)]
        topic = {"name": name, "num_partitions": -1, "replication_factor": -1, "configs": ()}
        topics = [topic | {"assignments": assignments}]
        answer = await self.call(ApiKey.CREATE_TOPICS, topics=topics, timeout=TIMEOUT)
        return answer.topics[0].error_code

    def replicas(self) -> tuple[int, ...]:
        return tuple(self.draw.sample(NODES, len(NODES)))

    async def delete(self, name: str) -> ErrorCode:
        topics = [{"name": name, "topic_id": None}]
        answer = await self.call(ApiKey.DELETE_TOPICS, topics=topics, timeout=TIMEOUT)
        return answer.responses[0].error_code

    async def grow(self, name: str, count: int, *, added: int) -> ErrorCode:
        assignments = [{"broker_ids": self.replicas()} for _ in range(added)]
        topics = [{"name": name, "count": count, "assignments": assignments}]
        asked = {"topics": topics, "timeout": TIMEOUT, "validate_only": False}
        return (await self.call(ApiKey.CREATE_PARTITIONS, **asked)).results[0].error_code

    async def shrink(self, name: str, count: int) -> ErrorCode:
        """Send our own request to the controllers."""
        addresses = [Address(self.cluster.namespaces.host(node), 19092) for node in NODES]
        request = ShrinkTopicsRequest(topics=(FewerPartitions(name=name, count=count),))
        try:
            answer = await Controllers(RealNetwork(), addresses, timeout_ms=2500).ask(request)
        except RequestRefusedError as refused:
            return ErrorCode(int(refused.code))
        return ErrorCode(int(answer.error or answer.topics[0].error))

    async def configure(self, name: str, value: str) -> ErrorCode:
        config = {"name": "retention.ms", "config_operation": 0, "value": value}
        resources = [{"resource_type": 2, "resource_name": name, "configs": [config]}]
        answer = await self.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=resources, validate_only=False)
        return answer.responses[0].error_code

    async def move(self, name: str, replicas: tuple[int, ...]) -> ErrorCode:
        part = {"partition_index": 0, "replicas": replicas}
        topics = [{"name": name, "partitions": [part]}]
        answer = await self.call(ApiKey.ALTER_PARTITION_REASSIGNMENTS, topics=topics, timeout=TIMEOUT)
        if answer.error_code is not ErrorCode.none:
            return answer.error_code
        return answer.responses[0].partitions[0].error_code

    async def elect(self, name: str) -> ErrorCode:
        asked = [{"topic": name, "partitions": (0,)}]
        answer = await self.call(
            ApiKey.ELECT_LEADERS, election_type=0, topic_partitions=asked, timeout=TIMEOUT
        )
        return answer.error_code

    async def limit(self, name: str, rate: float) -> ErrorCode:
        entity = [{"entity_type": "client-id", "entity_name": name}]
        ops = [{"key": "producer_byte_rate", "value": rate, "remove": False}]
        entries = [{"entity": entity, "ops": ops}]
        answer = await self.call(ApiKey.ALTER_CLIENT_QUOTAS, entries=entries, validate_only=False)
        return answer.entries[0].error_code

    async def coordinator(self, name: str) -> int:
        try:
            found = await self.call(ApiKey.FIND_COORDINATOR, coordinator_keys=(name,))
        except Exception as error:
            raise NotAskedError from error
        (one,) = found.coordinators
        if one.error_code is not ErrorCode.none:
            raise NotAskedError
        return int(one.node_id)

    async def commit(self, name: str, offset: int) -> ErrorCode:
        part = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
        topics = [{"name": name, "partitions": [part]}]
        node = await self.coordinator(name)
        answer = await self.call(
            ApiKey.OFFSET_COMMIT, node, at_most=8, group_id=name, member_id="", topics=topics
        )
        return answer.topics[0].partitions[0].error_code

    async def forget_group(self, name: str) -> ErrorCode:
        node = await self.coordinator(name)
        answer = await self.call(ApiKey.DELETE_GROUPS, node, groups_names=(name,))
        return answer.results[0].error_code

    async def forget_offset(self, name: str) -> ErrorCode:
        node = await self.coordinator(name)
        topics = [{"name": name, "partitions": [{"partition_index": 0}]}]
        answer = await self.call(ApiKey.OFFSET_DELETE, node, group_id=name, topics=topics)
        if answer.error_code is not ErrorCode.none:
            return answer.error_code
        return answer.topics[0].partitions[0].error_code


class Faults:
    """Faults, one after the other, each healed before the next."""

    def __init__(self, namespaces: Namespaces, draw: random.Random, operators: list[Operator]) -> None:
        self.namespaces = namespaces
        self.draw = draw
        self.operators = operators
        self.happened: list[str] = []

    async def run(self) -> None:
        kinds = list(Fault)
        self.draw.shuffle(kinds)
        while True:
            for kind in kinds:
                await trio.sleep(self.draw.uniform(0.5, 1.5))
                with trio.CancelScope(shield=True):
                    await self.fault(kind)

    async def fault(self, kind: Fault) -> None:
        nodes, node = self.namespaces, self.draw.choice(NODES)
        pause = self.draw.uniform(0.5, 4)
        match kind:
            case Fault.KILL_CONTROLLER | Fault.KILL_ALONE:
                with suppress(Exception):
                    node = int((await trio.to_thread.run_sync(nodes.quorum))["leaderId"])
            case Fault.KILL_ASKED:
                node = self.draw.choice(self.operators).asked_of
            case Fault.FILL:
                node = SMALL_DISK
        self.happened.append(f"{kind.value}: {node}")
        others = [each for each in NODES if each != node]
        match kind:
            case Fault.KILL_ALONE:
                for each in others:
                    nodes.signal(each, signal.SIGSTOP)
                await trio.sleep(1)
                await trio.to_thread.run_sync(nodes.kill, node)
                for each in others:
                    nodes.signal(each, signal.SIGCONT)
                await trio.sleep(pause)
            case Fault.STOP:
                nodes.signal(node, signal.SIGSTOP)
                await trio.sleep(pause)
                nodes.signal(node, signal.SIGCONT)
            case Fault.MUTE:
                await trio.to_thread.run_sync(nodes.mute, node)
                await trio.sleep(pause + 1)
                await trio.to_thread.run_sync(nodes.unmute, node)
            case Fault.FILL:
                filler = await trio.to_thread.run_sync(fill, nodes.data_folder(node))
                await trio.sleep(pause)
                filler.unlink()
            case _:
                await trio.to_thread.run_sync(nodes.kill, node)
                await trio.sleep(pause / 2)
        # One whose disk was full has ended by itself, or will. The spare one is not ours.
        await trio.to_thread.run_sync(nodes.start, *NODES)


@pytest.fixture
def namespaces(
    tmp_path: Path, need: Callable[..., str], small_disk: Callable[[Path, str], None]
) -> Iterator[Namespaces]:
    need("ip", "iproute2")
    overrides = {"offsets.topic.num.partitions": "4"}
    with Namespaces.built(tmp_path, "o", 150, overrides=overrides, brokers=(SPARE,)) as made:
        small_disk(made.data_folder(SMALL_DISK), "64m")
        made.start()
        yield made


def test_every_answer_to_an_operator_is_true_after_all_faults(
    namespaces: Namespaces, pytestconfig: pytest.Config
) -> None:
    seed = int(os.environ.get("QUORATE_OPERATORS_SEED", random.SystemRandom().randrange(10**6)))
    print(f"QUORATE_OPERATORS_SEED={seed}")
    trio.run(scenario, namespaces, seed)


async def scenario(namespaces: Namespaces, seed: int) -> None:
    draw = random.Random(seed)
    async with trio.open_nursery() as nursery:
        cluster = Cluster(namespaces, nursery)
        operators = [Operator(cluster, number, random.Random(draw.random())) for number in range(OPERATORS)]
        faults = Faults(namespaces, random.Random(draw.random()), operators)
        fleet = Fleet(cluster, SPARE, UNKNOWN, random.Random(draw.random()))
        await ready(cluster)
        # The offsets topic now: later its replicas would come to a broker that is drained.
        await operators[0].coordinator("any")
        with trio.move_on_after(SECONDS):
            async with trio.open_nursery() as busy:
                for each in operators:
                    busy.start_soon(each.run)
                busy.start_soon(fleet.run)
                busy.start_soon(faults.run)
        for node in NODES:
            namespaces.signal(node, signal.SIGCONT)
        await ready(cluster)
        things = [thing for each in operators for thing in each.things]
        print("; ".join(faults.happened))
        print({kind: sum(each.outcomes.get(kind, 0) for each in operators)
               for kind in sorted({kind for each in operators for kind in each.outcomes})})  # fmt: skip
        await compare(cluster, things)
        await fleet.finish()
        await ready(cluster)
        print(fleet.outcomes())
        wrong = await fleet.compare(namespaces.nodes)
        assert not wrong, "\n".join(wrong)
        done = sum(count for each in operators for kind, count in each.outcomes.items() if "done" in kind)
        assert done >= 10, "too little was done to say anything"
        nursery.cancel_scope.cancel()


async def ready(cluster: Cluster) -> None:
    """Wait until all nodes serve, and every partition has all its replicas in sync and moves no more."""
    problem: object = None
    with trio.move_on_after(90):
        while True:
            # It may have found its disk full after it was looked at last.
            await trio.to_thread.run_sync(cluster.namespaces.start, SMALL_DISK)
            try:
                for node in cluster.namespaces.nodes:
                    if problem := await unready(cluster, node):
                        break
                else:
                    return
            except Exception as error:
                problem = error
            await trio.sleep(0.2)
    raise AssertionError(f"not ready within 90 s: {problem!r}")


async def unready(cluster: Cluster, node: int) -> object:
    """Return what a node knows to be amiss."""
    answer = await cluster.call(node, ApiKey.METADATA, topics=None, timeout_s=5)
    if len(answer.brokers) < len(cluster.namespaces.nodes):
        return f"brokers {[each.node_id for each in answer.brokers]}"
    moving = await cluster.call(
        node, ApiKey.LIST_PARTITION_REASSIGNMENTS, topics=None, timeout=TIMEOUT, timeout_s=5
    )
    if moving.topics:
        return moving.topics
    return [
        (topic.name, part.partition_index, part.replica_nodes, part.isr_nodes)
        for topic in answer.topics
        for part in topic.partitions
        if sorted(part.replica_nodes) != sorted(part.isr_nodes)
    ]


async def compare(cluster: Cluster, things: list[Thing]) -> None:
    wrong: list[str] = []
    for node in NODES:
        found = await actual(cluster, node, things)
        for thing in things:
            # A topic that is gone takes the offsets and settings along; the quota is the client's.
            possible = thing.possible
            if found[thing.name] not in possible:
                wrong.append(
                    f"broker {node}: {thing.name} is {found[thing.name]}, and may be {possible}\n  "
                    + "\n  ".join(thing.history)
                )
    assert not wrong, "\n".join(wrong)


async def actual(cluster: Cluster, node: int, things: list[Thing]) -> dict[str, State]:
    """Return the state of each topic as a node has it."""
    ask = partial(cluster.call, node, timeout_s=COMPARED_S)
    metadata = await ask(ApiKey.METADATA, topics=None)
    topics = {topic.name: topic for topic in metadata.topics}
    quotas = await ask(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        components=[{"entity_type": "client-id", "match_type": 2, "match": None}],
        strict=True,
    )
    limits = {each.entity[0].entity_name: each.values[0].value for each in quotas.entries or ()}
    states: dict[str, State] = {}
    for thing in things:
        topic, quota = topics.get(thing.name), limits.get(thing.name)
        if topic is None:
            states[thing.name] = State(quota=quota)
            continue
        resource = {"resource_type": 2, "resource_name": thing.name, "configuration_keys": ("retention.ms",)}
        described = await ask(
            ApiKey.DESCRIBE_CONFIGS, resources=[resource], include_synonyms=False, include_documentation=False
        )
        (config,) = described.results[0].configs
        first = next(part for part in topic.partitions if part.partition_index == 0)
        states[thing.name] = State(
            there=True,
            partitions=len(topic.partitions),
            retention=config.value if config.config_source == 1 else None,
            replicas=frozenset(first.replica_nodes),
            quota=quota,
            committed=await committed(cluster, node, thing.name),
        )
    return states


async def committed(cluster: Cluster, node: int, group: str) -> int:
    found = await cluster.call(node, ApiKey.FIND_COORDINATOR, coordinator_keys=(group,), timeout_s=COMPARED_S)
    coordinator = int(found.coordinators[0].node_id)
    topics = [{"name": group, "partition_indexes": (0,)}]
    for _ in range(100):
        answer = await cluster.call(
            coordinator, ApiKey.OFFSET_FETCH, at_most=7, group_id=group, topics=topics,
            require_stable=False, timeout_s=COMPARED_S,
        )  # fmt: skip
        if answer.error_code is not ErrorCode.coordinator_load_in_progress:
            break
        await trio.sleep(0.1)
    assert answer.error_code is ErrorCode.none
    return int(answer.topics[0].partitions[0].committed_offset)
