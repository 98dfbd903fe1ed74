"""One peer against a scripted other end."""

import contextlib
import random
from dataclasses import replace

import pytest
import trio

from quorate.log.batches.records import build_batch
from quorate.raft.assembly import spans_of
from quorate.raft.core.events import Received, RequestFailed, Unreachable
from quorate.raft.core.messages import BeginQuorumEpochResponse, FetchRequest, FetchResponse, VoteResponse
from quorate.raft.transport.frames import FrameReader
from quorate.raft.transport.peers import Peer
from quorate.raft.transport.raft_codec import decode, encode
from quorate.runtime.network import Address, NetworkError
from quorate.simulation.world.simulated_network import SimulatedNetwork
from quorate.simulation.world.simulated_runtime import SimulatedRuntime
from quorate.types import Endpoint, Epoch, NodeId, Offset, ReplicaKey

HOME = Address("node-2", 9093)


class Ends:
    """A peer of node 1 for node 2, and the listener of node 2."""

    def __init__(self, nursery):
        self.network = SimulatedNetwork(random.Random(3))
        self.events = []
        self.hung_up = []
        self.nursery = nursery
        self.peer = Peer(
            NodeId(2),
            NodeId(1),
            Endpoint(HOME.host, HOME.port),
            cluster_id="c",
            runtime=SimulatedRuntime("node-1", self.network, random.Random(1)).runtime(),
            deliver=self.events.append,
            on_hung_up=self.hung_up.append,
            spans_of=spans_of,
            connect_timeout_ms=1000,
            request_timeout_ms=2000,
            max_frame_bytes=1 << 20,
        )
        nursery.start_soon(self.peer.run)
        self.correlation = 0
        self.connections = 0

    def ask(self):
        self.correlation += 1
        self.peer.send(
            FetchRequest(
                source=NodeId(1),
                destination=NodeId(2),
                correlation=self.correlation,
                cluster_id="c",
                replica=ReplicaKey(NodeId(1)),
                epoch=Epoch(1),
                offset=Offset(0),
                last_fetched_epoch=Epoch(0),
                max_wait_ms=100,
                max_bytes=1000,
                high_watermark=None,
            )
        )
        self.peer.flush()
        return self.correlation

    async def serve(self, answer):
        """Node 2: `answer` makes the buffers for each request; None ends the connection."""
        listener = await self.network.for_node("node-2").listen(HOME)

        async def accept():
            with contextlib.suppress(NetworkError):
                while True:
                    stream = await listener.accept()
                    self.connections += 1
                    self.nursery.start_soon(converse, stream)

        async def converse(stream):
            reader = FrameReader(stream, max_frame_bytes=1 << 20)
            try:
                await reader.receive_preface()
                while frames := await reader.receive():
                    for frame in frames:
                        buffers = answer(decode(frame))
                        if buffers is None:
                            return
                        if buffers:
                            await stream.send(buffers)
            except OSError:
                pass
            finally:
                stream.close()

        self.nursery.start_soon(accept)
        return listener


def response(request, **changes):
    fields = {
        "source": NodeId(2),
        "destination": NodeId(1),
        "correlation": request.correlation,
        "epoch": Epoch(1),
        "leader": NodeId(2),
    }
    return FetchResponse(**{**fields, **changes})


@pytest.fixture
async def ends(nursery):
    return Ends(nursery)


async def test_answers_are_delivered_and_the_connection_is_kept(autojump_clock, ends):
    await ends.serve(lambda request: encode(response(request)))
    for number in range(1, 4):
        ends.ask()
        await trio.sleep(0.1)
        assert len(ends.events) == number
    assert all(isinstance(event, Received) for event in ends.events)
    assert ends.connections == 1


async def test_the_batches_of_a_fetch_are_described_to_the_core(autojump_clock, ends):
    batch = build_batch(base_offset=5, epoch=1, timestamp_ms=0, values=[b"a", b"b"])
    await ends.serve(lambda request: encode(response(request, records=batch)))
    ends.ask()
    await trio.sleep(0.1)
    (event,) = ends.events
    assert [(span.base_offset, span.end_offset, span.epoch) for span in event.message.batches] == [(5, 7, 1)]


async def test_a_refused_connection_fails_the_request_and_reports_unreachable_once_per_try(
    autojump_clock, ends, log_lines
):
    for _ in range(3):
        number = ends.ask()
        await trio.sleep(1)
        assert ends.events[-2:] == [RequestFailed(NodeId(2), number), Unreachable(NodeId(2))]
    assert len([line for line in log_lines if line["event"] == "can't reach a node"]) == 1
    await ends.serve(lambda request: encode(response(request)))
    ends.ask()
    await trio.sleep(1)
    assert isinstance(ends.events[-1], Received)
    assert [line["event"] for line in log_lines][-1] == "reached a node again"


async def test_a_node_that_ends_its_life_is_noticed_at_once(autojump_clock, ends):
    await ends.serve(lambda request: encode(response(request)))
    ends.ask()
    await trio.sleep(0.5)
    ends.events.clear()
    ends.network.crash_node("node-2", silent=False)
    await trio.sleep(0.05)
    assert ends.events == [Unreachable(NodeId(2))]
    assert ends.hung_up == [NodeId(2)]


async def test_a_request_without_an_answer_times_out_and_the_connection_is_replaced(autojump_clock, ends):
    silent = True
    await ends.serve(lambda request: () if silent else encode(response(request)))
    number = ends.ask()
    await trio.sleep(1.9)
    assert ends.events == []
    await trio.sleep(0.2)
    assert ends.events == [RequestFailed(NodeId(2), number)]
    silent = False
    ends.ask()
    await trio.sleep(0.1)
    assert isinstance(ends.events[-1], Received)
    assert ends.connections == 2


async def test_the_oldest_request_decides_when_time_is_up(autojump_clock, ends):
    await ends.serve(lambda request: encode(response(request)) if request.correlation != 2 else ())
    for wait in (1.0, 1.5, 0.4):
        ends.ask()
        await trio.sleep(wait)
    assert [type(event) for event in ends.events] == [Received, Received]
    await trio.sleep(0.2)
    assert ends.events[-1] == RequestFailed(NodeId(2), 2)


async def test_a_host_that_is_silently_gone_fails_the_connect_in_time(autojump_clock, ends):
    await ends.serve(lambda request: encode(response(request)))
    ends.network.crash_node("node-2", silent=True)
    number = ends.ask()
    await trio.sleep(0.9)
    assert ends.events == []
    await trio.sleep(0.2)
    assert ends.events == [RequestFailed(NodeId(2), number), Unreachable(NodeId(2))]


async def test_a_node_that_hangs_up_unheard_is_not_asked_in_a_loop(autojump_clock, ends):
    await ends.serve(lambda request: None)
    number = ends.ask()
    await trio.sleep(10)
    assert ends.events == [RequestFailed(NodeId(2), number)]
    assert ends.connections == 1
    assert not ends.hung_up


def damaged(request):
    batch = bytearray(build_batch(base_offset=0, epoch=1, timestamp_ms=0, values=[b"a"]))
    batch[-1] ^= 1
    return encode(response(request, records=bytes(batch)))


BREACHES = {
    "damaged batch": damaged,
    "half a batch": lambda request: encode(response(request, records=b"half")),
    "another source": lambda request: encode(response(request, source=NodeId(3))),
    "another destination": lambda request: encode(response(request, destination=NodeId(3))),
    "another kind": lambda request: encode(
        VoteResponse(source=NodeId(2), destination=NodeId(1), correlation=request.correlation, epoch=Epoch(1))
    ),
    "no frame": lambda request: [b"\xff" * 100],
}


@pytest.mark.parametrize("name", BREACHES)
async def test_a_breach_of_the_protocol_reconnects_logs_once_and_backs_off(
    autojump_clock, ends, log_lines, name
):
    await ends.serve(BREACHES[name])
    numbers = []
    for _ in range(50):
        numbers.append(ends.ask())
        await trio.sleep(0.1)
    assert not any(isinstance(event, Received) for event in ends.events)
    assert 2 <= ends.connections <= 6
    assert len([line for line in log_lines if line["event"] == "closed a connection"]) == 1
    await trio.sleep(3)
    assert [event.correlation for event in ends.events] == numbers


async def test_after_a_breach_good_answers_count_again(autojump_clock, ends, log_lines):
    bad = True
    await ends.serve(lambda request: damaged(request) if bad else encode(response(request)))
    ends.ask()
    await trio.sleep(0.5)
    bad = False
    ends.ask()
    await trio.sleep(1.5)
    assert isinstance(ends.events[-1], Received)


async def test_an_answer_to_no_request_is_skipped(autojump_clock, ends):
    await ends.serve(
        lambda request: [
            *encode(
                BeginQuorumEpochResponse(
                    source=NodeId(2), destination=NodeId(1), correlation=4711, epoch=Epoch(9)
                )
            ),
            *encode(response(request)),
            *encode(replace(response(request), epoch=Epoch(7))),
        ]
    )
    ends.ask()
    await trio.sleep(0.5)
    assert [event.message.epoch for event in ends.events] == [1]
    assert ends.connections == 1
