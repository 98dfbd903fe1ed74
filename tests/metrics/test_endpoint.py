import json
import random
from functools import partial

import pytest
import trio
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from quorate.metrics import RaftMetrics, serve_metrics
from quorate.runtime.network import Address
from quorate.simulation.world.simulated_network import SimulatedNetwork

HOME = Address("node", 9100)


class Scraper:
    def __init__(self, stream):
        self.stream = stream

    async def ask(self, request):
        await self.stream.send([request.replace(" HTTP/1.1\r\n", " HTTP/1.1\r\nHost: node\r\n").encode()])
        received = b""
        while b"\r\n\r\n" not in received:
            received += await self.stream.receive_some()
        head, _, body = received.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
        while len(body) < int(headers["Content-Length"]) and not request.startswith("HEAD"):
            body += await self.stream.receive_some()
        return int(head.split()[1]), headers, body.decode()


@pytest.fixture
async def connect(nursery):
    network = SimulatedNetwork(random.Random(1))
    registry = CollectorRegistry()
    RaftMetrics(registry, monotonic=trio.current_time)
    nursery.start_soon(serve_metrics, await network.for_node("node").listen(HOME), registry)

    async def connect():
        return Scraper(await network.for_node("prometheus").connect(HOME))

    return connect


async def test_a_scrape_gets_the_text_format(autojump_clock, connect):
    status, headers, body = await (await connect()).ask("GET /metrics HTTP/1.1\r\n\r\n")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain")
    assert "raft_manager_current_leader" in {family.name for family in parse(body)}


async def test_a_client_that_accepts_openmetrics_gets_it(autojump_clock, connect):
    accept = "application/openmetrics-text; version=1.0.0,text/plain;version=0.0.4;q=0.5"
    status, headers, body = await (await connect()).ask(
        f"GET /metrics?x=1 HTTP/1.1\r\nACCEPT: {accept}\r\n\r\n"
    )
    assert status == 200
    assert headers["Content-Type"].startswith("application/openmetrics-text")
    assert body.endswith("# EOF\n")
    assert "raft_manager_current_state" in {family.name for family in parse_openmetrics(body)}


async def test_one_connection_serves_scrape_after_scrape(autojump_clock, connect):
    scraper = await connect()
    for _ in range(3):
        status, _, _ = await scraper.ask("GET /metrics HTTP/1.1\r\n\r\n")
        assert status == 200
        await trio.sleep(30)


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("GET / HTTP/1.1", 404),
        ("GET /metrics/x HTTP/1.1", 404),
        ("POST /metrics HTTP/1.1", 405),
        ("HEAD /metrics HTTP/1.1", 405),
    ],
)
async def test_anything_else_is_refused_and_the_connection_goes_on(
    autojump_clock, connect, request_line, status
):
    scraper = await connect()
    assert (await scraper.ask(f"{request_line}\r\n\r\n"))[0] == status
    assert (await scraper.ask("GET /metrics HTTP/1.1\r\n\r\n"))[0] == 200


@pytest.mark.parametrize(
    "request_text", ["nonsense\r\n\r\n", "GET  HTTP/1.1\r\n\r\n", "\x16\x03\x01\r\n\r\n"]
)
async def test_what_is_no_request_is_told_so_and_ends_the_connection(autojump_clock, connect, request_text):
    scraper = await connect()
    assert (await scraper.ask(request_text))[0] == 400
    assert await scraper.stream.receive_some() == b""


async def test_a_request_with_a_body_is_refused(autojump_clock, connect):
    scraper = await connect()
    status, _, body = await scraper.ask("GET /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc")
    assert (status, body) == (413, "a body has at most 0 bytes\n")
    assert await scraper.stream.receive_some() == b""


async def test_a_request_without_end_is_refused_at_16_kib(autojump_clock, connect):
    scraper = await connect()
    status, _, _ = await scraper.ask("GET /metrics HTTP/1.1\r\nX: " + "y" * 20_000)
    assert status == 431
    assert await scraper.stream.receive_some() == b""


@pytest.mark.parametrize(
    "request_text", ["GET /metrics HTTP/1.0\r\n\r\n", "GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n"]
)
async def test_a_connection_close_header_closes_the_connection(autojump_clock, connect, request_text):
    scraper = await connect()
    assert (await scraper.ask(request_text))[0] == 200
    assert await scraper.stream.receive_some() == b""


async def test_a_silent_connection_is_closed_and_makes_room(autojump_clock, connect):
    idle = [await connect() for _ in range(64)]
    started = trio.current_time()
    late = await connect()
    assert (await late.ask("GET /metrics HTTP/1.1\r\n\r\n"))[0] == 200
    assert 59 < trio.current_time() - started < 62
    assert await idle[0].stream.receive_some() == b""


class Report:
    def __init__(self, reason):
        self.reason = reason

    @property
    def healthy(self):
        return self.reason is None

    def as_dict(self):
        return {"healthy": self.healthy, "reason": self.reason}


async def test_health_is_a_status_and_says_why_not(autojump_clock, nursery):
    network = SimulatedNetwork(random.Random(1))
    reasons = [None, "no leader was heard for 2310 ms, in epoch 3"]
    listener = await network.for_node("node").listen(HOME)
    health = partial(serve_metrics, listener, CollectorRegistry(), health=lambda: Report(reasons.pop(0)))
    nursery.start_soon(health)
    scraper = Scraper(await network.for_node("balancer").connect(HOME))
    status, headers, body = await scraper.ask("GET /health HTTP/1.1\r\n\r\n")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert json.loads(body) == {"healthy": True, "reason": None}
    status, _, body = await scraper.ask("GET /health?verbose HTTP/1.1\r\n\r\n")
    assert status == 503
    assert json.loads(body)["reason"] == "no leader was heard for 2310 ms, in epoch 3"
    status, _, body = await scraper.ask("GET / HTTP/1.1\r\n\r\n")
    assert (status, body) == (404, "try /metrics, /health or /health/live\n")


async def test_a_node_that_is_not_healthy_is_alive(autojump_clock, nursery):
    """A supervisor that restarts what can't reach its quorum makes it worse."""
    network = SimulatedNetwork(random.Random(1))
    listener = await network.for_node("node").listen(HOME)
    nursery.start_soon(
        partial(serve_metrics, listener, CollectorRegistry(), health=lambda: Report("no leader"))
    )
    scraper = Scraper(await network.for_node("kubelet").connect(HOME))
    assert (await scraper.ask("GET /health HTTP/1.1\r\n\r\n"))[0] == 503
    status, _, body = await scraper.ask("GET /health/live HTTP/1.1\r\n\r\n")
    assert (status, json.loads(body)) == (200, {"alive": True})


async def test_an_endpoint_without_health_answers_404(autojump_clock, connect):
    assert (await (await connect()).ask("GET /health/live HTTP/1.1\r\n\r\n"))[0] == 404
    status, _, body = await (await connect()).ask("GET /health HTTP/1.1\r\n\r\n")
    assert (status, body) == (404, "try /metrics\n")
