"""A node joins by a token: its key stays where it is, and so does that of the authority."""

import os
import stat
from collections.abc import Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio
from captured_logs import captured_logs
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from quorate.certs import (
    CertificateError,
    CertificateFolder,
    JoinToken,
    JoinTokens,
    join,
    join_tokens,
    serve_joins,
)
from quorate.certs import join_server as server_module
from quorate.certs.join_messages import (
    MESSAGE_MAX_BYTES,
    JoinAnswer,
    JoinRequest,
    decode_answer,
    encode_answer,
    encode_request,
    receive_message,
    send_message,
)
from quorate.certs.join_tokens import JoinRefusedError
from quorate.certs.making import new_key
from quorate.raft.transport.identities import Identity
from quorate.runtime import Address, ClientAuth, NetworkError, TlsFiles, TlsTerms
from quorate.runtime.real import RealNetwork, SyncStrategy, real_runtime
from quorate.runtime.real.tls_contexts import TlsContexts
from quorate.types import NodeId, SecretBytes

HERE = Address("127.0.0.1", 0)
CLUSTER = "shop/1 ü"


class Authority:
    def __init__(self, folder: Path, cluster_id: str = CLUSTER) -> None:
        self.path = folder
        self.folder = CertificateFolder(folder, now=datetime.now(UTC))
        self.folder.create_authority(cluster_id)

    def tokens(self, *, later: timedelta = timedelta()) -> JoinTokens:
        return JoinTokens(self.path, now=datetime.now(UTC) + later)

    def token(self, node: int = 4, **options) -> JoinToken:
        return self.tokens().create(NodeId(node), **options)[0]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "certs")


@pytest.fixture
def log_lines():
    with captured_logs() as lines:
        yield lines


@asynccontextmanager
async def signing(authority: Authority):
    """The server of an authority, and its address."""
    bound: list[Address] = []
    ready = trio.Event()

    def started(address: Address) -> None:
        bound.append(address)
        ready.set()

    async with trio.open_nursery() as nursery:
        runtime = real_runtime(sync=SyncStrategy.INLINE)
        nursery.start_soon(lambda: serve_joins(authority.path, HERE, runtime=runtime, started=started))
        await ready.wait()
        yield bound[0]
        nursery.cancel_scope.cancel()


def csr_of(key, *names: x509.GeneralName, subject: str = "", ca: bool = False) -> str:
    attributes = [x509.NameAttribute(x509.NameOID.COMMON_NAME, subject)] if subject else []
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(attributes))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    if ca:
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(key, algorithm).public_bytes(serialization.Encoding.PEM).decode()


def names_in(certificate: x509.Certificate) -> set[str]:
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(each.value) for each in names}


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def content_of(path: str | Path) -> bytes:
    return Path(path).read_bytes()


async def test_a_node_joins_and_its_key_stays_where_it_is(authority, tmp_path, log_lines):
    token = authority.token(hosts=["four.example", "10.0.0.4"], days=20)
    authority.folder.create_node(NodeId(4))
    out = tmp_path / "node"
    async with signing(authority) as address:
        files = await join(JoinToken.parse(f" {token.text()}\n"), address, out, network=RealNetwork())
    assert TlsContexts(files).identities == (Identity(CLUSTER, NodeId(4)).uri,)
    modes = {each.name: mode_of(each) for each in out.iterdir()}
    assert modes == {
        "ca.pem": 0o644,
        "node-4.pem": 0o644,
        "node-4-key.pem": 0o600,
        "node-4-keystore.pem": 0o600,
    }
    assert mode_of(out) == 0o700
    keystore = (out / "node-4-keystore.pem").read_bytes()
    assert keystore == content_of(files.key) + content_of(files.certificate)
    assert (out / "ca.pem").read_bytes() == authority.folder.authorities.read_bytes()
    certificate = x509.load_pem_x509_certificate(content_of(files.certificate))
    assert names_in(certificate) == {Identity(CLUSTER, NodeId(4)).uri, "four.example", "10.0.0.4"}
    left = certificate.not_valid_after_utc - datetime.now(UTC)
    assert timedelta(days=19) < left <= timedelta(days=20)
    # The authority has the certificate, and neither the key nor the earlier one's.
    assert (authority.path / "node-4.pem").read_bytes() == content_of(files.certificate)
    assert not (authority.path / "node-4-key.pem").exists()
    assert not (authority.path / "node-4-keystore.pem").exists()
    key = content_of(files.key).decode().split("\n")[1]
    kept = [each for each in authority.path.rglob("*") if each.is_file()]
    assert not [each for each in kept if key in each.read_text(errors="replace")]
    assert {mode_of(each) for each in (authority.path / "tokens").iterdir()} == {0o600}
    assert mode_of(authority.path / "tokens") == 0o700
    (line,) = [each for each in log_lines if "signed the certificate" in str(each["event"])]
    assert line["node"] == 4
    # Nothing of the server's own is left.
    assert not [each for each in authority.path.iterdir() if each.name.startswith("signer")]


async def test_no_secret_is_remembered_sent_or_shown(authority, tmp_path, log_lines, monkeypatch):
    token = authority.token()
    received: list[bytes] = []

    async def taken(stream) -> bytes:
        received.append(await receive_message(stream))
        return received[-1]

    monkeypatch.setattr(server_module, "receive_message", taken)
    async with signing(authority) as address:
        await join(token, address, tmp_path / "node", network=RealNetwork())
    secret = bytes(token.secret)
    assert len(received) == 1
    assert secret not in received[0]
    for each in authority.path.rglob("*"):
        if each.is_file():
            content = each.read_bytes()
            assert secret not in content, each
            assert secret.hex().encode() not in content, each
    shown = f"{token!r} {log_lines!r}"
    assert secret.hex() not in shown
    assert repr(secret)[2:-1] not in shown


async def test_a_token_is_used_once(authority, tmp_path):
    token = authority.token()
    async with signing(authority) as address:
        files = await join(token, address, tmp_path / "node", network=RealNetwork())
        before = content_of(files.certificate)
        with pytest.raises(CertificateError, match=r"used already, for another key; make another one by"):
            await join(token, address, tmp_path / "thief", network=RealNetwork())
        # The node's own key is in use now, so a repetition has another one too.
        with pytest.raises(CertificateError, match="used already"):
            await join(token, address, tmp_path / "node", network=RealNetwork())
    assert content_of(files.certificate) == before
    assert not (tmp_path / "thief" / "node-4.pem").exists()


async def test_a_node_that_joins_again_replaces_its_files_while_it_runs(authority, tmp_path):
    out = tmp_path / "node"
    async with signing(authority) as address:
        files = await join(authority.token(days=3), address, out, network=RealNetwork())
        running = TlsContexts(files)
        first, (end, *_) = content_of(files.key), running.certificates
        await join(authority.token(days=30), address, out, network=RealNetwork())
    assert content_of(files.key) != first
    running.look()
    assert running.certificates[0].end_ms - end.end_ms == pytest.approx(27 * 86_400_000, abs=60_000)
    assert {each.name for each in out.iterdir()} == {
        "ca.pem", "node-4.pem", "node-4-key.pem", "node-4-keystore.pem",
    }  # fmt: skip


async def test_an_answer_that_was_lost_is_asked_for_again(authority, tmp_path, monkeypatch):
    token = authority.token()
    send = server_module.send_message

    async def cut(stream, message):
        stream.close()

    async with signing(authority) as address:
        monkeypatch.setattr(server_module, "send_message", cut)
        with pytest.raises(NetworkError, match="try again, with the same token"):
            await join(token, address, tmp_path / "node", network=RealNetwork())
        assert [each.name for each in (tmp_path / "node").iterdir()] == ["node-4.joining"]
        assert mode_of(tmp_path / "node" / "node-4.joining") == 0o600
        with pytest.raises(CertificateError, match="used already"):
            monkeypatch.setattr(server_module, "send_message", send)
            await join(token, address, tmp_path / "thief", network=RealNetwork())
        files = await join(token, address, tmp_path / "node", network=RealNetwork())
    TlsContexts(files)


async def test_of_two_at_once_one_is_first(authority, tmp_path):
    token = authority.token()
    ended: list[str] = []

    async def try_to_join(name: str) -> None:
        try:
            await join(token, address, tmp_path / name, network=RealNetwork())
            ended.append("joined")
        except CertificateError as error:
            assert "used already" in str(error)
            ended.append("refused")

    async with signing(authority) as address, trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(try_to_join, f"node-{number}")
    assert sorted(ended) == ["joined", *["refused"] * 3]


def test_of_two_processes_one_is_first(authority, monkeypatch):
    """Each has seen that nobody has used the token."""
    token = authority.token()
    first, second = authority.tokens(), authority.tokens()
    link = join_tokens.os.link
    raced: list[bool] = []

    def other_is_quicker(whole, used):
        if not raced:
            raced.append(True)
            second.sign(token.request(csr_of(new_key())))
        link(whole, used)

    monkeypatch.setattr(join_tokens.os, "link", other_is_quicker)
    with pytest.raises(JoinRefusedError, match="used already"):
        first.sign(token.request(csr_of(new_key())))
    assert raced


async def test_only_the_authority_of_the_token_gets_a_request(authority, tmp_path, nursery):
    other = Authority(tmp_path / "other")
    out = tmp_path / "node"
    async with signing(other) as address:
        with pytest.raises(
            CertificateError, match=r"nothing was sent to it .*its certificate is not accepted"
        ):
            await join(authority.token(), address, out, network=RealNetwork())
    plain = await RealNetwork().listen(HERE)
    got: list[bytes] = []

    async def listen_in() -> None:
        stream = await plain.accept()
        got.append(await stream.receive_some())
        await stream.send([b"HTTP/1.1 400 Bad Request\r\n\r\n"])

    nursery.start_soon(listen_in)
    with pytest.raises(CertificateError, match="it does not speak TLS"):
        await join(authority.token(), plain.address, out, network=RealNetwork())
    assert b"CERTIFICATE REQUEST" not in got[0]


@pytest.mark.parametrize("who", ["a node", "a client"])
async def test_a_member_can_not_stand_in_for_the_server(authority, tmp_path, nursery, who):
    """Its certificate is of the same authority, and good for a server."""
    folder = authority.folder
    theirs = folder.create_node(NodeId(1)) if who == "a node" else folder.create_client("web")
    network = RealNetwork().secured(replace(theirs, authorities=""), TlsTerms(client_auth=ClientAuth.NONE))
    listener = await network.listen(HERE)
    got: list[bytes] = []
    ended = trio.Event()

    async def pose() -> None:
        stream = await listener.accept()
        await stream.handshake()
        with suppress(NetworkError):  # cut off
            while some := await stream.receive_some():
                got.append(some)
        ended.set()

    nursery.start_soon(pose)
    with pytest.raises(CertificateError, match=r"names quorate://shop%2F1.*, and nothing was sent to it"):
        await join(authority.token(), listener.address, tmp_path / "node", network=RealNetwork())
    with trio.fail_after(5):
        await ended.wait()
    assert got == []


def test_the_server_is_no_member(authority, tmp_path):
    files = authority.folder.create_signer(tmp_path)
    (uri,) = names_in(x509.load_pem_x509_certificate(content_of(files.certificate)))
    assert uri.startswith("quorate://")
    assert Identity.parse(uri) is None


ENDED = timedelta(hours=2, minutes=1)
REFUSALS = {
    "ended": (
        lambda tokens, token: token.request(csr_of(new_key())),
        "has ended at .* UTC; make another one",
    ),
    "not signed by the token": (
        lambda tokens, token: replace(token.request(csr_of(new_key())), proof=SecretBytes(bytes(64))),
        "not signed by a join token",
    ),
    "signed for another key": (
        lambda tokens, token: replace(token.request(csr_of(new_key())), csr=csr_of(new_key())),
        "not signed by a join token",
    ),
    "of no name": (
        lambda tokens, token: replace(token.request(csr_of(new_key())), token_id="../../ca-key"),
        "not signed by a join token",
    ),
    "of a name with another spelling": (
        lambda tokens, token: replace(token.request(csr_of(new_key())), token_id=token.token_id.upper()),
        "not signed by a join token",
    ),
    "no request in it": (lambda tokens, token: token.request("-----BEGIN"), "no certificate signing request"),
    "RSA": (
        lambda tokens, token: token.request(csr_of(rsa.generate_private_key(65537, 1024))),
        r"none of P-256",
    ),
    "Ed25519": (
        lambda tokens, token: token.request(csr_of(ed25519.Ed25519PrivateKey.generate())),
        "none of P-256",
    ),
    "another curve": (
        lambda tokens, token: token.request(csr_of(ec.generate_private_key(ec.SECP384R1()))),
        "none of P-256",
    ),
    "a key that is somebody else's": (
        lambda tokens, token: token.request(forged_csr()),
        "not signed by its own key",
    ),
}


def forged_csr() -> str:
    """A request whose signature is broken in its last byte."""
    csr = x509.load_pem_x509_csr(csr_of(new_key(), subject="x").encode())
    der = bytearray(csr.public_bytes(serialization.Encoding.DER))
    der[-1] ^= 1
    return x509.load_der_x509_csr(bytes(der)).public_bytes(serialization.Encoding.PEM).decode()


@pytest.mark.parametrize("request_of", REFUSALS)
def test_a_request_is_refused_with_the_remedy_and_uses_no_token(authority, request_of):
    make, said = REFUSALS[request_of]
    token = authority.token(hours=2)
    tokens = authority.tokens(later=ENDED if request_of == "ended" else timedelta())
    with pytest.raises(JoinRefusedError, match=said):
        tokens.sign(make(tokens, token))
    assert not (authority.path / "node-4.pem").exists()
    assert authority.tokens().sign(token.request(csr_of(new_key()))).node == 4


@pytest.mark.slow
def test_whatever_changes_on_the_way_is_refused(authority):
    token = authority.token()
    request = encode_request(token.request(csr_of(new_key())))
    clock = real_runtime(sync=SyncStrategy.INLINE).wall_clock
    for index in range(len(request)):
        for bit in (0x01, 0x20, 0x80):
            changed = bytearray(request)
            changed[index] ^= bit
            assert server_module._answer(bytes(changed), authority.path, clock, "peer").refused, index
    assert not (authority.path / "node-4.pem").exists()
    assert not server_module._answer(request, authority.path, clock, "peer").refused


def test_a_token_is_used_on_the_disk_before_anything_is_signed(authority, monkeypatch):
    token = authority.token()
    steps: list[str] = []
    fsync, sign = os.fsync, CertificateFolder.sign_node

    def note_fsync(descriptor: int) -> None:
        fsync(descriptor)
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        steps.append(f"sync {'the folder' if is_folder else 'a file'}")

    def note_sign(*given, **named) -> bytes:
        used = authority.path / "tokens" / f"{token.token_id}.used"
        steps.append(f"sign, used: {used.exists()}")
        return sign(*given, **named)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(CertificateFolder, "sign_node", note_sign)
    authority.tokens().sign(token.request(csr_of(new_key())))
    assert steps[:3] == ["sync a file", "sync the folder", "sign, used: True"]


def test_a_token_of_another_folder_or_one_that_was_taken_back_is_unknown(authority, tmp_path):
    request = Authority(tmp_path / "other").token().request(csr_of(new_key()))
    with pytest.raises(
        JoinRefusedError, match="not known here: it was taken back, or made in another folder"
    ):
        authority.tokens().sign(request)
    token, remembered, end = authority.tokens().create(NodeId(5))
    assert timedelta(hours=23) < end - datetime.now(UTC) <= timedelta(hours=24)
    remembered.unlink()
    with pytest.raises(JoinRefusedError, match="taken back"):
        authority.tokens().sign(token.request(csr_of(new_key())))


def test_nothing_of_a_request_counts_but_its_key(authority):
    key = new_key()
    csr = csr_of(
        key,
        x509.UniformResourceIdentifier(Identity(CLUSTER, NodeId(1)).uri),
        x509.DNSName("bank.example"),
        subject="node-1",
        ca=True,
    )
    answer = authority.tokens().sign(authority.token(4, hosts=["four.example"]).request(csr)).answer
    certificate = x509.load_pem_x509_certificate(answer.certificate.encode())
    assert certificate.public_key() == key.public_key()
    assert names_in(certificate) == {Identity(CLUSTER, NodeId(4)).uri, "four.example"}
    assert certificate.subject.rfc4514_string() == "CN=node-4"
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert not constraints.ca


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", None),
        ((MESSAGE_MAX_BYTES + 1).to_bytes(4), None),
        (b"\0\0\0\1", None),
        (b"\0\0\0\1\xff", "the request can't be read"),
        (b"\0\0\0\0", "the request can't be read"),
    ],
    ids=["HTTP", "too large", "cut", "no CBOR", "empty"],
)
async def test_garbage_ends_its_own_connection_alone(authority, tmp_path, log_lines, sent, answered):
    pinned = tmp_path / "pinned.pem"
    pinned.write_bytes(authority.folder.signing_authority())
    files = TlsFiles(certificate="", key="", authorities=str(pinned))
    network = RealNetwork().secured(files, TlsTerms(connects=True, any_host=True))
    async with signing(authority) as address:
        stream = await network.connect(address)
        await stream.send([sent])
        if sent == b"\0\0\0\1":
            stream.close()
        elif answered is None:
            with pytest.raises(NetworkError):
                await receive_message(stream)
        else:
            assert answered in decode_answer(await receive_message(stream)).refused
        stream.close()
        await join(authority.token(), address, tmp_path / "node", network=RealNetwork())
    reasons = [
        each for each in log_lines if "refused" in str(each["event"]) or "failed" in str(each["event"])
    ]
    assert len(reasons) == 1
    assert "\n" not in str(reasons[0]["reason"])


async def test_who_says_nothing_is_cut_off_and_delays_others_no_longer(authority, tmp_path, monkeypatch):
    monkeypatch.setattr(server_module, "SECONDS_MAX", 0.3)
    monkeypatch.setattr(server_module, "CONNECTIONS_MAX", 2)
    async with signing(authority) as address:
        silent = [await RealNetwork().connect(address) for _ in range(2)]
        with trio.fail_after(5):
            await join(authority.token(), address, tmp_path / "node", network=RealNetwork())
        for each in silent:
            assert await each.receive_some() == b""
            each.close()


async def test_tries_are_limited_by_a_rate(authority, monkeypatch):
    monkeypatch.setattr(server_module, "RATE", 20.0)
    monkeypatch.setattr(server_module, "_BURST_SECONDS", 0.1)
    async with signing(authority) as address:
        start = trio.current_time()
        for _ in range(12):
            stream = await RealNetwork().connect(address)
            await stream.send([b"no TLS"])
            with suppress(NetworkError):
                while await stream.receive_some():
                    pass
            stream.close()
        # 2 at once, and 10 more at 20 a second.
        assert trio.current_time() - start > 0.4


async def test_an_authority_that_can_not_sign_says_so_and_the_token_stays_the_nodes(
    authority, tmp_path, log_lines
):
    token = authority.token()
    key = authority.path / "ca-key.pem"
    async with signing(authority) as address:
        key.rename(authority.path / "elsewhere")
        with pytest.raises(CertificateError, match=r"can't sign now; its log says why"):
            await join(token, address, tmp_path / "node", network=RealNetwork())
        (authority.path / "elsewhere").rename(key)
        with pytest.raises(CertificateError, match="used already"):
            await join(token, address, tmp_path / "thief", network=RealNetwork())
        await join(token, address, tmp_path / "node", network=RealNetwork())
    (line,) = [each for each in log_lines if "can't be made" in str(each["event"])]
    assert "ca-key.pem can't be read" in line["reason"]


@pytest.mark.parametrize(
    "wrong", ["another key", "another node", "another authority", "nothing", "a refusal with a control"]
)
async def test_a_node_takes_no_certificate_that_is_not_its_own(authority, tmp_path, monkeypatch, wrong):
    folder = authority.folder
    key = new_key().public_key()
    real = server_module._answer

    def answer(received, *rest) -> JoinAnswer:
        good = real(received, *rest)
        match wrong:
            case "another key":
                return replace(good, certificate=folder.sign_node(NodeId(4), key).decode())
            case "another node":
                mine = x509.load_pem_x509_certificate(good.certificate.encode()).public_key()
                return replace(good, certificate=folder.sign_node(NodeId(5), mine).decode())
            case "another authority":
                other = Authority(tmp_path / "other").folder
                return replace(good, authorities=other.signing_authority().decode())
            case "nothing":
                return JoinAnswer()
        return JoinAnswer(refused="no\x1b[31m\nway")

    monkeypatch.setattr(server_module, "_answer", answer)
    out = tmp_path / "node"
    said = r"refuses: no\?\[31m\?way" if wrong.startswith("a refusal") else "that came is not one of node 4"
    async with signing(authority) as address:
        with pytest.raises(CertificateError, match=said):
            await join(authority.token(), address, out, network=RealNetwork())
    assert [each.name for each in out.iterdir()] == ["node-4.joining"]


async def test_what_is_in_the_way_of_a_node_is_named(authority, tmp_path):
    token = authority.token()
    nobody = Address("127.0.0.1", 1)
    with pytest.raises(CertificateError, match="is the folder of an authority; choose another one"):
        await join(token, nobody, authority.path, network=RealNetwork())
    other = Authority(tmp_path / "other", "bank").folder.signing_authority()
    (tmp_path / "in use").mkdir()
    (tmp_path / "in use" / "ca.pem").write_bytes(other)
    with pytest.raises(
        CertificateError, match="has the certificates of cluster bank, and the token is of shop"
    ):
        await join(token, nobody, tmp_path / "in use", network=RealNetwork())
    (tmp_path / "file").write_text("")
    with pytest.raises(CertificateError, match=r"file can't be used: (File exists|Not a directory)"):
        await join(token, nobody, tmp_path / "file", network=RealNetwork())
    with pytest.raises(NetworkError, match=r"127\.0\.0\.1:1: .*; try again, with the same token"):
        await join(token, nobody, tmp_path / "node", network=RealNetwork())
    (tmp_path / "node" / "node-4.joining").write_text("no key")
    with pytest.raises(CertificateError, match=r"node-4\.joining is no key in the form PEM; delete it"):
        await join(token, nobody, tmp_path / "node", network=RealNetwork())


CHANGES: list[Callable[[str], str]] = [
    lambda text: "",
    lambda text: text[:-1],
    lambda text: text[1:],
    lambda text: text[:40] + text[44:],
    lambda text: text + "A" * 20_000,
    lambda text: "quorate-join-ü",
    lambda text: "quorate-join-gwEAoA",
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_part_of_a_token_is_none(authority, change):
    text = authority.token().text()
    assert JoinToken.parse(text).text() == text
    with pytest.raises(CertificateError, match="no join token, or a part of one; copy the whole line"):
        JoinToken.parse(change(text))


def test_a_token_is_of_a_certificate_that_can_be(authority, tmp_path):
    with pytest.raises(CertificateError, match=r"'a b' is no name of a host"):
        authority.token(hosts=["a b"])
    with pytest.raises(CertificateError, match="good for 0 hours; choose 1 to 8760"):
        authority.token(hours=0)
    with pytest.raises(CertificateError, match="good for 0 days"):
        authority.token(days=0)
    with pytest.raises(CertificateError, match="make an authority first"):
        JoinTokens(tmp_path / "none", now=datetime.now(UTC)).create(NodeId(1))
    authority.folder.create_node(NodeId(4))
    with pytest.raises(
        CertificateError, match=r"is here already, in .*/node-4-key\.pem; delete the file first"
    ):
        authority.token(4)
    (authority.path / "node-4-key.pem").unlink()
    with pytest.raises(CertificateError, match=r"is here already, in .*/node-4-keystore\.pem"):
        authority.token(4)
    assert not (authority.path / "tokens").exists()
    (authority.path / "node-4-keystore.pem").unlink()
    authority.token(4)


def test_a_token_names_the_authority_that_signs(authority):
    authority.folder.add_authority()
    token = authority.token()
    assert token.authority.encode() == authority.folder.signing_authority()
    answer = authority.tokens().sign(token.request(csr_of(new_key()))).answer
    assert answer.authorities.count("BEGIN CERTIFICATE") == 2


def test_certificates_of_nodes_that_joined_are_not_renewed_here(authority):
    authority.folder.create_node(NodeId(1))
    authority.tokens().sign(authority.token().request(csr_of(new_key())))
    before = (authority.path / "node-4.pem").read_bytes()
    assert [Path(each.certificate).name for each in authority.folder.renew()] == ["node-1.pem"]
    assert authority.folder.joined == [authority.path / "node-4.pem"]
    assert (authority.path / "node-4.pem").read_bytes() == before
    authority.folder.add_authority()
    authority.folder.renew()
    with pytest.raises(CertificateError, match=r"node-4\.pem is of an earlier authority"):
        authority.folder.drop_earlier_authorities()
    authority.tokens().sign(authority.token().request(csr_of(new_key())))
    authority.folder.drop_earlier_authorities()


async def test_messages_come_back_as_they_went(nursery):
    listener = await RealNetwork().listen(HERE)
    stream = await RealNetwork().connect(listener.address)
    other = await listener.accept()
    request = JoinRequest(token_id="ab", csr="pem", proof=SecretBytes(b"proof"))
    await send_message(stream, encode_request(request))
    await send_message(stream, encode_answer(JoinAnswer(refused="no")))
    assert server_module.decode_request(await receive_message(other)) == request
    assert decode_answer(await receive_message(other)).refused == "no"
