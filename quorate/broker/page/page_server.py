"""The page's routes: three assets, which anybody may have, and JSON, which needs what the metrics need."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from importlib.resources import files
from types import MappingProxyType
from typing import Final
from urllib.parse import parse_qs

import trio

from quorate.broker.node_config.page_peers import PagePeer
from quorate.broker.page.node_view import NodeView
from quorate.broker.page.page_health import PageHealth
from quorate.broker.page.page_state import Json, Seen, summary, topic
from quorate.broker.page.partition_map import PartitionMap
from quorate.broker.page.replayed import OffsetAheadError, OffsetGoneError, Past
from quorate.http_server import PAGE_HEADERS, HttpError, HttpRequest, HttpStream, refuse_strangers
from quorate.runtime import NetworkError, get_logger, in_slices

log = get_logger(__name__)

VIEWERS_MAX: Final = 16
"""Streams of events, so that the scrapers of metrics always find a connection."""
_EVENT_SECONDS: Final = 1
_SEND_SECONDS: Final = 10
_ANSWER_SECONDS: Final = 60
_OFFSET_DIGITS: Final = 19

_ASSETS: Final = MappingProxyType(
    {
        "/": ("index.html", "text/html; charset=utf-8"),
        "/page/app.js": ("app.js", "text/javascript; charset=utf-8"),
        "/page/style.css": ("style.css", "text/css; charset=utf-8"),
    }
)
_HEADERS: Final = MappingProxyType({**PAGE_HEADERS, "Connection": "close"})
_ALIVE: Final = "/page/alive"
"""It says nothing, to whoever asks: that a node is there shows its open port, too."""
_ALIVE_HEADERS: Final = MappingProxyType({**_HEADERS, "Cross-Origin-Resource-Policy": "cross-origin"})
_JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class _Asked:
    """The parameters of a request."""

    values: Mapping[str, str]

    def offset(self, name: str) -> int | None:
        """Return an offset; None: not given."""
        text = self.values.get(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdecimal() and len(text) <= _OFFSET_DIGITS):
            raise HttpError(HTTPStatus.BAD_REQUEST, f"{name} must be an offset: a number from 0 on")
        return int(text)


@dataclass(slots=True)
class _Remembered:
    """A value that takes time to find. It is found again only after ten times as long, so that many
    partitions take a tenth of a processor at most."""

    _value: Json = None
    _good_until: float = -1.0
    _turn: trio.Lock = field(default_factory=trio.Lock)

    async def value(self, find: Callable[[], Awaitable[Json]]) -> Json:
        async with self._turn:
            began = trio.current_time()
            if began >= self._good_until:
                self._value = await find()
                now = trio.current_time()
                self._good_until = now + max(10 * (now - began), _EVENT_SECONDS / 2)
            return self._value


class Page:
    """A `Site` for `serve_metrics`. Run `run` beside it."""

    def __init__(
        self,
        past: Past,
        *,
        live: NodeView | None,
        place: str,
        local_only: bool = False,
        viewers_max: int = VIEWERS_MAX,
        health: PageHealth | None = None,
        peers: Sequence[PagePeer] = (),
    ) -> None:
        """`live`: the node; None for a page about files alone. `place`: where the metadata are from.
        `health`: finds the problems; None: none are looked for, and the page says so.
        `peers`: where the pages of all nodes are, for links, and for a browser whose node is gone.
        `local_only`: the listener is for this machine and asks for nothing: refuse requests for another host,
        which a page of a stranger could have made by a name that leads here."""
        self._past = past
        self._live = live
        self._place = place
        self._local_only = local_only
        self._viewers_max = viewers_max
        self._health = health
        self._healthy, self._moving = _Remembered(), _Remembered()
        self._present_map, self._past_map = PartitionMap(), PartitionMap()
        self._peers = tuple(peers)
        # The page asks the others whether they are there, and nothing else.
        self._asset_headers = {
            **_HEADERS,
            "Content-Security-Policy": "; ".join(
                (
                    PAGE_HEADERS["Content-Security-Policy"],
                    " ".join(("connect-src 'self'", *(each.origin for each in peers))),
                )
            ),
        }
        self._viewers = 0
        self._event = b""
        self._published = trio.Event()
        self._looked_at = trio.Event()
        self.encoded = 0
        """The number of events that were made so far."""
        self._api: Mapping[str, Callable[[_Asked], Awaitable[bytes]]] = {
            "/page/api/summary": self._summary,
            "/page/api/partitions": self._partitions,
            "/page/api/topic": self._topic,
            "/page/api/changes": self._changes,
            "/page/api/health": self._health_answer,
            "/page/api/recent": self._recent,
            "/page/api/groups": self._groups,
            "/page/api/moves": self._moves,
        }

    async def run(self) -> None:
        """Sample, and make events while somebody looks, until cancelled."""
        async with trio.open_nursery() as nursery:
            if self._live is not None:
                nursery.start_soon(self._live.recent.run)
                if self._live.groups is not None:
                    nursery.start_soon(self._live.groups.run)
                nursery.start_soon(self._make_events, self._live)
            await trio.sleep_forever()

    async def _make_events(self, live: NodeView) -> None:
        while True:
            await self._looked_at.wait()
            try:
                value = {**await self._live_summary(live), "health": await self._live_health(live)}
            except Exception as error:
                log.error("the page has no event", reason=repr(error))
            else:
                self._event = b"data: " + _encoded(value) + b"\n\n"
                self.encoded += 1
                published, self._published = self._published, trio.Event()
                published.set()
            await trio.sleep(_EVENT_SECONDS)

    # Routes

    def serves(self, path: str) -> bool:
        return path == "/" or path.startswith("/page/")

    async def serve(self, request: HttpRequest, http: HttpStream, *, known: bool) -> None:
        """Answer. An answer ends the connection, so that viewers hold none that scrapers need."""
        try:
            refuse_strangers(request, local_only=self._local_only)
            if request.headers.get("sec-fetch-site") == "cross-site" and request.path not in (
                *_ASSETS,
                _ALIVE,
            ):
                raise HttpError(HTTPStatus.FORBIDDEN, "pages of another site may not read this one")
            asset = _ASSETS.get(request.path)
            if asset is not None:
                name, kind = asset
                await _send(http, HTTPStatus.OK, kind, _asset(name), self._asset_headers)
                return
            if request.path == _ALIVE:
                await _send(http, HTTPStatus.OK, "text/plain", b"", _ALIVE_HEADERS)
                return
            if not known:
                raise HttpError(HTTPStatus.UNAUTHORIZED, "send the token of the metrics endpoint")
            if request.path == "/page/events":
                await self._stream_events(http)
                return
            answer = self._api.get(request.path)
            if answer is None:
                raise HttpError(HTTPStatus.NOT_FOUND, "there is no such part of the page")
            with trio.fail_after(_ANSWER_SECONDS):
                body = await answer(_Asked(_parameters(request.query)))
        except HttpError as error:
            await _send(http, error.status, _JSON, _encoded({"error": str(error), **error.more}))
            return
        except (NetworkError, trio.TooSlowError):
            raise
        except Exception as error:
            # A page that can't be shown is no reason to end the node.
            log.error("the page has no answer", path=request.path, reason=repr(error))
            body = _encoded({"error": "the node could not answer; its log says why"})
            await _send(http, HTTPStatus.INTERNAL_SERVER_ERROR, _JSON, body)
            return
        await _send(http, HTTPStatus.OK, _JSON, body)

    async def _seen(self, asked: _Asked) -> tuple[Seen, NodeView | None]:
        """Return the moment that is asked for, and the node if that is the present."""
        offset = asked.offset("offset")
        if offset is None and self._live is not None:
            return self._live.seen(), self._live
        return await self._at(self._past.latest if offset is None else offset), None

    async def _at(self, offset: int) -> Seen:
        try:
            return await self._past.at(offset)
        except OffsetGoneError as error:
            raise HttpError(HTTPStatus.NOT_FOUND, str(error), earliest=error.earliest) from None
        except OffsetAheadError as error:
            raise HttpError(HTTPStatus.NOT_FOUND, str(error), latest=error.latest) from None

    async def _summary(self, asked: _Asked) -> bytes:
        seen, live = await self._seen(asked)
        if live is not None:
            return _encoded(await self._live_summary(live))
        return _encoded({**self._head(), **self._told(seen), "live": False, "quorum": None})

    async def _live_summary(self, live: NodeView) -> dict[str, Json]:
        quorum = await live.quorum_value()
        seen = live.seen()
        return {
            **self._head(),
            **self._told(seen),
            "live": True,
            "quorum": quorum,
            "directories": live.directories(),
        }

    def _told(self, seen: Seen) -> dict[str, Json]:
        return summary(seen, earliest=self._past.earliest, latest=self._past.latest)

    def _head(self) -> dict[str, Json]:
        live = self._live
        return {
            "place": self._place,
            "node": None if live is None else live.node_id,
            "cluster": None if live is None else live.cluster_id,
            "peers": [{"node": each.node_id, "origin": each.origin} for each in self._peers],
        }

    async def _health_answer(self, asked: _Asked) -> bytes:
        offset, live = asked.offset("offset"), self._live
        if self._health is None:
            raise HttpError(HTTPStatus.NOT_FOUND, "nobody looks for problems here")
        if offset is None and live is not None:
            return _encoded({"health": await self._live_health(live)})
        seen = await self._at(self._past.latest if offset is None else offset)
        return _encoded({"health": (await self._health.of_past(seen, self._past.log)).as_dict()})

    async def _live_health(self, live: NodeView) -> Json:
        health = self._health
        if health is None:
            return None

        async def look() -> Json:
            return (await health.of_present(live, self._past.log)).as_dict()

        return await self._healthy.value(look)

    async def _partitions(self, asked: _Asked) -> bytes:
        seen, live = await self._seen(asked)
        if live is None:
            return await in_slices(self._past_map.of(seen))
        return await in_slices(self._present_map.of(replace(seen, image=seen.image.copy())))

    async def _topic(self, asked: _Asked) -> bytes:
        seen, _ = await self._seen(asked)
        value = topic(seen, asked.values.get("name", ""))
        if value is None:
            raise HttpError(HTTPStatus.NOT_FOUND, f"there is no such topic at offset {seen.offset}")
        return _encoded(value)

    async def _changes(self, asked: _Asked) -> bytes:
        offset = asked.offset("around")
        around = self._past.latest if offset is None else offset
        seen = await self._at(around) if offset is not None or self._live is None else self._live.seen()
        try:
            found, made = await self._past.changes(around)
        except OffsetAheadError as error:
            raise HttpError(HTTPStatus.NOT_FOUND, str(error), latest=error.latest) from None
        images = (seen.image, self._live.metadata.image) if self._live is not None else (seen.image,)
        names = dict(made)
        for topic_id in {each.topic_id for each in found if each.topic_id is not None} - names.keys():
            for image in images:
                if (known := image.topic_by_id(topic_id)) is not None:
                    names[topic_id] = known.name
                    break
        return _encoded({"around": around, "changes": [each.as_dict(names) for each in found]})

    async def _recent(self, asked: _Asked) -> bytes:
        if self._live is None:
            raise HttpError(HTTPStatus.NOT_FOUND, "files have no throughput; open the page of a node")
        return _encoded(self._live.recent.as_dict())

    async def _groups(self, asked: _Asked) -> bytes:
        live = self._live
        if live is None or live.groups is None:
            raise HttpError(HTTPStatus.NOT_FOUND, "only a broker coordinates groups; open its page")
        image, name = live.metadata.image, asked.values.get("name")
        return _encoded(live.groups.as_dict(image) if name is None else live.groups.of_group(name, image))

    async def _moves(self, asked: _Asked) -> bytes:
        live = self._live
        if live is None:
            raise HttpError(HTTPStatus.NOT_FOUND, "only a broker moves replicas; open its page")

        async def look() -> Json:
            return await live.moves()

        return _encoded({"moves": await self._moving.value(look)})

    async def _stream_events(self, http: HttpStream) -> None:
        if self._live is None:
            raise HttpError(HTTPStatus.NOT_FOUND, "files do not change; open the page of a node")
        if self._viewers >= self._viewers_max:
            raise HttpError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"{self._viewers_max} viewers follow this node already; another node shows the same",
            )
        self._viewers += 1
        self._looked_at.set()
        try:
            with trio.fail_after(_SEND_SECONDS):
                await http.begin("text/event-stream", _HEADERS)
            while True:
                await self._published.wait()
                # Whoever takes none for so long is no longer waited for.
                with trio.fail_after(_SEND_SECONDS):
                    await http.send_more(self._event)
        finally:
            self._viewers -= 1
            if not self._viewers:
                self._looked_at = trio.Event()


def _parameters(query: str) -> dict[str, str]:
    try:
        return {name: values[-1] for name, values in parse_qs(query, max_num_fields=8).items()}
    except ValueError:
        raise HttpError(HTTPStatus.BAD_REQUEST, "too many parameters") from None


def _encoded(value: Mapping[str, Json]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _asset(name: str) -> bytes:
    return files("quorate.broker.page").joinpath("assets", name).read_bytes()


async def _send(
    http: HttpStream, status: HTTPStatus, kind: str, body: bytes, headers: Mapping[str, str] = _HEADERS
) -> None:
    """Send to who reads: whoever takes none for 10 s is no longer waited for."""
    refused = status is HTTPStatus.UNAUTHORIZED
    challenge = {"WWW-Authenticate": 'Bearer realm="metrics"'} if refused else {}
    with trio.fail_after(_SEND_SECONDS):
        await http.answer(status, kind, body, {**challenge, **headers})
