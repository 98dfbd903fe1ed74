"""The page's server: what it answers to the page, and what to those that are not the page."""

import json
import random
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from quorate.http_server import HEAD_MAX_BYTES
from quorate.play.script import Rule, parse_script, play_script
from quorate.play.server import BODY_MAX_BYTES, serve_play
from quorate.play.stories import STORIES
from quorate.runtime.network import Address, Network
from quorate.simulation.world.simulated_network import SimulatedNetwork

PORT = 9300
TOKEN = "7e1d"
HOME = Address("127.0.0.1", PORT)
HOST = b"Host: 127.0.0.1:9300\r\n"
CHUNKS = (b"10000\r\n" + b" " * 0x10000 + b"\r\n") * 9


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass(frozen=True)
class Browser:
    """Sends one request a connection, as another page or program might."""

    network: Network
    host: str = f"127.0.0.1:{PORT}"
    origin: str | None = f"http://127.0.0.1:{PORT}"
    token: str = TOKEN
    content_type: str = "application/json"

    async def send(self, request: bytes) -> Answer | None:
        stream = await self.network.connect(HOME)
        await stream.send([request])
        received = b""
        while data := await stream.receive_some():
            received += data
        stream.close()
        if not received:
            return None
        head, _, body = received.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        return Answer(int(lines[0].split()[1]), dict(each.split(": ", 1) for each in lines[1:]), body)

    async def ask(self, path: str, content: object = None, *, method: str = "") -> Answer:
        body = (
            b""
            if content is None
            else content
            if isinstance(content, bytes)
            else json.dumps(content).encode()
        )
        head = f"{method or ('GET' if content is None else 'POST')} /{self.token}/{path} HTTP/1.1\r\n"
        head += f"Host: {self.host}\r\nContent-Length: {len(body)}\r\nContent-Type: {self.content_type}\r\n"
        head += "" if self.origin is None else f"Origin: {self.origin}\r\n"
        answer = await self.send(head.encode() + b"\r\n" + body)
        assert answer is not None
        return answer

    async def play(self, steps: list[Any], **start: Any) -> Any:
        content = {"start": {"nodes": 3} | start, "steps": steps, "wrongRule": None}
        answer = await self.ask("play", content)
        assert answer.status == 200, answer.text
        return json.loads(answer.body)


@pytest.fixture
async def browser(nursery: trio.Nursery) -> Browser:
    network = SimulatedNetwork(random.Random(1))
    addresses: list[str] = []
    serve = partial(serve_play, network.for_node("127.0.0.1"), PORT, token=TOKEN, started=addresses.append)
    nursery.start_soon(serve)
    await trio.testing.wait_all_tasks_blocked()
    assert addresses == [f"http://127.0.0.1:{PORT}/{TOKEN}/"]
    return Browser(network.for_node("browser"))


async def test_the_page_and_its_parts_are_served_and_may_load_nothing_from_elsewhere(
    browser: Browser,
) -> None:
    for path, kind in (("", "text/html"), ("app.js", "text/javascript"), ("style.css", "text/css")):
        answer = await browser.ask(path)
        assert answer.status == 200
        assert answer.headers["Content-Type"].startswith(kind)
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'self';")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    page = (await browser.ask("")).text
    assert "http" not in page.replace("http-equiv", ""), "all that it names is its own"
    for script in ("app.js", "draw.js"):
        assert "innerHTML" not in (await browser.ask(script)).text


async def test_the_page_plays_what_the_core_does(browser: Browser) -> None:
    told = json.loads((await browser.ask("stories")).body)
    assert [each["name"] for each in told["stories"]] == list(STORIES)
    story = json.loads((await browser.ask("stories/figure-8")).body)
    content = {"start": story["start"], "wrongRule": "commits-old-epochs"}
    steps = story["plays"]["wrong"]["steps"]
    view = json.loads((await browser.ask("play", content | {"steps": steps})).body)
    assert view["violations"][0]["invariant"] == "LeaderCompleteness"
    assert [each["epoch"] for each in view["nodes"][1]["records"]] == [1, 3, 5]
    assert len(story["plays"]["wrong"]["says"]) == len(steps) + 1
    saved = await browser.ask("save", content | {"steps": steps, "title": "mine"})
    text = json.loads(saved.body)["text"]
    assert play_script(parse_script(text), Rule.WRONG).world.violations
    opened = json.loads((await browser.ask("open", {"text": text})).body)
    assert opened["plays"]["wrong"]["steps"] == steps


async def test_steps_are_undone_by_naming_fewer(browser: Browser) -> None:
    fire = {"step": "fire", "node": 1, "timer": "election"}
    exchange = {"step": "exchange", "rounds": 20, "sync": True}
    before = await browser.play([fire])
    after = await browser.play([fire, exchange])
    assert after["nodes"][0]["role"] == "leader"
    assert await browser.play([fire]) == before
    assert await browser.play([fire, exchange]) == after
    crash = {"step": "crash", "node": 2}
    assert (await browser.play([fire, crash]))["nodes"][1]["role"] == "down"


async def test_a_message_is_delivered_by_the_step_that_its_view_names(browser: Browser) -> None:
    view = await browser.play([])
    message = view["messages"][0]
    after = await browser.play([message["deliver"]])
    assert message["id"] not in [each["id"] for each in after["messages"]]
    assert after["happened"][0][0]["kind"] == "message"


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", f"localhost.evil.example:{PORT}", ""]
)
async def test_another_name_for_this_host_is_refused(browser: Browser, host: str) -> None:
    answer = await replace(browser, host=host, origin=None).ask("")
    assert (answer.status, TOKEN in answer.text) == (421, False)


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", f"http://localhost:{PORT}", "http://127.0.0.1", "http://127.0.0.1:80"],
)
async def test_another_page_may_not_play(browser: Browser, origin: str) -> None:
    answer = await replace(browser, origin=origin).ask("play", {"start": {}, "steps": []})
    assert answer.status == 403


@pytest.mark.parametrize("token", ["", "7e1", "7e1d7", "7E1D", "%C3%A9", "..", "%37e1d"])
async def test_without_the_token_there_is_nothing(browser: Browser, token: str) -> None:
    for path, content in (("", None), ("stories", None), ("play", {"start": {}, "steps": []})):
        assert (await replace(browser, token=token).ask(path, content)).status == 404


@pytest.mark.parametrize(
    "path", ["x", "../server.py", "stories/../figure-8", "stories/own", "stories/", "app.js/"]
)
async def test_nothing_but_its_own_files_is_served(browser: Browser, path: str) -> None:
    assert (await browser.ask(path)).status == 404


async def test_a_form_of_another_page_can_not_post(browser: Browser) -> None:
    answer = await replace(browser, content_type="text/plain").ask("play", {"start": {}, "steps": []})
    assert answer.status == 415


@pytest.mark.parametrize(
    ("content", "status", "message"),
    [
        (b"{", 400, "no JSON"),
        (b"[" * 100_000, 400, "no JSON"),
        (b"\xff", 400, "no JSON"),
        ([], 400, "no JSON object"),
        ({"steps": []}, 422, 'start: must be an object such as {"nodes": 3}'),
        ({"start": {"nodes": 99}, "steps": []}, 422, "nodes: must be 1 to 7, not 99"),
        ({"start": {"logs": 1}, "steps": []}, 422, "logs: must be a list of lists"),
        ({"start": {}, "steps": {}}, 422, "steps: must be a list"),
        ({"start": {}, "steps": [{"step": "tick"}] * 1001}, 422, "steps: at most 1000, not 1001"),
        ({"start": {}, "steps": [{"step": "crash", "node": 7}]}, 422, "step 1: node: there is no node 7"),
        ({"start": {}, "steps": [], "wrongRule": "x"}, 422, "wrongRule: 'x' is none of commits-old-epochs"),
        ({"start": {}, "steps": [], "wrongRule": []}, 422, "wrongRule: [] is none of"),
    ],
)
async def test_a_request_that_is_wrong_says_how(
    browser: Browser, content: object, status: int, message: str
) -> None:
    answer = await browser.ask("play", content)
    assert (answer.status, message in answer.text) == (status, True), answer.text
    assert (await browser.play([]))["position"] == 0, "it serves on"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1:9300\r\nHost: evil\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + HOST + b"a: b\r\n" * HEAD_MAX_BYTES + b"\r\n", 431),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % (BODY_MAX_BYTES + 1), 413),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKS, 413),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nx\r\n", 400),
        (b"DELETE /7e1d/ HTTP/1.1\r\n" + HOST + b"\r\n", 405),
    ],
)
async def test_what_is_no_request_of_the_page_is_refused(
    browser: Browser, request_bytes: bytes, status: int
) -> None:
    answer = await browser.send(request_bytes)
    assert answer is not None
    assert answer.status == status


async def test_connections_that_say_nothing_do_not_keep_the_page_out_for_long(
    autojump_clock: object, browser: Browser
) -> None:
    for _ in range(40):
        await browser.network.connect(HOME)
    with trio.fail_after(100):
        assert (await browser.ask("")).status == 200
