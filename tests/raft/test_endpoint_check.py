"""A voter is only made, or moved, where a live node answers and says that it is the one (KIP-853)."""

import random
from dataclasses import replace

import pytest
import trio

from quorate.error_code import ErrorCode
from quorate.raft.quorum import Quorum
from quorate.raft.quorum_config import parse_voters
from quorate.raft.quorum_errors import QuorumError, RequestRefusedError
from quorate.raft.storage.storage import format_folder
from quorate.runtime.network import Address
from quorate.simulation.world.simulated_runtime import SimulatedRuntime
from quorate.types import Endpoint, NodeId, ReplicaKey, Voter, VoterSet

WRONG = ErrorCode.INVALID_REQUEST


async def one_voter_and_an_observer(world):
    leader = await world.start_one()
    await leader.adopt_voters()
    world.overrides["voters"] = VoterSet(())
    world.overrides["bootstrap"] = (Endpoint("node-1", 9093),)
    await world.start(2)
    newcomer = world.quorums[2]
    await leader.append([b"x"])
    await world.until(lambda: newcomer.applied_offset >= leader.applied_offset)
    return leader, newcomer


async def refusal(leader, voter, code=ErrorCode.REQUEST_TIMED_OUT, *, timeout_ms=1000):
    with pytest.raises(RequestRefusedError) as refused:
        await leader.add_voter(voter, timeout_ms=timeout_ms)
    assert refused.value.code is code
    assert leader.voters.ids == (1,) and leader.is_leader
    await leader.append([b"goes on"])
    return str(refused.value)


@pytest.mark.slow
async def test_an_observer_that_is_dead_for_hours_is_not_made_a_voter(world, autojump_clock):
    leader, newcomer = await one_voter_and_an_observer(world)
    voter = Voter(newcomer._node.key, Endpoint("node-2", 9093))
    await trio.sleep(2)
    await world.stop(2)
    for _ in range(50):
        await leader.append([b"y"])
    await trio.sleep(2 * 3600)
    with pytest.raises(QuorumError, match="see that it runs"):
        await leader.add_voter(voter, timeout_ms=5000)
    await trio.sleep(30)
    assert leader.is_leader and leader.voters.ids == (1,)
    await leader.append([b"on"])
    await world.start(2)
    await leader.add_voter(voter)
    assert leader.voters.ids == (1, 2)


async def test_a_voter_whose_endpoint_does_not_answer_is_refused(world, autojump_clock):
    leader, newcomer = await one_voter_and_an_observer(world)
    told = await refusal(leader, Voter(newcomer._node.key, Endpoint("node-2", 9999)))
    assert "node 2 is to be reached at node-2:9999, but it can't be" in told
    assert "start it, or correct the address" in told


async def test_another_node_at_the_address_is_named(world, autojump_clock):
    leader, newcomer = await one_voter_and_an_observer(world)
    told = await refusal(leader, Voter(newcomer._node.key, Endpoint("node-1", 9093)), WRONG)
    assert f"node 1 with directory {leader._node.key.directory_id} answers there, not node 2" in told


async def test_a_node_of_another_cluster_at_the_address_is_refused(world, autojump_clock):
    leader, newcomer = await one_voter_and_an_observer(world)
    host = SimulatedRuntime("other", world.network, random.Random(9))
    await format_folder(host.runtime(), "data", cluster_id="another", node_id=NodeId(2))
    other = world.config(2)
    other = replace(
        other, cluster_id="another", listen=Address("other", 9093), voters=parse_voters("2@other:9093")
    )
    async with Quorum.open(other, type(world.journals[1])(), runtime=host.runtime()):
        told = await refusal(leader, Voter(newcomer._node.key, Endpoint("other", 9093)), WRONG)
    assert "no node of this cluster" in told


@pytest.mark.parametrize(
    ("answer", "code"), [(b"", ErrorCode.REQUEST_TIMED_OUT), (b"HTTP/1.1 400 Bad Request\r\n\r\n", WRONG)]
)
async def test_an_endpoint_of_another_protocol_is_refused_within_the_timeout(
    world, autojump_clock, nursery, answer, code
):
    leader, newcomer = await one_voter_and_an_observer(world)
    listener = await world.network.for_node("mute").listen(Address("mute", 9093))

    async def serve():
        while True:
            stream = await listener.accept()
            if answer:
                await stream.send([answer])

    nursery.start_soon(serve)
    began = trio.current_time()
    told = await refusal(leader, Voter(newcomer._node.key, Endpoint("mute", 9093)), code, timeout_ms=1500)
    assert trio.current_time() - began < 3
    assert "mute:9093" in told and "correct the address" in told
    nursery.cancel_scope.cancel()


async def test_a_change_that_is_refused_opens_no_connection(world, autojump_clock):
    """Else any address could be probed through the leader."""
    leader, _ = await one_voter_and_an_observer(world)
    dialled = []
    connect = leader._node._endpoint_check._network.connect

    async def counted(address):
        dialled.append(address)
        return await connect(address)

    leader._node._endpoint_check._network = type("Net", (), {"connect": staticmethod(counted)})()
    await refusal(leader, Voter(ReplicaKey(NodeId(9), "A" * 22), Endpoint("victim", 22)))
    assert dialled == []


async def test_a_voter_is_not_moved_to_where_it_does_not_listen(world, autojump_clock):
    leader, newcomer = await one_voter_and_an_observer(world)
    key = newcomer._node.key
    await leader.add_voter(Voter(key, Endpoint("node-2", 9093)))
    with pytest.raises(RequestRefusedError, match="node 1 with directory"):
        await leader.update_voter(Voter(key, Endpoint("node-1", 9093)), timeout_ms=500)
    assert leader.voters.endpoint_of(NodeId(2)) == Endpoint("node-2", 9093)
