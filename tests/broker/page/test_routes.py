"""The page's routes over the simulated network, and viewers who mean harm."""

import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from metadata_folder import MetadataFolder, story_folder
from prometheus_client import CollectorRegistry, Gauge

from quorate.broker.groups.group_lags import GroupLag, GroupLags
from quorate.broker.groups.group_state import GroupState
from quorate.broker.node_config.page_peers import PagePeer
from quorate.broker.page.page_server import VIEWERS_MAX, Page
from quorate.broker.page.page_state import Seen
from quorate.broker.page.recent import Recent
from quorate.broker.page.recent_groups import SAMPLE_SECONDS, RecentGroups
from quorate.broker.page.replayed import Past
from quorate.cli.images.files_page import FilesLog
from quorate.history import FolderLog
from quorate.metrics import TokenFile, serve_metrics
from quorate.runtime.network import Address
from quorate.runtime.real import RealDisk, SyncStrategy
from quorate.simulation.world.simulated_network import SimulatedNetwork

HOME = Address("node", 9100)
TOKEN = "a-token-of-sixteen-or-more"


class Live:
    """A node, as far as the page asks it."""

    node_id, cluster_id = 1, "a-cluster"

    def __init__(self, folder: MetadataFolder) -> None:
        self.image = folder.loader_at(folder.end).image
        self.metadata = SimpleNamespace(image=self.image)
        self.offset = folder.end - 1
        self.asked = 0
        self.fails = False
        self.counter = 0.0
        self.lags = GroupLags((), 0)
        self.groups = RecentGroups(self.look, now_ms=lambda: 7)
        self.recent = Recent(rates={"x bytes/s": lambda: self.counter}, gauges={}, now_ms=lambda: 0)

    def seen(self) -> Seen:
        return Seen(image=self.image, offset=self.offset, time_ms=5, epoch=1)

    async def quorum_value(self) -> dict[str, Any]:
        self.asked += 1
        if self.fails:
            raise RuntimeError("a fault of ours")
        return {"leader": 1}

    async def moves(self) -> dict[str, Any]:
        return {"total": 0}

    async def look(self) -> GroupLags:
        return self.lags

    def directories(self) -> list[Any]:
        return []


class Site:
    """A served page, and connections to it."""

    def __init__(self, network: SimulatedNetwork, page: Page, live: Live, latest: int) -> None:
        self.network, self.page, self.live, self.latest = network, page, live, latest

    async def connect(self) -> Any:
        return await self.network.for_node("viewer").connect(HOME)

    async def get(self, target: str, *headers: str) -> tuple[int, dict[str, str], bytes]:
        stream = await self.connect()
        hosts = [] if any(each.startswith("Host:") for each in headers) else ["Host: node"]
        await stream.send(["\r\n".join([f"GET {target} HTTP/1.1", *hosts, *headers, "", ""]).encode()])
        received = b""
        while data := await stream.receive_some():
            received += data
        head, _, body = received.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        sent = dict(line.split(": ", 1) for line in lines[1:])
        assert len(body) == int(sent["Content-Length"])
        return int(lines[0].split()[1]), sent, body

    async def refused(self, target: str, *headers: str) -> tuple[int, dict[str, Any]]:
        status, _, body = await self.get(target, *headers)
        return status, json.loads(body)

    async def json(self, target: str) -> Any:
        status, _, body = await self.get(target)
        assert status == 200, body
        return json.loads(body)

    async def watch(self) -> AsyncIterator[dict[str, Any]]:
        """Follow the events."""
        stream = await self.connect()
        await stream.send([b"GET /page/events HTTP/1.1\r\nHost: node\r\n\r\n"])
        held = b""
        try:
            while data := await stream.receive_some():
                held += data
                *events, held = held.split(b"\n\n")
                for event in events:
                    yield json.loads(event.partition(b"data: ")[2])
        finally:
            stream.close()


@pytest.fixture
def folder(tmp_path: Path) -> MetadataFolder:
    return story_folder(tmp_path / "node")


Start = Callable[..., Awaitable[Site]]


@pytest.fixture
async def start(folder: MetadataFolder, nursery: trio.Nursery, tmp_path: Path) -> Start:
    await folder.save()

    async def start(
        *, token: bool = False, local_only: bool = False, peers: tuple[PagePeer, ...] = ()
    ) -> Site:
        network = SimulatedNetwork(random.Random(1))
        registry = CollectorRegistry()
        Gauge("x", "x", registry=registry)
        live = Live(folder)
        past = Past(FilesLog(FolderLog(path=str(folder.path)), print))
        page = Page(past, live=live, place="node 1", local_only=local_only, peers=peers)  # type: ignore[arg-type]
        held = None
        if token:
            (tmp_path / "token").touch(mode=0o600)
            (tmp_path / "token").write_text(TOKEN)
            held = TokenFile(RealDisk(sync=SyncStrategy.INLINE), str(tmp_path / "token"))
        listener = await network.for_node("node").listen(HOME)
        nursery.start_soon(partial(serve_metrics, listener, registry, token=held, site=page))
        nursery.start_soon(page.run)
        return Site(network, page, live, folder.end - 1)

    return start


async def test_the_assets_come_with_a_policy_that_lets_in_no_stranger(autojump_clock, start) -> None:
    site = await start()
    kinds = {"/": "text/html", "/page/app.js": "text/javascript", "/page/style.css": "text/css"}
    for target, kind in kinds.items():
        status, headers, body = await site.get(target)
        assert status == 200 and headers["Content-Type"].startswith(kind) and body
        assert headers["Content-Security-Policy"].startswith("default-src 'self'; ")
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
    html = (await site.get("/"))[2].decode()
    assert " style=" not in html and "<style" not in html and html.count("<script") == 1
    assert "innerHTML" not in (await site.get("/page/app.js"))[2].decode()


async def test_present_and_past_are_told(autojump_clock, start) -> None:
    site = await start()
    live = await site.json("/page/api/summary")
    assert (live["live"], live["offset"], live["quorum"]) == (True, site.latest, {"leader": 1})
    past = await site.json("/page/api/summary?offset=6")
    assert (past["live"], past["offset"], past["earliest"], past["latest"]) == (False, 6, 0, site.latest)
    assert [each["state"] for each in past["brokers"]] == ["up", "up"]
    assert [each[0] for each in (await site.json("/page/api/partitions"))["topics"]] == ["orders"]
    assert (await site.json("/page/api/partitions?offset=4"))["topics"] == []
    told = await site.json("/page/api/topic?name=orders&offset=8")
    assert told["partitions"][1]["leader"] == 1
    changes = (await site.json(f"/page/api/changes?around={site.latest}"))["changes"]
    # A topic that is gone is named all the same.
    assert (changes[-1]["topic"], changes[-1]["what"]) == ("logs", "topic deleted")


@pytest.mark.parametrize("path", ["/page/api/summary?offset=", "/page/api/changes?around="])
@pytest.mark.parametrize(
    ("offset", "status", "problem"),
    [
        ("-1", 400, "must be an offset: a number from 0 on"),
        ("x", 400, "must be an offset: a number from 0 on"),
        ("1e3", 400, "must be an offset: a number from 0 on"),
        ("%D9%A3", 400, "must be an offset: a number from 0 on"),
        ("9" * 5000, 400, "must be an offset: a number from 0 on"),
        ("999", 404, "is not there yet: the latest is "),
    ],
)
async def test_an_offset_that_is_none_is_refused(
    autojump_clock, start, path: str, offset: str, status: int, problem: str
) -> None:
    site = await start()
    refused, told = await site.refused(path + offset)
    assert refused == status and problem in told["error"]
    if status == 404:
        assert told["latest"] == site.latest


async def test_an_offset_that_is_gone_answers_404_with_the_earliest(autojump_clock, folder, start) -> None:
    site = await start()
    await trio.to_thread.run_sync(folder.snapshot, 8)
    site.page._past.log.reach = partial(_beginning_at, 8, site.page._past.log.reach)
    status, told = await site.refused("/page/api/summary?offset=3")
    assert (status, told["earliest"]) == (404, 7)
    assert (await site.json("/page/api/summary?offset=7"))["earliest"] == 7


def _beginning_at(start: int, reach: Callable[[], Any]) -> Any:
    found = reach()
    return type(found)(start, found.end)


@pytest.mark.parametrize(
    "target",
    [
        "/page/../../../../etc/passwd",
        "/page/%2e%2e/%2e%2e/etc/passwd",
        "/page/assets/app.js",
        "/page//app.js",
        "/page/app.js/",
        "/page/page_server.py",
        "/page/api/",
        "/page/api/nothing",
        "//etc/passwd",
        "/index.html",
        "/page/app.js%00",
    ],
)
async def test_no_path_leads_to_a_file(autojump_clock, start, target: str) -> None:
    stream = await (await start()).connect()
    await stream.send([f"GET {target} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n".encode()])
    received = b""
    while data := await stream.receive_some():
        received += data
    assert received.startswith(b"HTTP/1.1 404 Not Found\r\n")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS"])
async def test_nothing_but_get_is_served(autojump_clock, start, method: str) -> None:
    stream = await (await start()).connect()
    await stream.send([f"{method} /page/api/summary HTTP/1.1\r\nHost: node\r\n\r\n".encode()])
    assert (await stream.receive_some()).startswith(b"HTTP/1.1 405 ")


async def test_pages_of_strangers_read_nothing(autojump_clock, start) -> None:
    site = await start()
    host = "Host: 127.0.0.1:7071"
    for target in ("/page/api/summary", "/page/events", "/page/api/partitions"):
        for header in ("Origin: http://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site"):
            assert (await site.refused(target, host, header))[0] == 403
    status, headers, _ = await site.get("/page/api/summary", host, "Origin: http://127.0.0.1:7071")
    assert status == 200 and "Access-Control-Allow-Origin" not in headers


async def test_the_page_of_another_node_learns_that_this_one_is_there_and_nothing_else(
    autojump_clock, start
) -> None:
    site = await start(token=True, peers=(PagePeer(2, "http://other:7071"),))
    status, headers, body = await site.get("/page/alive", "Sec-Fetch-Site: cross-site")
    assert (status, body, headers["Cross-Origin-Resource-Policy"]) == (200, b"", "cross-origin")
    assert "Access-Control-Allow-Origin" not in headers
    _, headers, _ = await site.get("/")
    assert headers["Content-Security-Policy"].endswith("; connect-src 'self' http://other:7071")
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"


async def test_the_other_pages_are_named_by_their_nodes(autojump_clock, start) -> None:
    site = await start(peers=(PagePeer(2, "http://two:7071"), PagePeer(None, "http://b")))
    assert (await site.json("/page/api/summary"))["peers"] == [
        {"node": 2, "origin": "http://two:7071"},
        {"node": None, "origin": "http://b"},
    ]


async def test_the_groups_that_a_node_coordinates_are_told_and_any_by_its_name(autojump_clock, start) -> None:
    site = await start()
    site.live.lags = GroupLags(
        (
            GroupLag(group_id="a", state=GroupState.STABLE, members=2, lag=3, known=1),
            GroupLag(group_id="b", state=GroupState.EMPTY, members=0, unknown=4),
        ),
        5,
    )
    await trio.sleep(SAMPLE_SECONDS + 1)
    told = await site.json("/page/api/groups")
    assert (told["at_ms"], told["total"], told["loading"]) == (7, 2, 5)
    assert [(each["group"], each["state"], each["lag"]) for each in told["groups"]] == [
        ("a", "Stable", 3),
        ("b", "Empty", None),
    ]
    assert (told["times"], told["series"]) == ([7, 7], {"a": [3, 3]})
    one = await site.json("/page/api/groups?name=b")
    # There is no __consumer_offsets.
    assert (one["coordinator"], one["found"]["unknown"], one["series"]) == (None, 4, None)


async def test_moves_are_told_by_a_node_alone(autojump_clock, start) -> None:
    site = await start()
    assert await site.json("/page/api/moves") == {"moves": {"total": 0}}


async def test_a_fault_while_it_looks_at_groups_ends_nothing(autojump_clock, start) -> None:
    site = await start()
    await trio.sleep(1)
    site.live.lags = None
    await trio.sleep(3 * SAMPLE_SECONDS)
    assert (await site.json("/page/api/groups"))["times"] == [7]
    site.live.lags = GroupLags((), 0)
    await trio.sleep(SAMPLE_SECONDS)
    assert (await site.json("/page/api/groups"))["times"] == [7, 7]


async def test_on_this_machine_a_strangers_name_for_it_is_refused(autojump_clock, start) -> None:
    """DNS rebinding: the name of a stranger's page leads to 127.0.0.1 all of a sudden."""
    site = await start(local_only=True)
    for host in ("evil.example", "evil.example:7071", "127.evil.example", "localhost.evil.example"):
        status, told = await site.refused("/page/api/summary", f"Host: {host}")
        assert status == 421 and "localhost" in told["error"], host
    for host in ("localhost:7071", "127.0.0.1:7071", "[::1]:7071", "127.0.0.9"):
        assert (await site.get("/page/api/summary", f"Host: {host}"))[0] == 200, host


async def test_whoever_has_no_token_gets_the_form_and_nothing_of_the_cluster(autojump_clock, start) -> None:
    site = await start(token=True)
    assert (await site.get("/"))[0] == 200
    for target in ("summary", "partitions", "changes", "recent", "topic?name=orders"):
        status, headers, body = await site.get(f"/page/api/{target}", "Authorization: Bearer wrong")
        assert status == 401 and b"orders" not in body and headers["WWW-Authenticate"].startswith("Bearer")
    assert (await site.refused("/page/events"))[0] == 401
    assert (await site.get("/page/api/summary", f"Authorization: Bearer {TOKEN}"))[0] == 200


async def test_huge_headers_are_refused(autojump_clock, start) -> None:
    stream = await (await start()).connect()
    await stream.send([b"GET / HTTP/1.1\r\nX: " + b"y" * 20_000])
    assert (await stream.receive_some()).startswith(b"HTTP/1.1 431 ")
    assert await stream.receive_some() == b""


async def test_events_are_made_once_for_all_viewers_and_for_nobody_not_at_all(
    autojump_clock, start, nursery
) -> None:
    site = await start()
    await trio.sleep(60)
    assert (site.page.encoded, site.live.asked) == (0, 0)
    got: list[int] = []

    async def look() -> None:
        async with aclosing(site.watch()) as events:
            async for event in events:
                got.append(event["offset"])

    async with trio.open_nursery() as viewers:
        for _ in range(10):
            viewers.start_soon(look)
        await trio.sleep(30.5)
        viewers.cancel_scope.cancel()
    assert 29 <= site.page.encoded <= 32
    assert site.live.asked == site.page.encoded
    assert len(got) >= 290 and set(got) == {site.latest}
    await trio.sleep(5)
    made = site.page.encoded
    await trio.sleep(60)
    assert site.page.encoded == made


async def test_the_seventeenth_stream_is_refused_and_scrapers_get_in(autojump_clock, start, nursery) -> None:
    site = await start()
    streams = [await site.connect() for _ in range(VIEWERS_MAX)]
    for stream in streams:
        await stream.send([b"GET /page/events HTTP/1.1\r\nHost: node\r\n\r\n"])
        assert (await stream.receive_some()).startswith(b"HTTP/1.1 200 OK\r\n")
    status, told = await site.refused("/page/events")
    assert status == 503 and "16 viewers" in told["error"]
    assert (await site.get("/page/api/summary"))[0] == 200
    assert (await site.get("/metrics", "Connection: close"))[0] == 200
    for stream in streams:
        stream.close()
    await trio.sleep(3)
    again = await site.connect()
    await again.send([b"GET /page/events HTTP/1.1\r\nHost: node\r\n\r\n"])
    assert (await again.receive_some()).startswith(b"HTTP/1.1 200 OK\r\n")


async def test_who_reads_nothing_is_dropped_and_holds_up_no_other_viewer(
    autojump_clock, start, nursery
) -> None:
    site = await start()
    site.live.directories = lambda: ["x" * 200_000]  # more than the network holds for who doesn't read
    slow = await site.connect()
    await slow.send([b"GET /page/events HTTP/1.1\r\nHost: node\r\n\r\n"])
    seen = 0
    with trio.move_on_after(60):
        async with aclosing(site.watch()) as events:
            async for _ in events:
                seen += 1
    assert seen >= 55
    assert site.page._viewers <= 1
    await trio.sleep(15)
    assert site.page._viewers == 0


async def test_a_fault_of_the_page_ends_no_node(autojump_clock, start) -> None:
    site = await start()
    site.live.fails = True
    status, told = await site.refused("/page/api/summary")
    assert (status, told) == (500, {"error": "the node could not answer; its log says why"})
    site.live.fails = False
    assert (await site.get("/page/api/summary"))[0] == 200


async def test_a_fault_in_an_event_ends_no_node_and_no_later_event(autojump_clock, start, nursery) -> None:
    site = await start()
    site.live.fails = True
    stream = await site.connect()
    await stream.send([b"GET /page/events HTTP/1.1\r\nHost: node\r\n\r\n"])
    await trio.sleep(5)
    site.live.fails = False
    received = b""
    with trio.fail_after(10):
        while b"data: " not in received:
            received += await stream.receive_some()


@pytest.mark.slow
async def test_an_hour_of_samples_is_kept_and_no_more(autojump_clock, start) -> None:
    site = await start()
    for _ in range(2 * 720):
        site.live.counter += 500
        await trio.sleep(5)
    told = await site.json("/page/api/recent")
    series = told["series"]["x bytes/s"]
    assert len(series) == 720
    assert sum(series) / 720 == pytest.approx(100, rel=0.01)
