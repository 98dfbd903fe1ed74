"""An ASGI application (version 3), asked without a server or a socket.

    async with served(app) as ask:
        assert await ask("GET", "/") == (200, b"...")

It does what a server does: startup, requests with the state that startup left, shutdown. Raises
`StartupFailedError` with what the application says. For asyncio, whose applications these are.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager

Message = MutableMapping[str, object]
App = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]
Ask = Callable[[str, str], Awaitable[tuple[int, bytes]]]


class StartupFailedError(Exception):
    """The application sent `lifespan.startup.failed`."""


@asynccontextmanager
async def served(app: App) -> AsyncIterator[Ask]:
    state: Message = {}
    to_app: asyncio.Queue[Message] = asyncio.Queue()
    from_app: asyncio.Queue[Message] = asyncio.Queue()
    versions = {"version": "3.0", "spec_version": "2.0"}

    async def live() -> None:
        try:
            await app({"type": "lifespan", "asgi": versions, "state": state}, to_app.get, from_app.put)
        finally:
            await from_app.put({"type": "ended"})

    async def ask(method: str, path: str) -> tuple[int, bytes]:
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        scope: Message = {
            "type": "http",
            "asgi": versions,
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [],
            "state": dict(state),
        }
        await app(scope, receive, send)
        start, *bodies = sent
        status = start["status"]
        assert start["type"] == "http.response.start" and isinstance(status, int)
        content = b""
        for body in bodies:
            part = body["body"]
            assert body["type"] == "http.response.body" and isinstance(part, bytes)
            content += part
        assert bodies and not bodies[-1].get("more_body"), "the response has no end"
        return status, content

    running = asyncio.create_task(live())
    await to_app.put({"type": "lifespan.startup"})
    answer = await from_app.get()
    if answer["type"] != "lifespan.startup.complete":
        await asyncio.wait([running])
        # Starlette raises the error as well.
        raise StartupFailedError(answer.get("message", answer["type"])) from running.exception()
    try:
        yield ask
    finally:
        await to_app.put({"type": "lifespan.shutdown"})
        answer = await from_app.get()
        await running
        assert answer["type"] == "lifespan.shutdown.complete", answer
