"""The page of teaching mode, for browsers on this host.

It is reached by an address with a token that no other page knows, under the name of this host alone. So a
page of elsewhere that the same browser shows can neither read nor step, not even if its name is made to mean
127.0.0.1 (DNS rebinding).
"""

import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib.resources import files
from typing import Final

import trio

from quorate.http_server import PAGE_HEADERS, HttpError, HttpRequest, HttpStream, refuse_strangers
from quorate.play.played import STEPS_MAX, Played
from quorate.play.script import Script, parse_script, write_script
from quorate.play.start import NODES_MIN, OFFERED_MAX, Start, start_from_json
from quorate.play.steps import Json, step_from_json
from quorate.play.stories import STORIES, load_story
from quorate.play.view import rules_view, story_view, view_of
from quorate.play.wrong_rules import WRONG_RULES
from quorate.raft.core import Core
from quorate.runtime import Address, Network, NetworkError, Stream

HOST: Final = "127.0.0.1"
BODY_MAX_BYTES: Final = 512 * 1024
_HEADERS: Final = {**PAGE_HEADERS, "Connection": "close"}
_CONNECTIONS_MAX: Final = 32
_REQUEST_SECONDS: Final = 30
_PLAYS_MAX: Final = 8
_ASSETS: Final = {
    "": ("index.html", "text/html; charset=utf-8"),
    "app.js": ("app.js", "text/javascript; charset=utf-8"),
    "draw.js": ("draw.js", "text/javascript; charset=utf-8"),
    "style.css": ("style.css", "text/css; charset=utf-8"),
    "icon.svg": ("icon.svg", "image/svg+xml"),
}


async def serve_play(
    network: Network,
    port: int,
    *,
    token: str,
    script: Script | None = None,
    started: Callable[[str], None],
) -> None:
    """Serve the page until cancelled. `token`: of its address, which nobody can guess. `script`: one
    to offer first. `started` gets the address. Raises `NetworkError`."""
    own = None if script is None else story_view(script)
    listener = await network.listen(Address(HOST, port))
    pages = Pages(token, listener.address.port, own)
    limit = trio.Semaphore(_CONNECTIONS_MAX)
    started(pages.address)
    try:
        async with trio.open_nursery() as nursery:
            while True:
                await limit.acquire()
                nursery.start_soon(_serve, await listener.accept(), pages, limit)
    finally:
        listener.close()


async def _serve(stream: Stream, pages: "Pages", limit: trio.Semaphore) -> None:
    http = HttpStream(stream, body_max_bytes=BODY_MAX_BYTES)
    try:
        with trio.fail_after(_REQUEST_SECONDS):
            try:
                request = await http.receive()
                if request is not None:
                    content_type, body = pages.answer(request)
                    await http.answer(HTTPStatus.OK, content_type, body, _HEADERS)
            except HttpError as error:
                await http.refuse(error)
    except (NetworkError, trio.TooSlowError):
        pass
    finally:
        stream.close()
        limit.release()


@dataclass(slots=True)
class Pages:
    """The answers to requests. The worlds are kept only to be quick: a request names all its steps."""

    token: str
    port: int
    own: dict[str, Json] | None = None
    """The script that the command named."""
    plays: dict[tuple[Start, str | None], Played] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}/{self.token}/"

    def answer(self, request: HttpRequest) -> tuple[str, bytes]:
        """Return the type of the content, and it. Raises `HttpError`."""
        refuse_strangers(request, local_only=True)
        _, _, rest = request.path.partition("/")
        token, _, name = rest.partition("/")
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            raise HttpError(HTTPStatus.NOT_FOUND, "use the address that quorate raft play printed")
        if request.method == "GET":
            return self._get(name)
        if request.method == "POST":
            return self._post(name, request)
        raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and POST are served")

    def _get(self, name: str) -> tuple[str, bytes]:
        if name == "stories":
            stories = [{"name": each, "title": load_story(each).title} for each in STORIES]
            own = [] if self.own is None else [{"name": "own", "title": self.own["title"] or "Your script"}]
            offered = list(range(NODES_MIN, OFFERED_MAX + 1))
            told = {"stories": [*own, *stories], "rules": rules_view(), "opens": bool(own), "nodes": offered}
            return _json(told)
        if name.startswith("stories/"):
            return self._story(name.removeprefix("stories/"))
        asset = _ASSETS.get(name)
        if asset is None:
            raise HttpError(HTTPStatus.NOT_FOUND, "there is no such page here")
        return asset[1], (files("quorate.play") / "assets" / asset[0]).read_bytes()

    def _story(self, name: str) -> tuple[str, bytes]:
        if name == "own" and self.own is not None:
            return _json(self.own)
        if name not in STORIES:
            raise HttpError(HTTPStatus.NOT_FOUND, f"there is no story {name!r}, only {', '.join(STORIES)}")
        return _json(story_view(load_story(name)))

    def _post(self, name: str, request: HttpRequest) -> tuple[str, bytes]:
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise HttpError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send application/json")
        try:
            given: Json = json.loads(request.body)
        except (ValueError, RecursionError):
            raise HttpError(HTTPStatus.BAD_REQUEST, "the body is no JSON") from None
        if not isinstance(given, dict):
            raise HttpError(HTTPStatus.BAD_REQUEST, "the body is no JSON object")
        try:
            match name:
                case "play":
                    return _json(self._play(given))
                case "open":
                    return _json(story_view(parse_script(_text(given, "text"))))
                case "save":
                    return _json({"text": self._save(given)})
        except ValueError as error:  # of the start, a step or the script: each names the field
            raise HttpError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from None
        raise HttpError(HTTPStatus.NOT_FOUND, "there is no such page here")

    def _play(self, given: dict[str, Json]) -> dict[str, Json]:
        start, wrong_rule = _start(given), _wrong_rule(given)
        steps = [step_from_json(each) for each in _list(given, "steps")]
        if len(steps) > STEPS_MAX:
            raise ValueError(f"steps: at most {STEPS_MAX}, not {len(steps)}")
        key = (start, wrong_rule)
        played = self.plays.pop(key, None)
        if played is None:
            played = Played(start, Core if wrong_rule is None else WRONG_RULES[wrong_rule].core)
        self.plays[key] = played  # the last again: the first is the one that was not asked for for longest
        if len(self.plays) > _PLAYS_MAX:
            del self.plays[next(iter(self.plays))]
        played.go_to(steps)
        return view_of(played, len(steps))

    def _save(self, given: dict[str, Json]) -> str:
        steps = [step_from_json(each) for each in _list(given, "steps")]
        title = _text(given, "title")
        return write_script(_start(given), steps, title=title, wrong_rule=_wrong_rule(given))


def _start(given: dict[str, Json]) -> Start:
    start = given.get("start")
    if not isinstance(start, dict):
        raise ValueError('start: must be an object such as {"nodes": 3}')
    return start_from_json(start)


def _wrong_rule(given: dict[str, Json]) -> str | None:
    name = given.get("wrongRule")
    if name is not None and (not isinstance(name, str) or name not in WRONG_RULES):
        raise ValueError(f"wrongRule: {name!r} is none of {', '.join(WRONG_RULES)}")
    return name


def _list(given: dict[str, Json], name: str) -> list[Json]:
    found = given.get(name)
    if not isinstance(found, list):
        raise ValueError(f"{name}: must be a list")
    return found


def _text(given: dict[str, Json], name: str) -> str:
    found = given.get(name)
    if not isinstance(found, str):
        raise ValueError(f"{name}: must be a text")
    return found


def _json(content: object) -> tuple[str, bytes]:
    return "application/json", json.dumps(content).encode()
