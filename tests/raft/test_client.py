"""A client that is no member of the quorum: it finds the leader, follows it, and doubles nothing."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from quorate.cbor import dump
from quorate.client import Client
from quorate.raft import (
    CommittedBatch,
    InvalidAppendError,
    LeaderNotFoundError,
    NotLeaderError,
    OutcomeUnknownError,
    PeerProtocolError,
    QuorumConfigError,
    QuorumStoppedError,
    RequestRefusedError,
    Sessions,
)
from quorate.raft.clients.client_messages import (
    ClientAppend,
    ClientRead,
    decode_appended,
    decode_client_request,
    encode_client_request,
)
from quorate.raft.sessions.session_records import CloseSession, encode_command
from quorate.raft.transport.append_frames import encode_request
from quorate.raft.transport.channel import Channel
from quorate.raft.transport.frames import PREFACE, FrameKind, encode_frame
from quorate.runtime import Address
from quorate.types import Epoch

PORT = 9099
NODES = [Address(f"node-{node}", PORT) for node in (1, 2, 3)]


class Counting:
    """Counts each record. The result is its count."""

    def __init__(self) -> None:
        self.counts: Counter[bytes] = Counter()

    def apply(self, batch: CommittedBatch) -> Sequence[int]:
        results = []
        for record in batch.records:
            self.counts[record] += 1
            results.append(self.counts[record])
        return results

    def take_snapshot(self):
        return iter([repr(dict(self.counts)).encode()])

    def load_snapshot(self, snapshot):
        return CountingLoader(self)


class CountingLoader:
    def __init__(self, counting: Counting) -> None:
        self.counting = counting
        self.counts: Counter[bytes] = Counter()

    def add(self, chunk: bytes) -> None:
        self.counts.update(eval(chunk))

    def install(self) -> None:
        self.counting.counts = self.counts


class Sessioned(Sessions):
    def __init__(self) -> None:
        self.counting = Counting()
        super().__init__(self.counting)

    @property
    def counts(self) -> Counter[bytes]:
        return self.counting.counts


@pytest.fixture
def served(world):
    """The world, where each node listens for clients and answers a read with the count of a record."""
    plain = world.config
    world.config = lambda node: replace(plain(node), client_listen=Address(f"node-{node}", PORT))
    return world


async def start(world, *nodes: int, machine=Sessioned) -> None:
    await world.start(*nodes, journal=machine)
    for node in nodes:
        counts = world.journals[node].counts
        world.quorums[node].serve_reads(lambda query, counts=counts: b"%d" % counts[query])


def client_of(world, addresses: Sequence[Address] = NODES, **options: object):
    return Client.open(addresses, network=world.network.for_node("outside"), **options)


@pytest.mark.parametrize("first", range(3))
async def test_a_client_finds_the_leader_wherever_it_stands_in_the_list(autojump_clock, served, first):
    await start(served, 1, 2, 3)
    async with client_of(served, NODES[first:] + NODES[:first]) as client:
        assert (await client.append([b"a", b"a"])).results == (1, 2)
        assert await client.read(b"a") == b"2"
    leader = await served.leader()
    await served.until(
        lambda: leader._node.driver.appends.in_log == type(leader._node.driver.appends.in_log)()
    )
    assert served.journals[leader.node_id].open_sessions == 0, "the client closed its session"


@pytest.mark.slow
async def test_a_client_follows_leaders_that_die_under_load_and_doubles_nothing(autojump_clock, served):
    await start(served, 1, 2, 3)
    done = 0
    due = {40: trio.Event(), 120: trio.Event()}

    async def append(client: Client, lane: int) -> None:
        nonlocal done
        for number in range(30):
            record = b"%d/%d" % (lane, number)
            assert (await client.append([record], timeout_ms=60_000)).results == (1,)
            done += 1
            if done in due:
                due[done].set()

    async with client_of(served) as client:
        with trio.fail_after(200):
            async with trio.open_nursery() as nursery:
                for lane in range(8):
                    nursery.start_soon(append, client, lane)
                for each in due.values():
                    await each.wait()
                    leader = (await served.leader()).node_id
                    await served.crash(leader)
                    await served.leader()
                    await start(served, leader)
    await served.until(lambda: all(sum(each.counts.values()) == 240 for each in served.journals.values()))
    for node, machine in served.journals.items():
        assert set(machine.counts.values()) == {1}, f"node {node} applied a record twice"


async def test_a_read_sees_every_append_that_was_answered_before(autojump_clock, served):
    await start(served, 1, 2, 3)
    async with client_of(served) as client, client_of(served) as other:
        for number in range(1, 20):
            await client.append([b"a"])
            assert await other.read(b"a") == b"%d" % number
            if number == 10:
                (await served.leader()).resign()


async def test_a_client_whose_session_was_lost_between_appends_goes_on_in_another(autojump_clock, served):
    await start(served, 1, 2, 3)
    async with client_of(served) as client:
        await client.append([b"a"])
        lost = client._session
        await (await served.leader()).append([encode_command(CloseSession(lost.id))])
        assert (await client.append([b"a"])).results == (2,)
        assert client._session is not lost


async def test_a_quorum_without_sessions_serves_clients_without(autojump_clock, served):
    await start(served, 1, 2, 3, machine=Counting)
    async with client_of(served) as client:
        with pytest.raises(QuorumConfigError, match="Sessions"):
            await client.append([b"a"])
    async with client_of(served, sessions=False) as client:
        assert (await client.append([b"a"])).results == (1,)


async def test_without_a_leader_the_error_names_each_address_and_its_reason(autojump_clock, served):
    await start(served, 1)
    async with client_of(served) as client:
        for call in (client.append, client.read):
            began = trio.current_time()
            with pytest.raises(
                LeaderNotFoundError, match="node-1:9099 knows no leader; node-2:9099 can't be reached"
            ):
                await call([b"a"] if call == client.append else b"a", timeout_ms=3000)
            assert trio.current_time() - began == pytest.approx(3, abs=0.2)


async def test_a_leader_that_resigns_at_the_end_of_the_time_is_no_leader(autojump_clock, served, monkeypatch):
    await start(served, 1, 2, 3)
    await served.leader()

    async def resigned(self: Channel, payload: bytes) -> bytes:
        raise NotLeaderError(leader=None, epoch=Epoch(1))

    monkeypatch.setattr(Channel, "request", resigned)
    async with client_of(served) as client:
        with pytest.raises(LeaderNotFoundError, match="the node that led has answered: this node does not"):
            await client.read(b"query", timeout_ms=90)


async def test_a_node_of_another_cluster_is_refused_by_name(autojump_clock, served):
    await start(served, 1, 2, 3)
    await served.leader()
    async with client_of(served, cluster_id="another") as client:
        with pytest.raises(QuorumConfigError, match="is a node of cluster driver-tests, and"):
            await client.append([b"a"])


async def test_a_client_without_addresses_is_refused(autojump_clock, served):
    with pytest.raises(QuorumConfigError, match="addresses is empty"):
        async with client_of(served, []):
            raise AssertionError("it was opened")


@pytest.mark.parametrize(
    ("records", "problem"), [([], "at least one record"), (["text"], "must be bytes, not str")]
)
async def test_records_that_no_quorum_takes_are_refused_here(autojump_clock, served, records, problem):
    async with client_of(served) as client:
        with pytest.raises(InvalidAppendError, match=problem):
            await client.append(records)


async def test_an_error_in_the_block_comes_out_as_it_is(autojump_clock, served):
    await start(served, 1, 2, 3)
    with pytest.raises(KeyError):
        async with client_of(served) as client:
            await client.append([b"a"])
            raise KeyError("mine")


async def test_reads_that_no_program_answers_are_refused(autojump_clock, served):
    await start(served, 1, 2, 3)

    def broken(query: bytes) -> bytes:
        raise KeyError(query)

    async with client_of(served) as client:
        for quorum in served.quorums.values():
            quorum.serve_reads(broken)
        with pytest.raises(RequestRefusedError, match="program failed to answer"):
            await client.read(b"a")
        for quorum in served.quorums.values():
            quorum.serve_reads(None)
        with pytest.raises(RequestRefusedError, match="must call serve_reads"):
            await client.read(b"a")
        await client.append([b"a"])


async def test_a_quorum_that_takes_no_remote_appends_takes_none_of_clients(autojump_clock, served):
    served.overrides["remote_appends"] = False
    await start(served, 1, 2, 3)
    async with client_of(served) as client:
        with pytest.raises(InvalidAppendError, match="remote_appends is off"):
            await client.append([b"a"])
        assert await client.read(b"a") == b"0"


async def test_a_silent_leader_is_left_for_the_next_one(autojump_clock, served):
    await start(served, 1, 2, 3)
    async with client_of(served) as client:
        await client.append([b"a"])
        leader = await served.leader()
        name = f"node-{leader.node_id}"
        served.network.partition([name], [*({"node-1", "node-2", "node-3", "outside"} - {name})])
        assert (await client.append([b"a"], timeout_ms=30_000)).results == (2,)
        served.network.heal()


async def test_an_answer_lost_without_sessions_is_unknown(autojump_clock, served):
    await start(served, 1, 2, 3)
    async with client_of(served, sessions=False) as client:
        await client.append([b"a"])
        leader = await served.leader()
        name = f"node-{leader.node_id}"
        served.network.partition([name], [*({"node-1", "node-2", "node-3", "outside"} - {name})])
        with pytest.raises(OutcomeUnknownError):
            await client.append([b"a"], timeout_ms=30_000)
        served.network.heal()


@pytest.mark.bug("kazoo issue 482")
async def test_a_client_that_is_closed_answers_calls_at_once(autojump_clock, served):
    await start(served, 1, 2, 3)
    leader = (await served.leader()).node_id
    ended: list[Exception] = []

    async def call(method, argument) -> None:
        try:
            await method(argument)
        except (OutcomeUnknownError, QuorumStoppedError) as error:
            ended.append(error)

    began = trio.current_time()
    async with trio.open_nursery() as nursery, client_of(served) as client:
        await client.append([b"a"])
        for node in {1, 2, 3} - {leader}:
            await served.crash(node)
        nursery.start_soon(call, client.append, [b"a"])
        nursery.start_soon(call, client.read, b"a")
        await trio.sleep(0.05)
    for method, argument in ((client.append, [b"a"]), (client.read, b"a")):
        with pytest.raises(QuorumStoppedError, match="the client is closed"):
            await method(argument)
    assert len(ended) == 2, "the calls in flight"
    assert trio.current_time() - began < 2, "no call waited for its timeout"


# Hostile clients


@pytest.mark.parametrize(
    "frame",
    [
        encode_request(1, "driver-tests", [b"a"]),
        encode_frame(FrameKind.FETCH, 1, [1, 2, 0, 0]),
        encode_frame(FrameKind.CHANGE_VOTERS, 1, ["driver-tests", 3]),
        encode_frame(FrameKind.READ_SNAPSHOT, 1, ["driver-tests", 0, 0, 0, 0]),
        encode_frame(FrameKind.APPLICATION, 1, ["other"]),
        [b"\xff\xff\xff\xff" + bytes(20)],
    ],
    ids=["append", "fetch", "voters", "snapshot", "cluster", "garbage"],
)
async def test_what_is_no_request_of_a_client_closes_its_connection_by_name(
    autojump_clock, served, log_lines, frame
):
    await start(served, 1, 2, 3)
    leader = await served.leader()
    stream = await served.network.for_node("outside").connect(Address(f"node-{leader.node_id}", PORT))
    await stream.send([PREFACE, *frame])
    with trio.fail_after(5):
        assert not await stream.receive_some()
    reasons = [line["reason"] for line in log_lines if line["event"] == "closed a connection"]
    assert len(reasons) == 1, log_lines
    async with client_of(served) as client:
        assert (await client.append([b"a"])).results == (1,)


async def test_a_client_that_asks_for_nothing_is_closed(autojump_clock, served, log_lines):
    await start(served, 1, 2, 3)
    stream = await served.network.for_node("outside").connect(NODES[0])
    with trio.fail_after(15):
        assert not await stream.receive_some()
    assert [line["reason"] for line in log_lines if line["event"] == "closed a connection"] == [
        "it asked for nothing"
    ]


@pytest.mark.parametrize(
    "request_", [ClientAppend(5, (b"a", b"")), ClientRead(0, b"q")], ids=["append", "read"]
)
def test_a_request_is_read_as_it_was_written(request_):
    assert decode_client_request(encode_client_request(request_)) == request_


@pytest.mark.hypothesis
@given(st.binary(max_size=60))
def test_no_bytes_break_the_decoders(data: bytes) -> None:
    with suppress(RequestRefusedError):
        decode_client_request(data)
    with suppress(PeerProtocolError):
        decode_appended(data)


@pytest.mark.parametrize(
    "payload", [[0, -1, [b"a"]], [0, 1, ["text"]], [2, 1, b""], [1, 1, "text"], [], 5, {"a": 1}]
)
def test_a_request_of_another_form_is_refused(payload) -> None:
    with pytest.raises(RequestRefusedError, match="no request of a client"):
        decode_client_request(dump(payload))
