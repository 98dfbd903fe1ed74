"""TLS on real sockets: both ends show certificates, and nothing is lost however little the socket takes."""

import os
import random
import socket
import ssl
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio
from captured_logs import captured_logs

from quorate.certs import CertificateFolder
from quorate.raft.transport.identities import Identity
from quorate.runtime import (
    MEMBERS,
    Address,
    ClientAuth,
    NetworkError,
    TlsError,
    TlsFiles,
    TlsFilesError,
    TlsTerms,
    TlsUse,
)
from quorate.runtime.real import RealNetwork
from quorate.runtime.real.certificate_dates import certificates_in, end_ms_of
from quorate.runtime.real.tls_contexts import TlsContexts
from quorate.types import NodeId

HERE = Address("127.0.0.1", 0)


class Certificates:
    def __init__(self, folder: Path, *, now: datetime | None = None) -> None:
        self.folder = CertificateFolder(folder, now=now or datetime.now(UTC))
        self.folder.create_authority("c")

    def node(self, number: int, **options) -> TlsFiles:
        return self.folder.create_node(NodeId(number), **options)


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "certs")


@pytest.fixture
def log_lines():
    with captured_logs() as lines:
        yield lines


def uri(number: int) -> str:
    return Identity("c", NodeId(number)).uri


async def both(server: TlsFiles, client: TlsFiles, nursery):
    """Both ends of a connection, after the handshake."""
    listener = await RealNetwork().secured(server).listen(HERE)
    accepted = []

    async def accept():
        stream = await listener.accept()
        await stream.handshake()
        accepted.append(stream)

    async with trio.open_nursery() as both_ends:
        both_ends.start_soon(accept)
        stream = await RealNetwork().secured(client).connect(listener.address)
    listener.close()
    return accepted[0], stream


async def test_each_end_knows_the_other(certificates, nursery):
    server, client = await both(certificates.node(1), certificates.node(2), nursery)
    assert (server.identities, client.identities) == ((uri(2),), (uri(1),))
    await client.send([b"hello ", b"world"])
    assert await server.receive_some() == b"hello world"
    assert client.send_nowait([b"again"]) == 5
    buffer = bytearray(10)
    assert await server.receive_into(memoryview(buffer)) == 5
    client.close()
    assert await server.receive_some() == b""


async def test_plain_streams_have_no_identities(nursery):
    listener = await RealNetwork().listen(HERE)
    stream = await RealNetwork().connect(listener.address)
    await stream.handshake()
    assert stream.identities is None
    assert RealNetwork().identities is None


@pytest.mark.parametrize("seed", range(2))
async def test_every_byte_arrives_in_order_however_little_the_socket_takes(certificates, nursery, seed):
    server, client = await both(certificates.node(1), certificates.node(2), nursery)
    client._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    draw = random.Random(seed)
    sent, received = bytearray(), bytearray()

    async def send():
        queue: list[bytes] = []
        for _ in range(120):
            for _ in range(draw.randrange(1, 8)):
                size = draw.choice((1, 100, 5000, 16_384, 70_000, 400_000))
                queue.append(draw.randbytes(size))
                sent.extend(queue[-1])
            # As an outbox does: what was not taken comes again, with more behind it.
            taken = client.send_nowait(queue)
            while queue and taken >= len(queue[0]):
                taken -= len(queue.pop(0))
            if taken:
                queue[0] = queue[0][taken:]
            if draw.random() < 0.3:
                await client.send(queue)
                queue = []
        await client.send(queue)
        client.close()

    async def receive():
        while True:
            size = draw.choice((1, 4, 1000, 16_384, draw.randrange(1, 500_000)))
            if draw.random() < 0.5:
                data = await server.receive_some(size)
                assert len(data) <= size
            else:
                buffer = bytearray(size)
                data = buffer[: await server.receive_into(memoryview(buffer))]
            if not data:
                break
            received.extend(data)

    with trio.fail_after(60):
        async with trio.open_nursery() as both_ends:
            both_ends.start_soon(send)
            both_ends.start_soon(receive)
    assert received == sent


async def test_a_burst_of_small_records_is_received_at_once(certificates, nursery):
    """As librdkafka sends a batch: ten bytes and a thousand, again and again."""
    server, client = await both(certificates.node(1), certificates.node(2), nursery)
    sent = b""
    for _ in range(50):
        for record in (bytes(10), bytes(1000)):
            await client.send([record])
            sent += record
    assert len(await server.receive_some(20_000)) == 20_000
    buffer = bytearray(100_000)
    assert await server.receive_into(memoryview(buffer)) == len(sent) - 20_000


async def test_the_rest_of_a_record_needs_no_other_to_come(certificates, nursery):
    server, client = await both(certificates.node(1), certificates.node(2), nursery)
    await client.send([b"one record of 24 bytes.."])
    buffer = bytearray(4)
    with trio.fail_after(5):
        assert await server.receive_some(4) == b"one "
        assert await server.receive_into(memoryview(buffer)) == 4
        assert await server.receive_some() == b"rd of 24 bytes.."
    assert buffer == b"reco"


@pytest.mark.parametrize("into", [False, True])
async def test_what_came_before_a_break_is_received_before_it(certificates, nursery, into):
    server, client = await both(certificates.node(1), certificates.node(2), nursery)
    await client.send([bytes(5000)])
    os.write(client._socket.fileno(), b"no record of TLS")
    if into:
        assert await server.receive_into(memoryview(bytearray(9000))) == 5000
    else:
        assert await server.receive_some(9000) == bytes(5000)
    with pytest.raises(NetworkError):
        await server.receive_some()


async def refused(server: TlsFiles, client: TlsFiles) -> tuple[str, str]:
    """What each end says of a handshake that fails."""
    listener = await RealNetwork().secured(server).listen(HERE)
    said = {"server": "", "client": ""}

    async def serve():
        stream = await listener.accept()
        try:
            await stream.handshake()
        except NetworkError as error:
            said["server"] = str(error)
        stream.close()

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            try:
                stream = await RealNetwork().secured(client).connect(listener.address)
                await stream.receive_some()
            except NetworkError as error:
                said["client"] = str(error)
    return said["server"], said["client"]


async def test_another_authority_is_refused_and_both_ends_say_so(certificates, tmp_path):
    foreign = Certificates(tmp_path / "foreign").node(2)
    server, client = await refused(certificates.node(1), foreign)
    assert "its certificate is not accepted: self-signed certificate in certificate chain" in client
    known = bundle(tmp_path, foreign, certificates.node(1))
    server, client = await refused(
        certificates.node(1),
        TlsFiles(certificate=foreign.certificate, key=foreign.key, authorities=str(known)),
    )
    assert "its certificate is not accepted" in server
    assert "does not know the authority" in client


def bundle(tmp_path: Path, *files: TlsFiles) -> Path:
    path = tmp_path / "both.pem"
    path.write_text("".join(Path(each.authorities).read_text() for each in files))
    return path


@pytest.mark.bug("KAFKA-4090")
@pytest.mark.parametrize(
    ("first", "says"),
    [
        (b"\0\0\0\x20\0\x12\0\3" + bytes(24), "it does not speak TLS"),
        (b"GET / HTTP/1.1\r\n\r\n", "it speaks HTTP without TLS"),
        (b"quorate\1" + bytes(40), "it does not speak TLS"),
    ],
)
async def test_who_does_not_speak_tls_is_named(certificates, first, says):
    listener = await RealNetwork().secured(certificates.node(1)).listen(HERE)
    plain = await RealNetwork().connect(listener.address)
    await plain.send([first])
    stream = await listener.accept()
    with pytest.raises(TlsError, match=says):
        await stream.handshake()


@pytest.mark.parametrize("listens", TlsUse)
@pytest.mark.parametrize("connects", TlsUse)
async def test_members_on_the_way_to_tls_reach_those_that_are_a_step_away(certificates, listens, connects):
    listener = await RealNetwork().secured(certificates.node(1), TlsTerms(use=listens)).listen(HERE)
    network = RealNetwork().secured(certificates.node(2), TlsTerms(use=connects))
    found: list[tuple[object, bytes]] = []

    async def serve() -> None:
        stream = await listener.accept()
        try:
            await stream.handshake()
            found.append((stream.identities, await stream.receive_some()))
            await stream.send([b"pong"])
        except TlsError as error:
            assert "it does not speak TLS" in str(error)
        stream.close()

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            stream = await network.connect(listener.address)
            await stream.send([b"ping ping"])
            try:
                answer = await stream.receive_some()
            except NetworkError:
                answer = b""
            stream.close()
    if connects is TlsUse.ACCEPTED and listens is TlsUse.REQUIRED:
        assert (found, answer) == ([], b"")
    else:
        identities = None if connects is TlsUse.ACCEPTED else network.identities
        assert (found, answer) == ([(identities, b"ping ping")], b"pong")
    listener.close()


async def test_a_connection_that_ends_before_its_first_byte_is_nobodys(certificates):
    listener = await RealNetwork().secured(certificates.node(1), TlsTerms(use=TlsUse.PREFERRED)).listen(HERE)
    (await RealNetwork().connect(listener.address)).close()
    stream = await listener.accept()
    with trio.fail_after(5):
        await stream.handshake()
        assert await stream.receive_some() == b""
    stream.close()
    listener.close()


async def test_who_shows_no_certificate_or_speaks_an_older_tls_gets_nothing(certificates):
    files = certificates.node(1)
    listener = await RealNetwork().secured(files).listen(HERE)

    def ask(**options) -> str:
        context = ssl.create_default_context(cafile=files.authorities)
        context.check_hostname = False
        for name, value in options.items():
            setattr(context, name, value)
        with socket.create_connection(("127.0.0.1", listener.address.port), 5) as raw:
            try:
                with context.wrap_socket(raw) as tls:
                    tls.send(b"hello")
                    return repr(tls.recv(1))
            except OSError as error:
                return str(error)

    async def serve(says: str) -> None:
        stream = await listener.accept()
        with pytest.raises(TlsError, match=says):
            await stream.handshake()
        stream.close()

    for says, options in (
        ("it shows no certificate", {}),
        ("it speaks no version of TLS that is served here", {"maximum_version": ssl.TLSVersion.TLSv1_2}),
    ):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve, says)
            answer = await trio.to_thread.run_sync(lambda options=options: ask(**options))
            assert not answer.startswith("b'"), f"{answer} was received"


@pytest.mark.bug("CVE-2011-1473")
async def test_a_handshake_that_nobody_continues_keeps_no_other_from_being_accepted(certificates, nursery):
    files = certificates.node(1)
    listener = await RealNetwork().secured(files).listen(HERE)
    silent = await RealNetwork().connect(listener.address)
    waiting = await listener.accept()
    nursery.start_soon(_shake, waiting)
    async with trio.open_nursery() as both_ends:
        both_ends.start_soon(lambda: _accept(listener))
        with trio.fail_after(5):
            await RealNetwork().secured(files).connect(listener.address)
    silent.close()


async def _shake(stream):
    with suppress(NetworkError):
        await stream.handshake()


async def _accept(listener):
    await (await listener.accept()).handshake()


@pytest.mark.bug("CVE-2011-1473")
def test_no_client_makes_a_listener_greet_again(certificates):
    """TLS 1.3 has no second handshake, and no client may ask for one of TLS 1.2."""
    files = certificates.node(1)
    for terms in (MEMBERS, TlsTerms(before_1_3=True, strict=False), TlsTerms(client_auth=ClientAuth.NONE)):
        server = TlsContexts(files, terms).server
        assert server.options & ssl.OP_NO_RENEGOTIATION
        assert (server.minimum_version is ssl.TLSVersion.TLSv1_2) is terms.before_1_3


@pytest.mark.bug("CVE-2020-15113")
def test_files_that_can_not_be_used_are_named_with_the_remedy(certificates, tmp_path):
    files = certificates.node(1)
    other = certificates.node(2)

    def fault(**changes) -> str:
        values = {"certificate": files.certificate, "key": files.key, "authorities": files.authorities}
        with pytest.raises(TlsFilesError) as raised:
            RealNetwork().secured(TlsFiles(**(values | changes)))
        return str(raised.value)

    assert "the certificate nowhere can't be read: No such file" in fault(certificate="nowhere")
    assert f"the key {other.key} is not that of the certificate" in fault(key=other.key)
    assert "hold no certificate in the form PEM" in fault(authorities=files.key)
    foreign = Certificates(tmp_path / "foreign").node(1)
    assert "is not accepted with the authorities" in fault(authorities=foreign.authorities)
    ended = Certificates(tmp_path / "ended", now=datetime.now(UTC) - timedelta(days=9)).node(1, days=2)
    assert "certificate has expired" in fault(
        certificate=ended.certificate, key=ended.key, authorities=ended.authorities
    )
    Path(files.key).chmod(0o640)
    assert "can be read by others (its mode is 0640); chmod 600 it" in fault()


def test_a_key_with_a_password_asks_no_terminal(certificates):
    from cryptography.hazmat.primitives import serialization

    files = certificates.node(1)
    key = serialization.load_pem_private_key(Path(files.key).read_bytes(), password=None)
    Path(files.key).write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(TlsFilesError, match=r"has a password; set it in ssl\.key\.password, or store"):
        RealNetwork().secured(files)


async def test_changed_files_are_used_by_new_connections_and_broken_ones_are_not(certificates, log_lines):
    files = certificates.node(1)
    network = RealNetwork().secured(files)
    listener = await network.listen(HERE)

    async def serial() -> int:
        """Of the certificate that a new connection shows."""
        accepted = []

        async def accept():
            stream = await listener.accept()
            await stream.handshake()
            accepted.append(stream)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(accept)
            stream = await RealNetwork().secured(certificates.node(9)).connect(listener.address)
        found = stream._tls.getpeercert()["serialNumber"]
        stream.close()
        return found

    first = await serial()
    assert await serial() == first
    certificates.node(1)
    second = await serial()
    assert second != first
    await trio.Path(files.certificate).write_text("half a certifi")
    assert await serial() == second
    other = certificates.folder.create_node(NodeId(2))
    os.replace(other.key, files.key)
    os.replace(other.certificate, files.certificate)
    assert await serial() == second
    faults = [line["reason"] for line in log_lines if line["event"].startswith("changed TLS files")]
    assert any("can't be read as PEM" in each for each in faults), faults
    assert "in place of ('quorate://c/node/1',)" in faults[-1]
    certificates.node(1)
    assert await serial() not in (first, second)


CLIENT = TlsTerms(before_1_3=True, strict=False, connects=True)


def end_ms_in(path: str) -> int | None:
    """When the first certificate in a file ends."""
    return end_ms_of(certificates_in(Path(path).read_text())[0])


async def served(
    server: TlsFiles,
    terms: TlsTerms,
    client: TlsFiles,
    host: str = "127.0.0.1",
    client_terms: TlsTerms = CLIENT,
):
    """What a listener for clients knows of one: its URIs and its subject. Raises what the client meets."""
    listener = await RealNetwork().secured(server, terms).listen(HERE)
    known = []

    async def accept():
        stream = await listener.accept()
        with suppress(NetworkError):
            await stream.handshake()
            known.append((stream.identities, stream.subject))
            await stream.send([b"hello"])
        stream.close()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(accept)
        met = None
        try:
            network = RealNetwork().secured(client, client_terms)
            stream = await network.connect(Address(host, listener.address.port))
            assert await stream.receive_some() == b"hello"
            assert stream.certificate_end_ms == end_ms_in(server.certificate)
            stream.close()
        except NetworkError as error:
            met = error
    listener.close()
    if met is not None:
        raise met
    return known[0]


async def test_a_client_may_have_no_certificate_where_none_is_demanded(certificates):
    server = certificates.folder.create_node(NodeId(1), hosts=["127.0.0.1"])
    nobody = TlsFiles(certificate="", key="", authorities=server.authorities)
    own = certificates.folder.create_client("web")
    for demand in (ClientAuth.NONE, ClientAuth.REQUESTED):
        terms = TlsTerms(client_auth=demand, before_1_3=True, strict=False)
        assert await served(server, terms, nobody) == ((), None)
    required = TlsTerms(client_auth=ClientAuth.REQUIRED, strict=False)
    with pytest.raises(TlsError, match="demands a certificate"):
        await served(server, required, nobody)
    assert await served(server, required, own) == (("quorate://c/client/web",), "CN=client-web")
    # What is not asked for is not shown.
    assert await served(server, TlsTerms(client_auth=ClientAuth.NONE, strict=False), own) == ((), None)


async def test_a_client_that_looks_at_the_identity_leaves_the_host_and_not_the_authority(
    certificates, tmp_path
):
    server = certificates.folder.create_node(NodeId(1), hosts=["elsewhere.example"])
    terms = TlsTerms(client_auth=ClientAuth.NONE)
    any_host = TlsTerms(connects=True, any_host=True)
    nobody = TlsFiles(certificate="", key="", authorities=server.authorities)
    assert await served(server, terms, nobody, client_terms=any_host) == ((), None)
    other = replace(nobody, authorities=Certificates(tmp_path / "other").node(1).authorities)
    with pytest.raises(TlsError, match="its certificate is not accepted"):
        await served(server, terms, other, client_terms=any_host)


@pytest.mark.bug("CVE-2026-24281")
async def test_a_client_compares_the_host_that_it_dialled(certificates):
    server = certificates.folder.create_node(NodeId(1), hosts=["elsewhere.example"])
    nobody = TlsFiles(certificate="", key="", authorities=server.authorities)
    with pytest.raises(TlsError, match="its certificate is not accepted: IP address mismatch"):
        await served(server, TlsTerms(client_auth=ClientAuth.NONE), nobody)


async def test_a_listener_shows_a_certificate_that_its_own_authorities_do_not_vouch_for(
    certificates, tmp_path
):
    site = Certificates(tmp_path / "site").folder.create_node(NodeId(1), hosts=["127.0.0.1"])
    own = certificates.folder.create_client("web")
    server = TlsFiles(certificate=site.certificate, key=site.key, authorities=own.authorities)
    client = TlsFiles(certificate=own.certificate, key=own.key, authorities=site.authorities)
    terms = TlsTerms(client_auth=ClientAuth.REQUIRED, strict=False)
    assert (await served(server, terms, client))[1] == "CN=client-web"


@pytest.mark.parametrize(
    ("subject", "written"),
    [
        ([("O", "Shop"), ("OU", "Ops"), ("CN", "bob")], "CN=bob,OU=Ops,O=Shop"),
        ([("O", "a,b CN=root"), ("CN", 'x "y"')], 'CN=x \\"y\\",O=a\\,b CN=root'),
        ([("CN", "#1")], "CN=\\#1"),
        ([("CN", " bob ")], "CN=\\ bob\\ "),
    ],
)
def test_a_subject_is_written_as_java_does(subject, written):
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    from quorate.runtime.real.tls_contexts import subject_of

    oids = {"O": NameOID.ORGANIZATION_NAME, "OU": NameOID.ORGANIZATIONAL_UNIT_NAME, "CN": NameOID.COMMON_NAME}
    name = x509.Name([x509.NameAttribute(oids[key], value) for key, value in subject])
    assert name.rfc4514_string() == written
    long = {"O": "organizationName", "OU": "organizationalUnitName", "CN": "commonName"}

    class End:
        def getpeercert(self):
            return {"subject": tuple(((long[key], value),) for key, value in subject)}

    assert subject_of(End()) == written
