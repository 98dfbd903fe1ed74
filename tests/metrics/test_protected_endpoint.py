"""The endpoint with a token and TLS: who gets what, and files that change while it serves."""

import json
import random
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
import trio
from captured_logs import captured_logs
from prometheus_client import CollectorRegistry, Counter

from quorate.certs import CertificateFolder
from quorate.metrics import TokenFile, TokenFileError, serve_metrics
from quorate.runtime import Address, ClientAuth, NetworkError, Stream, TlsFiles, TlsTerms
from quorate.runtime.real import RealNetwork, SyncStrategy, real_runtime
from quorate.simulation.world.simulated_network import SimulatedNetwork
from quorate.types import NodeId

TOKEN, OTHER = "0123456789abcdef", "fedcba9876543210"
SCRAPED = TlsTerms(client_auth=ClientAuth.NONE, before_1_3=True, strict=False)
SCRAPER = TlsTerms(before_1_3=True, strict=False, connects=True)


class Report:
    healthy = False

    def as_dict(self) -> dict[str, object]:
        return {"healthy": False, "reason": "a reason that names a folder"}


def written(path: Path, text: str, mode: int = 0o600) -> TokenFile:
    path.write_text(text)
    path.chmod(mode)
    return TokenFile(real_runtime(sync=SyncStrategy.INLINE).disk, str(path))


def registry() -> CollectorRegistry:
    made = CollectorRegistry()
    Counter("orders", "Orders.", registry=made)
    return made


async def get(stream: Stream, path: str, *headers: str) -> tuple[int, dict[str, str], str]:
    await stream.send(["\r\n".join([f"GET {path} HTTP/1.1", "Host: node", *headers, "", ""]).encode()])
    received = b""
    while b"\r\n\r\n" not in received:
        data = await stream.receive_some()
        if not data:
            raise NetworkError("it ended")
        received += data
    head, _, body = received.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    told = dict(line.split(": ", 1) for line in lines[1:])
    while len(body) < int(told["Content-Length"]):
        body += await stream.receive_some()
    return int(lines[0].split()[1]), told, body.decode()


@asynccontextmanager
async def served(token: TokenFile | None, files: TlsFiles | None = None, terms: TlsTerms = SCRAPED):
    """The address of an endpoint."""
    network = RealNetwork() if files is None else RealNetwork().secured(files, terms)
    listener = await network.listen(Address("127.0.0.1", 0))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(serve_metrics, listener, registry(), health=Report, token=token))
        yield listener.address
        nursery.cancel_scope.cancel()
    listener.close()


async def test_only_the_token_opens_the_metrics(tmp_path: Path) -> None:
    async with served(written(tmp_path / "token", f"{TOKEN}\n")) as address:
        stream = await RealNetwork().connect(address)
        status, told, body = await get(stream, "/metrics")
        assert (status, told["WWW-Authenticate"]) == (401, 'Bearer realm="metrics"')
        assert "orders" not in body
        for given in (f"Bearer {OTHER}", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}0", f"Basic {TOKEN}",
                      "Bearer", "Bearer \xff", TOKEN):  # fmt: skip
            status, told, body = await get(stream, "/metrics", f"Authorization: {given}")
            assert (status, told["WWW-Authenticate"]) == (
                401,
                'Bearer realm="metrics", error="invalid_token"',
            ), given
            assert "orders" not in body
        for given in (f"Bearer {TOKEN}", f"bearer  {TOKEN} "):
            status, _, body = await get(stream, "/metrics", f"Authorization: {given}")
            assert (status, "orders_total" in body) == (200, True), given
        status, _, _ = await get(stream, "/no/such/page")
        assert status == 401, "a stranger is not told which pages there are"
        stream.close()


@pytest.mark.bug("etcd PR 21666")
async def test_a_probe_needs_no_token_and_is_told_the_status_alone(tmp_path: Path) -> None:
    async with served(written(tmp_path / "token", TOKEN)) as address:
        stream = await RealNetwork().connect(address)
        assert (await get(stream, "/health/live"))[0] == 200
        status, _, body = await get(stream, "/health")
        assert (status, json.loads(body)) == (503, {"healthy": False})
        status, _, body = await get(stream, "/health", f"Authorization: Bearer {TOKEN}")
        assert (status, json.loads(body)) == (503, Report().as_dict())
        stream.close()


async def test_a_new_token_counts_from_the_next_request_on(tmp_path: Path) -> None:
    path = tmp_path / "token"
    async with served(written(path, TOKEN)) as address:
        stream = await RealNetwork().connect(address)

        async def status(token: str) -> int:
            return (await get(stream, "/metrics", f"Authorization: Bearer {token}"))[0]

        assert (await status(TOKEN), await status(OTHER)) == (200, 401)
        path.write_text(OTHER)
        assert (await status(TOKEN), await status(OTHER)) == (401, 200)
        with captured_logs() as lines:
            path.chmod(0o640)
            assert [await status(OTHER) for _ in range(3)] == [401] * 3
            path.unlink()
            assert await status(OTHER) == 401
        said = [str(each) for each in lines]
        assert len(said) == 2, f"each fault once: {said}"
        assert not any(TOKEN in each or OTHER in each for each in said)
        stream.close()


@pytest.mark.parametrize(
    ("text", "mode", "says"),
    [
        (TOKEN, 0o644, r"can be read by others \(the mode is 0644\); chmod 600"),
        ("", 0o600, r"is no word of 16 to 1024 letters.*openssl rand -hex 32"),
        ("short", 0o600, "is no word of 16"),
        ("two words of enough length", 0o600, "is no word of 16"),
    ],
)
def test_a_token_that_is_none_is_refused_with_the_remedy(
    tmp_path: Path, text: str, mode: int, says: str
) -> None:
    with pytest.raises(TokenFileError, match=says) as raised:
        written(tmp_path / "token", text, mode)
    assert not text or text not in str(raised.value)


def test_a_missing_token_names_the_command_that_makes_one(tmp_path: Path) -> None:
    with pytest.raises(TokenFileError, match=r"No such file.*; make it with \(umask 077; openssl rand"):
        TokenFile(real_runtime(sync=SyncStrategy.INLINE).disk, str(tmp_path / "missing"))


@pytest.fixture
def folder(tmp_path: Path) -> CertificateFolder:
    made = CertificateFolder(tmp_path / "certs", now=datetime.now(UTC))
    made.create_authority("c")
    return made


async def shown(address: Address, authorities: str) -> tuple[int, int]:
    """The status, and the serial number of the certificate that is shown."""
    network = RealNetwork().secured(TlsFiles(certificate="", key="", authorities=authorities), SCRAPER)
    stream = await network.connect(address)
    status, _, _ = await get(stream, "/metrics")
    serial = int(stream._tls.getpeercert()["serialNumber"], 16)
    stream.close()
    return status, serial


async def test_the_endpoint_serves_https_with_the_certificate_of_now(folder: CertificateFolder) -> None:
    files = folder.create_node(NodeId(1), hosts=["127.0.0.1"])
    async with served(None, files) as address:
        status, first = await shown(address, files.authorities)
        assert status == 200
        folder.create_node(NodeId(1), hosts=["127.0.0.1"])
        status, second = await shown(address, files.authorities)
        assert status == 200
        assert second != first, "a new certificate is shown without a restart"
        plain = await RealNetwork().connect(address)
        with pytest.raises(NetworkError):
            await get(plain, "/metrics")
        plain.close()


async def test_a_scraper_that_must_show_a_certificate_shows_one_or_gets_nothing(
    folder: CertificateFolder,
) -> None:
    files, scraper = folder.create_node(NodeId(1), hosts=["127.0.0.1"]), folder.create_client("prometheus")
    required = TlsTerms(client_auth=ClientAuth.REQUIRED, before_1_3=True, strict=False)
    async with served(None, files, required) as address:
        with pytest.raises(NetworkError):
            await shown(address, files.authorities)
        stream = await RealNetwork().secured(scraper, SCRAPER).connect(address)
        assert (await get(stream, "/metrics"))[0] == 200
        stream.close()


async def test_who_connects_and_is_silent_makes_room_within_ten_seconds(
    autojump_clock, tmp_path: Path
) -> None:
    network, home = SimulatedNetwork(random.Random(1)), Address("node", 9100)
    listener = await network.for_node("node").listen(home)
    token = written(tmp_path / "token", TOKEN)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(serve_metrics, listener, registry(), token=token))
        started = trio.current_time()
        for _ in range(64):
            await network.for_node("stranger").connect(home)
        late = await network.for_node("prometheus").connect(home)
        assert (await get(late, "/metrics", f"Authorization: Bearer {TOKEN}"))[0] == 200
        assert 9 < trio.current_time() - started < 12
        await trio.sleep(30)
        assert (await get(late, "/metrics", f"Authorization: Bearer {TOKEN}"))[0] == 200, "it is known"
        nursery.cancel_scope.cancel()
