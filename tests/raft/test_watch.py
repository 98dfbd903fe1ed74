"""A client's watch: it hears of each record that the state machine applies, once and in log order."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from quorate.client import Client, Watch
from quorate.log import Log
from quorate.raft import (
    CommittedBatch,
    InvalidArgumentError,
    LeaderNotFoundError,
    OffsetGoneError,
    PeerProtocolError,
    QuorumStoppedError,
    Session,
    Sessions,
)
from quorate.raft.clients.client_messages import (
    ClientWatch,
    Watched,
    WatchedRun,
    decode_client_request,
    decode_runs,
    encode_client_request,
    encode_gone,
    encode_runs,
)
from quorate.raft.sessions import session_table
from quorate.raft.sessions.session_records import SessionAppend, encode_command
from quorate.runtime import Address
from quorate.types import Epoch, Offset
from tests.raft.conftest import Journal

PORT = 9099
NODES = [Address(f"node-{node}", PORT) for node in (1, 2, 3)]


class Placed(Journal):
    """Keeps each record with its offset."""

    def apply(self, batch: CommittedBatch) -> Sequence[int]:
        self.records.extend(enumerate(batch.records, batch.base_offset))
        return [0] * len(batch.records)

    def take_snapshot(self):
        return iter([b"%d %s" % each for each in self.records])

    def load_snapshot(self, snapshot):
        return PlacedLoader(self)


class PlacedLoader:
    def __init__(self, placed: Placed) -> None:
        self.placed = placed
        self.records: list[tuple[int, bytes]] = []

    def add(self, chunk: bytes) -> None:
        offset, _, record = chunk.partition(b" ")
        self.records.append((int(offset), record))

    def install(self) -> None:
        self.placed.records = self.records


class Sessioned(Sessions):
    def __init__(self) -> None:
        self.placed = Placed()
        super().__init__(self.placed)

    @property
    def records(self) -> list[tuple[int, bytes]]:
        return self.placed.records


@pytest.fixture
def served(world):
    """The world, where each node listens for clients."""
    plain = world.config
    world.config = lambda node: replace(plain(node), client_listen=Address(f"node-{node}", PORT))
    return world


async def started(served, *nodes: int):
    await served.start(*nodes, journal=Sessioned)
    return await served.leader()


def client_of(served, addresses: Sequence[Address] = NODES, **options: object):
    return Client.open(addresses, network=served.network.for_node("outside"), **options)


async def hear(watch: Watch) -> list[tuple[int, bytes]]:
    """Iterate until the watch ends."""
    return [(each.offset, each.record) async for each in watch]


async def hear_all(client: Client, *, from_offset: int = 0) -> list[tuple[int, bytes]]:
    """Watch up to the log's end."""
    async with client.watch(from_offset, idle_ms=0) as watch:
        return await hear(watch)


async def test_a_watch_hears_of_what_was_applied_and_then_of_what_comes(autojump_clock, served):
    leader = await started(served, 1, 2, 3)
    async with client_of(served) as client:
        first = await client.append([b"a", b"b"])
        async with client.watch(0) as watch, client.watch() as late:
            assert (await anext(watch)).record == b"a"
            assert watch.next_offset == first.base_offset + 1
            assert (await anext(watch)).record == b"b"
            second = await client.append([b"c"])
            for each in (watch, late):
                with trio.fail_after(0.5):
                    heard = await anext(each)
                assert heard[:2] == (second.base_offset, second.epoch)
                assert heard.record == b"c"
                assert heard.timestamp_ms > 0
        assert await hear_all(client) == served.journals[leader.node_id].records


@pytest.mark.slow
@pytest.mark.bug("kazoo issue 29")
@pytest.mark.bug("kazoo issue 157")
async def test_watches_follow_leaders_that_die_under_load_without_a_gap_or_a_double(autojump_clock, served):
    await started(served, 1, 2, 3)
    heard: dict[int, list[tuple[int, bytes]]] = {}

    async def append(client: Client, lane: int) -> None:
        for number in range(25):
            await client.append([b"%d/%d" % (lane, number)], timeout_ms=60_000)
            await trio.sleep(0.02)

    async def listen(client: Client, number: int) -> None:
        async with client.watch(0) as watch:
            heard[number] = []
            async for each in watch:
                heard[number].append((each.offset, each.record))
                if len(heard[number]) == 100:
                    return

    async with client_of(served) as client, client_of(served) as other:
        with trio.fail_after(200):
            async with trio.open_nursery() as nursery:
                for number in range(10):
                    nursery.start_soon(listen, other, number)
                for lane in range(4):
                    nursery.start_soon(append, client, lane)
                for count in (20, 60):
                    await served.until(lambda count=count: len(heard.get(0, ())) >= count)
                    leader = (await served.leader()).node_id
                    await served.crash(leader)
                    await started(served, leader)
    leader = await served.leader()
    applied = served.journals[leader.node_id].records
    assert len({record for _, record in applied}) == 100
    for number, records in heard.items():
        assert records == applied, f"watch {number}"


async def test_a_watch_leaves_a_leader_that_resigns_at_once(autojump_clock, served):
    leader = await started(served, 1, 2, 3)
    async with client_of(served) as client, client_of(served) as other, client.watch() as watch:
        with trio.move_on_after(0.2):
            await anext(watch)  # parked at the leader
        successor = next(node for node in (1, 2, 3) if node != leader.node_id)
        await leader.transfer_leadership(successor)
        appended = await other.append([b"a"])
        with trio.fail_after(1):
            assert (await anext(watch)).offset == appended.base_offset


async def repeated(served) -> None:
    """Append "a" in a session, and again with the same number."""
    leader = await served.leader()
    async with Session.open(leader) as session:
        await session.append([b"a"])
        again = SessionAppend(session=session.id, sequence=0, first_open=0, count=1)
        await leader.append([encode_command(again), b"a"])


async def test_a_watch_does_not_hear_of_what_a_session_repeats_even_after_a_snapshot(autojump_clock, served):
    served.overrides["retention_bytes"] = 100 * 1024 * 1024
    leader = await served.start_one(journal=Sessioned)
    async with client_of(served, NODES[:1]) as client:
        await repeated(served)
        await leader.append([b"b"])
        heard = await hear_all(client)
        assert [record for _, record in heard] == [b"a", b"b"]
        await leader.take_snapshot()
        await served.stop(1)
        await started(served, 1)
        assert await hear_all(client) == heard


async def test_what_was_forgotten_of_repeated_appends_is_gone(autojump_clock, served, monkeypatch):
    monkeypatch.setattr(session_table, "REFUSED_MAX", 1)
    leader = await served.start_one(journal=Sessioned)
    async with client_of(served, NODES[:1]) as client:
        await repeated(served)
        assert [record for _, record in await hear_all(client)] == [b"a"]
        await repeated(served)
        with pytest.raises(OffsetGoneError) as gone:
            await hear_all(client)
        earliest = gone.value.earliest
        assert 0 < earliest < leader.applied_offset
        assert [record for _, record in await hear_all(client, from_offset=earliest)] == [b"a"]


async def test_a_watch_of_records_that_a_snapshot_replaced_is_told_of_the_earliest_offset(
    autojump_clock, served
):
    served.overrides |= {"retention_bytes": 1, "segment_bytes": 1024}
    leader = await served.start_one(journal=Sessioned)
    async with client_of(served, NODES[:1]) as client:
        for number in range(40):
            await leader.append([b"%d" % number + bytes(200)])
        async with client.watch(0) as slow:
            await anext(slow)
            await leader.take_snapshot()
            await leader.append([b"behind"])
            await leader.take_snapshot()
            await served.until(lambda: leader.log.log_start_offset > 10)
            with pytest.raises(OffsetGoneError, match="read the state") as gone:
                await hear_all(client)
        assert gone.value.earliest == leader.log.log_start_offset
        applied = served.journals[1].records
        assert await hear_all(client, from_offset=gone.value.earliest) == [
            each for each in applied if each[0] >= gone.value.earliest
        ]


@pytest.mark.bug("etcd issue 20221")
async def test_a_watch_from_the_future_hears_of_nothing_before(autojump_clock, served):
    leader = await served.start_one(journal=Sessioned)
    await leader.append([b"a"])
    end_offset = leader.applied_offset
    async with client_of(served, NODES[:1]) as client, client.watch(end_offset + 2) as watch:
        for record in (b"b", b"c", b"d", b"e"):
            await leader.append([record])
        heard = [await anext(watch), await anext(watch)]
    assert [(each.offset, each.record) for each in heard] == [(end_offset + 2, b"d"), (end_offset + 3, b"e")]


@pytest.mark.parametrize(
    ("options", "problem"), [({"from_offset": -1}, "from_offset is -1"), ({"idle_ms": -1}, "idle_ms is -1")]
)
async def test_an_offset_or_a_time_below_0_is_refused(autojump_clock, served, options, problem):
    async with client_of(served) as client:
        with pytest.raises(InvalidArgumentError, match=problem):
            async with client.watch(**options):
                raise AssertionError("it was opened")


async def test_without_a_leader_a_watch_raises_after_its_time_and_can_be_continued(autojump_clock, served):
    await started(served, 1, 2, 3)
    async with client_of(served) as client, client_of(served) as other:
        await client.append([b"a"])
        async with client.watch(0, timeout_ms=3000) as watch:
            assert (await anext(watch)).record == b"a"
            for node in (1, 2):
                await served.crash(node)
            began = trio.current_time()
            with pytest.raises(LeaderNotFoundError, match="no leader was found"):
                while True:
                    await anext(watch)
            assert trio.current_time() - began < 10
            await started(served, 1, 2)
            await other.append([b"b"])
            assert (await anext(watch)).record == b"b"
        with pytest.raises(QuorumStoppedError, match="the watch is closed"):
            await anext(watch)


async def test_a_call_that_is_cancelled_loses_nothing(autojump_clock, served):
    leader = await served.start_one(journal=Sessioned)
    async with client_of(served, NODES[:1]) as client, client.watch(0) as watch:
        heard = []
        while len(heard) < 30:
            await leader.append([b"%d" % len(heard)])
            for patience_s in (0, 0.0005, 0.002, 10):
                with trio.move_on_after(patience_s):
                    heard.append(await anext(watch))
                    break
    assert [(each.offset, each.record) for each in heard] == served.journals[1].records[:30]


async def test_a_slow_watch_keeps_neither_the_node_nor_its_own_client_busy(autojump_clock, served):
    leader = await served.start_one(journal=Sessioned)
    async with client_of(served, NODES[:1]) as client, client.watch(0) as slow:
        await leader.append([bytes(1000)])
        await anext(slow)
        for _ in range(300):
            await leader.append([bytes(10_000)])
        await anext(slow)
        await trio.sleep(1)
        kept = sum(len(each.record) for each in slow._received._records)
        queued = sum(
            each.outbox._queued_bytes for each in leader._node.client_server._connections._silent_first
        )
        assert kept < 300_000, "a third of a megabyte at most is at the client"
        assert queued == 0
        for _ in range(299):
            await anext(slow)
        assert slow.next_offset == leader.applied_offset


@pytest.mark.slow
async def test_many_watches_at_the_end_of_the_log_share_one_read_of_it(autojump_clock, served, monkeypatch):
    leader = await served.start_one(journal=Sessioned)
    reads = []
    read_tail = Log.read_tail

    def counted(self, offset, *arguments, **options):
        reads.append(offset)
        return read_tail(self, offset, *arguments, **options)

    heard = [0] * 200

    async def listen(client: Client, number: int) -> None:
        async with client.watch() as watch:
            async for _ in watch:
                heard[number] += 1

    async with client_of(served, NODES[:1]) as client, trio.open_nursery() as nursery:
        for number in range(len(heard)):
            nursery.start_soon(listen, client, number)
        await trio.sleep(1)
        monkeypatch.setattr(Log, "read_tail", counted)
        for _ in range(10):
            await leader.append([b"a"])
            await trio.sleep(0.1)
        nursery.cancel_scope.cancel()
    assert heard == [10] * len(heard)
    assert len(reads) <= 20, f"{len(reads)} reads for 10 commits and {len(heard)} watches"


async def test_a_record_larger_than_an_answer_is_heard_of(autojump_clock, served):
    leader = await served.start_one(journal=Sessioned)
    large = [b"a" * 7_000_000, b"b" * 300_000, b"c" * 300_000]
    await leader.append(large)
    async with client_of(served, NODES[:1]) as client:
        assert [record for _, record in await hear_all(client)] == large


async def test_small_frames_carry_any_records(autojump_clock, served):
    leader = await served.start_one(journal=Sessioned, max_batch_bytes=64 * 1024)
    appends = [[b""] * 3000, [b"a" * 60_000], [b"b"] * 3000, [b"c" * 30_000] * 2]
    for records in appends:
        await leader.append(records)
    async with client_of(served, NODES[:1]) as client:
        heard = [record for _, record in await hear_all(client)]
    assert heard == [record for records in appends for record in records]


async def test_without_sessions_every_record_is_heard_of(autojump_clock, served):
    leader = await served.start_one(journal=Placed)
    like_a_command = encode_command(SessionAppend(session=1, sequence=0, first_open=0, count=1))
    await leader.append([like_a_command, b"a"])
    async with client_of(served, NODES[:1], sessions=False) as client:
        assert await hear_all(client) == served.journals[1].records


@pytest.mark.parametrize("request_", [ClientWatch(5, Offset(7)), ClientWatch(0, None)])
def test_a_request_of_a_watch_is_read_as_it_was_written(request_):
    assert decode_client_request(encode_client_request(request_)) == request_


def test_an_answer_to_a_watch_is_read_as_it_was_written():
    runs = [
        WatchedRun(Epoch(2), 1000, [(Offset(5), b"a"), (Offset(7), b"b")]),
        WatchedRun(Epoch(3), 2000, [(Offset(8), b"")]),
    ]
    assert decode_runs(encode_runs(Offset(9), runs), from_offset=Offset(5)) == (
        9,
        [Watched(5, 2, 1000, b"a"), Watched(7, 2, 1000, b"b"), Watched(8, 3, 2000, b"")],
    )
    with pytest.raises(OffsetGoneError) as gone:
        decode_runs(encode_gone(Offset(9)), from_offset=Offset(5))
    assert gone.value.earliest == 9


@pytest.mark.parametrize(
    ("next_offset", "offsets", "from_offset"),
    [(9, [4], 5), (6, [5, 6], 5), (9, [6, 5], 5), (9, [5, 5], 5), (4, [], 5)],
    ids=["before", "beyond", "backwards", "twice", "back"],
)
def test_an_answer_that_is_not_in_order_is_refused(next_offset, offsets, from_offset):
    runs = [WatchedRun(Epoch(1), 0, [(Offset(each), b"") for each in offsets])]
    with pytest.raises(PeerProtocolError, match="can't be read"):
        decode_runs(encode_runs(Offset(next_offset), runs), from_offset=Offset(from_offset))


@pytest.mark.hypothesis
@given(st.binary(max_size=60))
def test_no_bytes_break_the_decoder_of_a_watch(data: bytes) -> None:
    with suppress(OffsetGoneError, PeerProtocolError):
        decode_runs(data, from_offset=Offset(0))
