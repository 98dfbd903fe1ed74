"""A rolling change of code: records of a new kind only once every voter can apply them."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
import trio

from quorate import blocking
from quorate.cli.node.free_ports import free_ports
from quorate.error_code import ErrorCode
from quorate.log.batches.batch import read_batches
from quorate.log.batches.control import read_kraft_version, state_version_batch, state_version_in, voters_in
from quorate.log.batches.records import records_of
from quorate.raft import (
    CodeSupport,
    CommittedBatch,
    InvalidAppendError,
    NotLeaderError,
    QuorumConfig,
    QuorumConfigError,
    RequestRefusedError,
    Session,
    Sessions,
    StateMachineError,
    parse_voters,
)
from quorate.raft.state_machine.append_queue import AppendQueue, QueuedAppend
from quorate.raft.state_machine.plain import with_snapshots
from quorate.types import Endpoint, NodeId, Voter, VoterSet


@dataclass
class Number:
    """Version 0: adds."""

    value: int = 1

    def apply(self, batch: CommittedBatch) -> Sequence[int]:
        return [self.step(record, batch.state_version) for record in batch.records]

    def step(self, record: bytes, version: int) -> int:
        operation, amount = record.split()
        if operation != b"add":
            raise ValueError(f"unknown operation {record!r}")
        self.value += int(amount)
        return self.value


@dataclass
class NextNumber(Number):
    """Version 1: multiplies too."""

    code_version: ClassVar[int] = 1

    def needed_version(self, record: bytes) -> int:
        return int(record.startswith(b"multiply"))

    def step(self, record: bytes, version: int) -> int:
        if record.startswith(b"multiply"):
            self.value *= int(record.split()[1])
            return self.value
        return super().step(record, version)


@dataclass
class OtherRule(NextNumber):
    """Another rule for records of before, from the place on at which all agreed on it."""

    def step(self, record: bytes, version: int) -> int:
        if version >= 1:
            self.value += 1000
        return super().step(record, version)


async def start(world, *machines):
    for node, machine in enumerate(machines, start=1):
        await world.start(node, journal=machine)
    return await world.leader()


async def change_code(world, node, machine):
    await world.stop(node)
    await world.start(node, journal=machine)
    end = (await world.leader()).applied_offset
    await world.quorums[node].wait_applied(end)


async def stopped_with(world, node):
    await world.until(lambda: world.ended[node].is_set())
    error = world.failures.pop(node)
    error = error if isinstance(error, StateMachineError) else error.__cause__
    assert isinstance(error, StateMachineError), error
    return str(error)


async def all_values(world):
    end = (await world.leader()).applied_offset
    for quorum in world.quorums.values():
        await quorum.wait_applied(end)
    return {world.journals[node].value for node in world.quorums}


async def test_a_new_kind_of_record_waits_until_every_voter_can_apply_it(autojump_clock, world):
    await start(world, Number, Number, NextNumber)
    for node in (1, 2, 3):
        await world.quorums[3].append([b"add 1"])
        with pytest.raises(InvalidAppendError, match=r"need version 1 .* agreed on 0; once every voter runs"):
            await world.quorums[3].append([b"multiply 2"])
        if node == 3:
            break
        leader = await world.leader()
        with pytest.raises(RequestRefusedError, match=r"node 2 runs version 0.*; start version 1") as refused:
            await leader.raise_state_version(1)
        assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
        await change_code(world, node, NextNumber)
    leader = await world.leader()
    await leader.raise_state_version(1)
    for number, quorum in enumerate(world.quorums.values()):
        await quorum.wait_applied(leader.applied_offset)
        assert quorum.state_version == 1
        assert (await quorum.append([b"multiply 2"])).results == (4 * 2 ** (number + 1),)
    assert await all_values(world) == {32}


async def test_it_is_raised_on_the_leader_only_once_and_never_lowered(autojump_clock, world):
    leader = await start(world, NextNumber, NextNumber, NextNumber)
    with pytest.raises(NotLeaderError):
        await (await world.followers())[0].raise_state_version(1)
    await leader.raise_state_version(1)
    end = leader.log.end_offset
    await leader.raise_state_version(1)
    await leader.raise_state_version(0)
    assert (leader.log.end_offset, leader.state_version) == (end, 1)
    with pytest.raises(RequestRefusedError, match="node 1 runs version 1, node 2 runs version 1,"):
        await leader.raise_state_version(2)


async def test_a_voter_that_is_down_or_says_nothing_has_not_agreed(autojump_clock, world):
    leader = await start(world, NextNumber, NextNumber, NextNumber)
    quiet, down = (quorum.node_id for quorum in await world.followers())
    world.quorums[quiet]._node.support = None  # as a quorate of before
    await world.crash(down)
    with pytest.raises(RequestRefusedError) as refused:
        await leader.raise_state_version(1)
    for voter in (quiet, down):
        assert f"node {voter} did not say" in str(refused.value)
    assert f"node {leader.node_id} " not in str(refused.value)


@pytest.mark.bug("etcd issue 13514")
@pytest.mark.parametrize("snapshot", [False, True])
async def test_a_node_that_goes_back_to_older_code_stops_and_names_both_versions(
    autojump_clock, world, snapshot
):
    leader = await start(world, NextNumber, NextNumber, NextNumber)
    await leader.raise_state_version(1)
    await leader.append([b"multiply 5"])
    if snapshot:
        for quorum in world.quorums.values():
            await quorum.wait_applied(leader.applied_offset)
            await quorum.take_snapshot()
    node = (await world.followers())[0].node_id
    await world.stop(node)
    if snapshot:
        with trio.move_on_after(60):
            await world._run(node, Number, trio.TASK_STATUS_IGNORED)
        with pytest.raises(StateMachineError, match=r"may need version 1 .* runs version 0; start it with"):
            raise world.failures.pop(node)
    else:
        await world.start(node, journal=Number)
        assert "records from offset" in (said := await stopped_with(world, node))
        assert "may need version 1 of the state machine's code, and this node runs version 0" in said
    await world.start(node, journal=NextNumber)
    await leader.append([b"add 1"])
    assert await all_values(world) == {6}


@pytest.mark.slow
async def test_the_version_is_in_snapshots_that_nodes_fetch_and_start_from(autojump_clock, world):
    world.overrides["retention_bytes"] = 0
    leader = await start(world, NextNumber, NextNumber, NextNumber)
    await leader.raise_state_version(1)
    for _ in range(2):
        await leader.append([b"multiply 2"])
        for quorum in world.quorums.values():
            await quorum.wait_applied(leader.applied_offset)
            await quorum.take_snapshot()
    node = (await world.followers())[0].node_id
    await world.stop(node)
    world.replace_disk(node)
    await world.start(node, journal=NextNumber)
    await world.quorums[node].wait_applied(leader.applied_offset)
    assert world.quorums[node].state_version == 1
    for each in (1, 2, 3):
        await world.stop(each)
    await world.start(1, 2, 3, journal=NextNumber)
    leader = await world.leader()
    assert (await leader.append([b"multiply 2"])).results == (8,)


async def test_apply_may_go_by_the_version_because_it_changes_at_one_place_of_the_log(autojump_clock, world):
    leader = await start(world, OtherRule, OtherRule, OtherRule)
    async with trio.open_nursery() as nursery:
        for quorum in world.quorums.values():
            for _ in range(20):
                nursery.start_soon(quorum.append, [b"add 1"])
        await trio.sleep(0.001)
        nursery.start_soon(leader.raise_state_version, 1)
    await leader.append([b"add 1"])
    (value,) = await all_values(world)
    assert value > 1000
    for node in (1, 2, 3):
        await world.stop(node)
    await world.start(1, 2, 3, journal=OtherRule)
    await (await world.leader()).append([b"add 1"])
    assert await all_values(world) == {value + 1001}


async def test_an_observer_with_older_code_becomes_no_voter(autojump_clock, world):
    leader = await world.start_one(journal=NextNumber, voters=parse_voters("1@node-1:9093"))
    await leader.adopt_voters()
    await leader.raise_state_version(1)
    await leader.append([b"multiply 2"])
    world.overrides |= {"voters": VoterSet(()), "bootstrap": (Endpoint("node-1", 9093),)}
    await world.start(2, journal=Number)
    assert "this node runs version 0" in await stopped_with(world, 2)
    with pytest.raises(RequestRefusedError):
        await leader.add_voter(Voter(world.quorums[2]._node.key, Endpoint("node-2", 9093)), timeout_ms=2000)
    del world.quorums[2]


async def test_support_tells_versions_and_whether_sessions_are_on_everywhere(autojump_clock, world):
    leader = await start(world, lambda: Sessions(NextNumber()), lambda: Sessions(NextNumber()), NextNumber)
    assert await leader.ask_support() == {
        1: CodeSupport(1, sessions=True),
        2: CodeSupport(1, sessions=True),
        3: CodeSupport(1, sessions=False),
    }


async def test_records_of_a_session_wait_for_the_version_too(autojump_clock, world):
    leader = await start(world, *[lambda: Sessions(NextNumber())] * 3)
    async with Session.open((await world.followers())[0]) as session:
        await session.append([b"add 1"])
        with pytest.raises(InvalidAppendError, match="need version 1"):
            await session.append([b"multiply 2"])
        await leader.raise_state_version(1)
        await world.quorums[session._appender.node_id].wait_applied(leader.applied_offset)
        assert (await session.append([b"multiply 2"])).results == (4,)


async def test_the_record_is_kafkas_and_changes_no_voters(autojump_clock, world):
    leader = await start(world, NextNumber, NextNumber, NextNumber)
    await leader.raise_state_version(1)
    await leader.append([b"add 1"])
    batches = list(read_batches(await leader.log.read(0, 1 << 20)))
    (batch,) = [each for each in batches if each.header.is_control and state_version_in(each)]
    ((record,), version) = records_of(batch), state_version_in(batch)
    assert (read_kraft_version(record.value), version) == (0, 1)
    # By KIP-482: one tagged field, with its tag, its size and an int32.
    assert record.value == b"\x00\x00\x00\x00" + b"\x01\x90\x4e\x04" + b"\x00\x00\x00\x01"
    assert voters_in(batch) is None


async def test_in_a_quorum_with_its_voters_in_the_log_it_keeps_the_kraft_version(autojump_clock, world):
    leader = await world.start_one(journal=NextNumber)
    await leader.adopt_voters()
    await leader.raise_state_version(1)
    batches = list(read_batches(await leader.log.read(0, 1 << 20)))
    (record,) = records_of(batches[-1])
    assert read_kraft_version(record.value) == 1
    assert leader.has_dynamic_voters


def test_a_state_version_is_read_from_a_control_batch_alone():
    batch = state_version_batch(base_offset=7, epoch=2, timestamp_ms=1, kraft_version=1, state_version=3)
    (read,) = read_batches(batch)
    assert state_version_in(read) == 3


class Waiter:
    def applied(self, *args): ...

    def failed(self, error): ...


def test_a_change_of_the_version_shares_its_batch_with_no_records():
    queue = AppendQueue(max_batch_bytes=1000, max_pending_bytes=1000)
    for version in (None, None, 1, 2, None):
        queue.add(QueuedAppend([b"x"], 1, Waiter(), version))
    counts = []
    while queue.has_waiting:
        _, proposal = queue.next_proposal()
        counts.append((proposal.count, proposal.state_version))
    assert counts == [(2, None), (1, 1), (1, 2), (1, None)]


@pytest.mark.parametrize("version", [-1, "2", True, 1.0, 2**31])
def test_a_version_that_is_none_is_refused(version):
    class Wrong(Number):
        code_version = version

    with pytest.raises(QuorumConfigError, match=r"Wrong.code_version is .*; it must be 0 or more"):
        with_snapshots(Wrong())


def test_a_version_that_would_be_state_is_refused():
    @dataclass
    class Field(Number):
        code_version: int = 1

    with pytest.raises(QuorumConfigError, match="declare it as a ClassVar"):
        with_snapshots(Field())


async def test_a_needed_version_that_raises_refuses_the_append(autojump_clock, world):
    class Raising(NextNumber):
        def needed_version(self, record):
            raise KeyError("no such kind")

    leader = await world.start_one(journal=Raising)
    with pytest.raises(InvalidAppendError, match="needed_version refuses the records: KeyError"):
        await leader.append([b"add 1"])


# With real nodes


@pytest.mark.slow
@pytest.mark.system
def test_real_nodes_are_changed_one_after_the_other_while_they_serve(tmp_path: Path) -> None:
    ports = free_ports(3)
    voters = parse_voters(",".join(f"{node}@127.0.0.1:{port}" for node, port in enumerate(ports, start=1)))

    def config(node: int) -> QuorumConfig:
        return QuorumConfig(
            node_id=NodeId(node), cluster_id="rolling", folder=str(tmp_path / str(node)), voters=voters
        )

    class Node:
        def __init__(self, node: int) -> None:
            self.node, self.open = node, ExitStack()
            blocking.format_folder(config(node).folder, cluster_id="rolling", node_id=NodeId(node))

        def start(self, machine: Callable[[], Number]) -> None:
            self.state = machine()
            self.quorum = self.open.enter_context(blocking.Quorum.open(config(self.node), self.state))

    nodes = [Node(1), Node(2), Node(3)]
    with ExitStack() as running:
        for node in nodes:
            running.push(node.open)
            node.start(Number)
        nodes[0].quorum.wait_leader(timeout_ms=20_000)
        assert nodes[0].quorum.append([b"add 1"], timeout_ms=20_000).results == (2,)
        for changed in nodes:
            changed.open.close()
            changed.start(NextNumber)
            for node in nodes:
                node.quorum.wait_leader(timeout_ms=20_000)
            with pytest.raises(InvalidAppendError, match="agreed on 0"):
                changed.quorum.append([b"multiply 3"])
            changed.quorum.append([b"add 1"], timeout_ms=20_000)
        leader = next(node for node in nodes if node.quorum.is_leader)
        leader.quorum.raise_state_version(1)
        for node in nodes:
            node.quorum.wait_applied(leader.quorum.applied_offset)
            node.quorum.append([b"multiply 3"], timeout_ms=20_000)
        values = [node.quorum.read(lambda node=node: node.state.value, timeout_ms=20_000) for node in nodes]
    assert values == [5 * 27] * 3
