"""With TLS, each id that a message claims is that of the certificate at the other end: a simulated quorum."""

from contextlib import suppress
from types import SimpleNamespace

import pytest
import trio
from secured import CLUSTER_ID, WEB, Secured, files, node

from quorate.raft import QuorumConfigError, RequestRefusedError
from quorate.raft.core import AddVoter, FetchRequest, VoteRequest, VoteResponse
from quorate.raft.quorum_errors import PeerProtocolError
from quorate.raft.transport.frames import PREFACE, FrameKind, decode_frame
from quorate.raft.transport.identities import (
    Identity,
    authority_uri,
    check_claims,
    cluster_of_authority,
)
from quorate.raft.transport.peers import Peer
from quorate.raft.transport.quorum_server import CLIENT_KINDS, Server
from quorate.raft.transport.raft_codec import encode
from quorate.runtime import Address, NetworkError, TlsError
from quorate.types import Endpoint, Epoch, NodeId, Offset, ReplicaKey, Voter


@pytest.mark.parametrize("identity", [node(0), node(7, "a/b c%ü"), WEB, Identity("c", None, "a b/c")])
def test_an_identity_is_its_uri_and_back(identity):
    assert Identity.parse(identity.uri) == identity


@pytest.mark.bug("CVE-2023-44981")
@pytest.mark.parametrize(
    "uri",
    [
        "", "quorate://c/node/", "quorate://c/node/1x", "quorate://c/node/01", "quorate://c/node/\u0661", "quorate:///node/1",
        "quorate://c/node/1?x", "quorate://c/node/1#x", "quorate://c/ca", "https://c/node/1", "quorate://c/node/-1",
        "quorate://c/node/1/2", "quorate://C%2f/node/1", "QUORATE://c/node/1", "quorate://[/node/1", "quorate://c/client/",
    ],
)  # fmt: skip
def test_what_is_no_identity_is_none_and_one_identity_has_one_spelling(uri):
    assert Identity.parse(uri) is None


def test_an_authority_is_of_one_cluster():
    assert cluster_of_authority(authority_uri("a/b")) == "a/b"
    assert cluster_of_authority(node(1).uri) is None
    assert cluster_of_authority("quorate:///ca") is None


def fetch(source, replica):
    return FetchRequest(
        source=NodeId(source), destination=NodeId(1), correlation=5, cluster_id=CLUSTER_ID,
        replica=ReplicaKey(NodeId(replica), "d"), epoch=Epoch(1), offset=Offset(0),
        last_fetched_epoch=Epoch(0), max_wait_ms=100, max_bytes=100, high_watermark=None,
    )  # fmt: skip


def vote(source, candidate):
    return VoteRequest(
        source=NodeId(source), destination=NodeId(1), correlation=5, cluster_id=CLUSTER_ID,
        voter=ReplicaKey(NodeId(1), "d"), candidate=ReplicaKey(NodeId(candidate), "e"), epoch=Epoch(99),
        last_epoch=Epoch(9), end_offset=Offset(999),
    )  # fmt: skip


@pytest.mark.parametrize("message", [fetch(2, 3), fetch(3, 2), vote(2, 3), vote(3, 2)])
def test_no_message_claims_another_id_in_any_of_its_fields(message):
    with pytest.raises(PeerProtocolError, match="that of node 3, but it speaks as node 2"):
        check_claims(message, NodeId(3))
    check_claims(message, None)


@pytest.fixture
def secured(world):
    return Secured(world)


async def closes(stream, data):
    """Send, and wait for the end of the stream; whether that comes without an answer."""
    with trio.fail_after(5), suppress(NetworkError):
        await stream.send([PREFACE, *data])
        return await stream.receive_some() == b""
    return True


async def test_a_quorum_with_tls_commits_elects_and_takes_voters(autojump_clock, world, secured):
    leader = await world.start_three()
    await leader.append([b"one"])
    follower = next(each for each in world.quorums.values() if each.node_id != leader.node_id)
    await follower.append([b"two"])
    await world.crash(leader.node_id)
    successor = await world.leader()
    await successor.append([b"three"])
    await world.start(leader.node_id)
    await world.quorums[leader.node_id].wait_applied(successor.applied_offset)
    assert world.journals[leader.node_id].records == [b"one", b"two", b"three"]


@pytest.mark.bug("CVE-2018-8012")
@pytest.mark.parametrize(
    ("identity", "authority"),
    [(None, ""), (node(2), "another ca"), (node(2, "another cluster"), "ca"), (WEB, "ca")],
    ids=["no TLS", "another authority", "another cluster", "a client"],
)
async def test_whoever_is_no_node_of_the_cluster_gets_nothing(
    autojump_clock, world, secured, log_lines, identity, authority
):
    leader = await world.start_three()
    epoch = leader.epoch
    try:
        stream = await secured.dial(leader.node_id, identity, authority)
    except TlsError:
        pass
    else:
        assert await closes(stream, encode(vote(2, 2)))
    await trio.sleep(2)
    assert leader.epoch == epoch
    if authority != "another ca":  # where the dialler notices
        assert any(line["event"] == "closed a connection" for line in log_lines)


@pytest.mark.parametrize("message", [fetch(2, 2), fetch(3, 2), vote(2, 2), vote(3, 2)])
async def test_the_certificate_of_one_node_does_not_act_as_another(
    autojump_clock, world, secured, log_lines, message
):
    leader = await world.start_three()
    epoch = leader.epoch
    stream = await secured.dial(leader.node_id, node(3))
    assert await closes(stream, encode(message))
    await trio.sleep(2)
    assert leader.epoch == epoch
    assert any("its certificate is that of node 3" in str(line.get("reason")) for line in log_lines)


@pytest.mark.slow
async def test_a_node_that_listens_at_another_ones_address_is_not_asked(
    autojump_clock, world, secured, log_lines
):
    """Node 3, or who has its key, at the address of node 2."""
    await world.start(1, 3)
    impostor = world.network.for_node("outside").secured(files(node(3)))
    listener = await impostor.listen(Address("node-2", 9093))
    heard = []

    async def serve():
        while True:
            stream = await listener.accept()
            with suppress(NetworkError):
                await stream.handshake()
                heard.append(await stream.receive_some())

    world.nursery.start_soon(serve)
    leader = await world.leader()
    await leader.append([b"x"])
    await trio.sleep(5)
    assert not any(heard), "nothing was sent there"
    assert any("not of node 2" in str(line.get("reason")) for line in log_lines)


async def test_a_new_voter_is_checked_by_its_certificate(autojump_clock, world, secured):
    leader = await world.start_three()
    impostor = world.network.for_node("outside").secured(files(node(3)))
    listener = await impostor.listen(Address("node-4", 9093))

    async def serve():
        while True:
            with suppress(NetworkError):
                await (await listener.accept()).handshake()

    world.nursery.start_soon(serve)
    voter = Voter(ReplicaKey(NodeId(4), "d"), Endpoint("node-4", 9093))
    with pytest.raises(RequestRefusedError, match="that of node 3, not of node 4"):
        await leader._node._endpoint_check.check(AddVoter(voter))


async def test_a_node_with_the_certificate_of_another_does_not_start(autojump_clock, world, secured):
    secured.certificate_of = lambda number: number + 1
    with pytest.raises(RuntimeError, match="without calling"):
        await world.start(1)
    error = world.failures.pop(1)
    assert isinstance(error, QuorumConfigError)
    assert "not quorate://driver-tests/node/1; make it by `quorate certs create-node`" in str(error)


def test_an_answer_claims_no_other_id_even_of_a_node_that_is_known_by_its_address_alone():
    """A bootstrap server has no id until it answers: what it claims then is compared."""
    asks = SimpleNamespace(_in_flight={5: (FrameKind.VOTE, 0.0)}, _proven=NodeId(3), _node=NodeId(-2))
    answer = VoteResponse(source=NodeId(2), destination=NodeId(1), correlation=5, epoch=Epoch(1))
    (data,) = encode(answer)
    with pytest.raises(PeerProtocolError, match="that of node 3, but it speaks as node 2"):
        Peer._take_answer(asks, decode_frame(memoryview(data)[4:]))


@pytest.mark.bug("CVE-2021-3127")
@pytest.mark.parametrize("kinds", [None, CLIENT_KINDS], ids=["between nodes", "for clients"])
def test_a_certificate_of_another_cluster_is_refused_at_either_listener(kinds):
    stream = SimpleNamespace(identities=(Identity("another", None, "web").uri,), peer="h:1")
    server = Server(cluster_id=CLUSTER_ID, inbound=None, max_frame_bytes=1, max_append_bytes=1, kinds=kinds)
    with pytest.raises(TlsError, match="client web of cluster another, this is cluster"):
        server._identify(SimpleNamespace(outbox=SimpleNamespace(stream=stream)))
