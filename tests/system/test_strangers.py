"""A program that knows both protocols, and reaches every port of a cluster of `quorate cluster start
--secure`, but has no certificate, a wrong one, or that of one node."""

import shutil
import ssl
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio

from quorate.broker.admin.admin_client import open_admin
from quorate.broker.admin.quorum import describe_quorum
from quorate.broker.admin.topics import topic_names
from quorate.certs import CertificateFolder
from quorate.cli.node.local_cluster import LocalCluster
from quorate.raft.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    Message,
    VoteRequest,
    VoteResponse,
)
from quorate.raft.transport.frames import PREFACE, decode_frame
from quorate.raft.transport.raft_codec import decode, encode
from quorate.runtime import Address
from quorate.types import Epoch, NodeId, Offset, ReplicaKey
from tests.kit.clusters import running_cluster

pytestmark = pytest.mark.slow

WRONG = (
    "none",
    "without a certificate",
    "of another authority",
    "expired",
    "of another cluster",
    "of a client",
)
"""The certificates with which nobody may be a node."""
FAR = Epoch(1_000_000)
API_VERSIONS = b"\0\0\0\x0b" + b"\0\x12\0\0" + b"\0\0\0\7" + b"\0\1s"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with running_cluster(tmp_path_factory.mktemp("strangers") / "cluster", secure=True) as cluster:
        before = state_of(cluster)
        yield cluster
        assert state_of(cluster) == before, "no try changed the leader, the epoch or the topics"
        assert cluster.running() == [1, 2, 3]


def state_of(cluster: LocalCluster) -> tuple[int, int, list[str]]:
    """The leader of the quorum, its epoch, and the topics."""

    async def ask() -> tuple[int, int, list[str]]:
        brokers = [Address(cluster.host, node.broker_port) for node in cluster.nodes]
        async with open_admin(cluster.network(), brokers, client_id="t") as admin:
            quorum = await describe_quorum(admin)
            return quorum.leader, quorum.epoch, sorted(await topic_names(admin))

    return trio.run(ask)


def stranger(cluster: LocalCluster, certificate: str, folder: Path) -> ssl.SSLContext | None:
    """The TLS of somebody with a certificate, who believes everybody. None: no TLS."""
    if certificate == "none":
        return None
    theirs = cluster.secrets.folder
    now = datetime.now(UTC)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if certificate == "without a certificate":
        return context
    if certificate == "of node 3":
        context.load_cert_chain(theirs / "node-3.pem", theirs / "node-3-key.pem")
        return context
    of_the_cluster = certificate in ("expired", "of a client")
    made = CertificateFolder(folder, now=now - timedelta(days=30) if certificate == "expired" else now)
    if of_the_cluster:
        for name in ("ca.pem", "ca-key.pem"):
            shutil.copy(theirs / name, folder / name)
    else:
        made.create_authority("another" if certificate == "of another cluster" else cluster_id(cluster))
    files = (
        made.create_client("admin") if certificate == "of a client" else made.create_node(NodeId(3), days=1)
    )
    context.load_cert_chain(files.certificate, files.key)
    return context


def cluster_id(cluster: LocalCluster) -> str:
    return next(
        line.partition("=")[2].strip()
        for line in (cluster.node(1).folder / "data" / "meta.properties").read_text().splitlines()
        if line.startswith("cluster.id=")
    )


def claims(cluster: LocalCluster, *, source: int, to: int) -> list[Message]:
    """What would change a quorum, in the name of a voter."""
    of = {
        "source": NodeId(source),
        "destination": NodeId(to),
        "correlation": 7,
        "cluster_id": cluster_id(cluster),
    }
    voter, candidate = ReplicaKey(NodeId(to)), ReplicaKey(NodeId(source))
    return [
        VoteRequest(
            **of, voter=voter, candidate=candidate, epoch=FAR, last_epoch=FAR, end_offset=Offset(10**12)
        ),
        BeginQuorumEpochRequest(**of, voter=voter, epoch=FAR),
        EndQuorumEpochRequest(**of, epoch=FAR, preferred_successors=(NodeId(to),)),
    ]


async def answered(context: ssl.SSLContext | None, address: Address, data: bytes) -> bytes:
    """What a port answers with; nothing if the connection ends first."""
    with trio.fail_after(10), suppress(trio.BrokenResourceError, ssl.SSLError, OSError):
        plain = await trio.open_tcp_stream(address.host, address.port)
        stream = plain if context is None else trio.SSLStream(plain, context)
        try:
            await stream.send_all(data)
            return bytes(await stream.receive_some(65536))
        finally:
            await trio.aclose_forcefully(plain)
    return b""


def framed(message: Message) -> bytes:
    return PREFACE + b"".join(map(bytes, encode(message)))


@pytest.mark.bug("CVE-2018-8012")
@pytest.mark.parametrize("certificate", WRONG)
def test_no_controller_answers_who_has_no_certificate_of_a_node(
    cluster: LocalCluster, tmp_path: Path, certificate: str
) -> None:
    async def main() -> None:
        context = stranger(cluster, certificate, tmp_path)
        for node in cluster.nodes:
            for message in claims(cluster, source=3, to=node.node_id):
                found = await answered(context, Address(cluster.host, node.controller_port), framed(message))
                assert found == b"", (node.node_id, message)

    trio.run(main)


@pytest.mark.parametrize("source", [1, 2])
def test_node_3_is_not_heard_in_the_name_of_others(
    cluster: LocalCluster, tmp_path: Path, source: int
) -> None:
    async def main() -> None:
        context = stranger(cluster, "of node 3", tmp_path)
        for node in cluster.nodes:
            for message in claims(cluster, source=source, to=node.node_id):
                found = await answered(context, Address(cluster.host, node.controller_port), framed(message))
                assert found == b"", (node.node_id, message)

    trio.run(main)


def test_node_3_is_heard_in_its_own_name(cluster: LocalCluster, tmp_path: Path) -> None:
    """The other tries were refused for their names, not for their form."""
    _, epoch, _ = state_of(cluster)

    async def main() -> None:
        context = stranger(cluster, "of node 3", tmp_path)
        asked = VoteRequest(
            source=NodeId(3),
            destination=NodeId(1),
            correlation=7,
            cluster_id=cluster_id(cluster),
            voter=ReplicaKey(NodeId(1)),
            candidate=ReplicaKey(NodeId(3)),
            epoch=Epoch(epoch - 1),
            last_epoch=Epoch(0),
            end_offset=Offset(0),
        )
        address = Address(cluster.host, cluster.node(1).controller_port)
        answer = memoryview(await answered(context, address, framed(asked)))
        found = decode(decode_frame(answer[4:]))
        assert isinstance(found, VoteResponse)
        assert not found.granted

    trio.run(main)


@pytest.mark.parametrize("certificate", WRONG[:-1])
def test_no_broker_answers_who_has_no_certificate_of_the_cluster(
    cluster: LocalCluster, tmp_path: Path, certificate: str
) -> None:
    async def main() -> None:
        context = stranger(cluster, certificate, tmp_path)
        for node in cluster.nodes:
            found = await answered(context, Address(cluster.host, node.broker_port), API_VERSIONS)
            assert found == b"", node.node_id

    trio.run(main)


def hello(context: ssl.SSLContext) -> bytes:
    """The first bytes that a client of TLS sends."""
    sent = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), sent).do_handshake()
    return sent.read()


@pytest.mark.bug("CVE-2011-1473")
def test_ten_thousand_handshakes_that_end_nowhere_keep_nobody_out(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """A whole hello costs its port a part of a handshake, half of one a connection for some time."""
    context = stranger(cluster, "without a certificate", tmp_path)
    assert context is not None
    whole = hello(context)
    leader, epoch, _ = state_of(cluster)
    ports = [port for node in cluster.nodes for port in (node.controller_port, node.broker_port)]
    begun = answers = 0
    slowest = 0.0

    async def begin(port: int, first: bytes) -> None:
        nonlocal begun
        with suppress(OSError, trio.BrokenResourceError), trio.move_on_after(20):
            stream = await trio.open_tcp_stream(cluster.host, port)
            async with stream:
                begun += 1
                await stream.send_all(first)
                # Half a hello waits until the other end has lost its patience.
                while len(first) < len(whole) and await stream.receive_some(4096):
                    pass

    async def attack() -> None:
        async with trio.open_nursery() as nursery:
            room = trio.Semaphore(1500)

            async def one(number: int) -> None:
                first = whole if number % 2 else whole[: 1 + number % (len(whole) - 1)]
                await begin(ports[number // 2 % len(ports)], first)
                room.release()

            for number in range(10_000):
                await room.acquire()
                nursery.start_soon(one, number)

    async def ask(ended: trio.Event) -> None:
        nonlocal answers, slowest
        brokers = [Address(cluster.host, node.broker_port) for node in cluster.nodes]
        while not ended.is_set():
            started = trio.current_time()
            async with open_admin(cluster.network(), brokers, client_id="t") as admin:
                quorum = await describe_quorum(admin)
            assert (quorum.leader, quorum.epoch) == (leader, epoch)
            slowest = max(slowest, trio.current_time() - started)
            answers += 1
            await trio.sleep(0.1)

    async def main() -> None:
        ended = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, ended)
            await attack()
            ended.set()

    trio.run(main)
    print(f"{begun} begun, {answers} logins beside them, the slowest {slowest:.2f} s")
    assert begun > 9_000
    assert answers >= 10
    assert slowest < 5
