"""Files of TLS that are replaced while connections are open."""

import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio
import trio.testing
from captured_logs import captured_logs

from quorate.certs import CertificateFolder
from quorate.runtime import Address, ClientAuth, NetworkError, TlsError, TlsFiles, TlsTerms
from quorate.runtime.real import RealNetwork, tls_watch
from quorate.types import NodeId

HERE = Address("127.0.0.1", 0)
CLIENTS = TlsTerms(client_auth=ClientAuth.REQUESTED, before_1_3=True, strict=False)
CLIENT = TlsTerms(before_1_3=True, strict=False, connects=True)


@pytest.fixture
def folder(tmp_path: Path) -> CertificateFolder:
    made = CertificateFolder(tmp_path / "certs", now=datetime.now(UTC))
    made.create_authority("c")
    return made


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in ten seconds, in less."""
    monkeypatch.setattr(tls_watch, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(tls_watch, "SPREAD_SECONDS", 0.02)


class Pair:
    """Both ends of a connection that is open."""

    def __init__(self, server, client) -> None:
        self.server, self.client = server, client

    async def works(self) -> bool:
        try:
            await self.client.send([b"hello"])
            await self.server.send([b"and back"])
            with trio.fail_after(5):
                return await self.server.receive_some() == b"hello" and bool(await self.client.receive_some())
        except NetworkError:
            return False

    async def ends(self) -> bool:
        with trio.move_on_after(5), suppress(NetworkError):
            return await self.client.receive_some() == b""
        return not await self.works()


class Served:
    """A listener that accepts connections of several networks."""

    def __init__(self, listener) -> None:
        self._listener = listener

    @classmethod
    async def at(cls, files: TlsFiles, terms: TlsTerms | None = None) -> "Served":
        network = RealNetwork().secured(files) if terms is None else RealNetwork().secured(files, terms)
        return cls(await network.listen(HERE))

    async def open(self, network) -> Pair:
        accepted = []

        async def accept() -> None:
            stream = await self._listener.accept()
            await stream.handshake()
            accepted.append(stream)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(accept)
            stream = await network.connect(self._listener.address)
        return Pair(accepted[0], stream)


async def until(reached) -> None:
    with trio.fail_after(5):
        while not reached():  # noqa: ASYNC110 it is the watch that looks by the clock
            await trio.sleep(0.01)


async def seen(files: TlsFiles, lines: list) -> None:
    """Return when the nodes have looked at the files again."""
    before = len(lines)
    await until(lambda: any(each.get("certificate") == files.certificate for each in lines[before:]))
    await trio.sleep(0.1)


def mode_of(path: str, mode: int) -> None:
    """Replace a file by one of the same content and another mode."""
    file = Path(path)
    other = file.with_name("other")
    other.write_bytes(file.read_bytes())
    other.chmod(mode)
    other.replace(file)


@pytest.fixture
def log_lines():
    with captured_logs() as lines:
        yield lines


@pytest.mark.bug("OpenSearch issue 1763")
async def test_an_authority_is_replaced_and_no_connection_of_the_new_one_ends(folder, log_lines):
    server = folder.create_node(NodeId(1))
    client = folder.create_node(NodeId(2))
    served, network = await Served.at(server), RealNetwork().secured(client)
    first = await served.open(network)
    folder.add_authority()
    await seen(server, log_lines)
    assert await first.works()
    folder.renew()
    await seen(server, log_lines)
    second = await served.open(network)
    assert await first.works()
    assert await second.works()
    folder.drop_earlier_authorities()
    await seen(server, log_lines)
    assert await first.ends()
    assert await second.works()
    assert await (await served.open(network)).works()


async def test_each_end_alone_ends_what_its_authority_does_not_vouch_for(folder, tmp_path, log_lines):
    server, client = folder.create_node(NodeId(1)), folder.create_node(NodeId(2))
    for changes in ("server", "client"):
        own = tmp_path / f"{changes}.pem"
        own.write_bytes(folder.authorities.read_bytes())
        mine = TlsFiles(
            certificate=(server if changes == "server" else client).certificate,
            key=(server if changes == "server" else client).key,
            authorities=str(own),
        )
        other = client if changes == "server" else server
        served = await Served.at(mine if changes == "server" else other)
        pair = await served.open(RealNetwork().secured(other if changes == "server" else mine))
        assert await pair.works()
        replaced = CertificateFolder(tmp_path / f"another-{changes}", now=datetime.now(UTC))
        replaced.create_authority("c")
        node = replaced.create_node(NodeId(1 if changes == "server" else 2))
        os.replace(replaced.authorities, own)
        os.replace(node.key, mine.key)
        os.replace(node.certificate, mine.certificate)
        assert await pair.ends(), changes
        server, client = folder.create_node(NodeId(1)), folder.create_node(NodeId(2))


async def test_a_client_without_a_certificate_stays_when_an_authority_goes(folder, tmp_path, log_lines):
    server = folder.create_node(NodeId(1), hosts=["127.0.0.1"])
    own = folder.create_client("web")
    known = tmp_path / "known.pem"
    known.write_bytes(folder.authorities.read_bytes())
    nobody = RealNetwork().secured(TlsFiles(certificate="", key="", authorities=str(known)), CLIENT)
    user = RealNetwork().secured(
        TlsFiles(certificate=own.certificate, key=own.key, authorities=str(known)), CLIENT
    )
    served = await Served.at(server, CLIENTS)
    without, by_certificate = await served.open(nobody), await served.open(user)
    folder.add_authority()
    folder.renew()
    folder.drop_earlier_authorities()
    await seen(server, log_lines)
    assert await by_certificate.ends()
    assert await without.works()


async def test_a_certificate_that_another_one_leads_to_ends_with_any_authority():
    """Which authority is behind it is not known, so it doesn't stay by mistake."""
    from quorate.runtime.real.tls_contexts import TlsContexts

    contexts = TlsContexts.__new__(TlsContexts)
    known, between = ((("commonName", "known"),),), ((("commonName", "between"),),)

    contexts._contexts = SimpleNamespace(authorities={b"1": known})
    contexts.era, contexts._removed = 1, {}
    assert contexts.vouch_for(known, 0)
    assert contexts.vouch_for(between, 1)
    assert not contexts.vouch_for(between, 0)
    # Another authority of the same name stays: whose it was is not known.
    contexts._removed = {known: 1}
    assert not contexts.vouch_for(known, 0)
    assert contexts.vouch_for(known, 1)


async def test_a_connection_that_greets_while_its_authority_goes_is_refused(folder, log_lines):
    server, client = folder.create_node(NodeId(1)), folder.create_node(NodeId(2))
    served = await Served.at(server)
    network = RealNetwork().secured(client)
    async with trio.open_nursery() as nursery:

        async def connect() -> None:
            with suppress(NetworkError):
                await network.connect(served._listener.address)

        nursery.start_soon(connect)
        stream = await served._listener.accept()
        await trio.testing.wait_all_tasks_blocked(0.01)
        folder.add_authority()
        folder.renew()
        folder.drop_earlier_authorities()
        await seen(server, log_lines)
        with pytest.raises(TlsError, match="the authority of its certificate was removed meanwhile"):
            await stream.handshake()
        stream.close()


async def test_a_node_without_new_connections_takes_files_whose_mode_was_mended(folder, log_lines):
    server, client = folder.create_node(NodeId(1)), folder.create_node(NodeId(2))
    served = await Served.at(server)
    pair = await served.open(RealNetwork().secured(client))
    mode_of(server.key, 0o644)
    await until(lambda: any("chmod 600" in str(each.get("reason")) for each in log_lines))
    faults = len(log_lines)
    await trio.sleep(0.2)
    assert len(log_lines) == faults, "said once"
    os.chmod(server.key, 0o600)
    await until(
        lambda: any(each["event"].startswith("TLS files have changed") for each in log_lines[faults:])
    )
    assert await pair.works()


def damage(path: Path, body: bytes | None) -> None:
    """Put something else between the marks of the file, or cut it in half."""
    whole = path.read_bytes()
    begin, end = b"-----BEGIN CERTIFICATE-----\n", b"\n-----END CERTIFICATE-----\n"
    path.write_bytes(whole[: len(whole) // 2] if body is None else begin + body + end)


@pytest.mark.parametrize("damaged", ["certificate", "authorities"])
@pytest.mark.parametrize("body", [b"", b"A", b"AAA", b"AAAA", b"MAMCAQE=", b"!!!!", b"\xff\xfe", None])
async def test_a_damaged_file_stops_nobody(folder, log_lines, damaged: str, body: bytes | None):
    server, client = folder.create_node(NodeId(1)), folder.create_node(NodeId(2))
    served = await Served.at(server)
    pair = await served.open(RealNetwork().secured(client))
    others = RealNetwork().secured(client)
    damage(Path(getattr(server, damaged)), body)
    await until(lambda: any(each["event"].startswith("changed TLS files can't") for each in log_lines))
    assert await pair.works()
    assert await (await served.open(others)).works()


async def test_the_look_ends_with_what_is_open(folder):
    server, client = folder.create_node(NodeId(1)), folder.create_node(NodeId(2))
    served = await Served.at(server)
    pair = await served.open(RealNetwork().secured(client))
    watch = served._listener._watch
    for each in (pair.server, pair.client, served._listener):
        each.close()
    await until(lambda: not watch._runs)
    again = await Served.at(server)
    assert again._listener._watch._runs
