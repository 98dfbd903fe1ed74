"""A listener with SASL over the simulated network, and a client that knows the bytes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from captured_logs import captured_logs
from kio.schema.errors import ErrorCode
from sasl_clients import PLAIN, SHA_256, SHA_512, ScramClient, Users
from served_wire import HOME, Handler, frame, heartbeat_ok, serving

from quorate.broker.wire.api import APIS, ApiKey
from quorate.broker.wire.codecs.entities import (
    build,
    decode_entity,
    encode_entity,
    request_type,
    response_type,
)
from quorate.broker.wire.headers import read_response_header
from quorate.broker.wire.kafka_server import WireServer
from quorate.broker.wire.listener_security import ListenerSecurity, SaslMechanism, SecurityProtocol
from quorate.broker.wire.sasl.login import LoginCounts
from quorate.runtime.network import NetworkError

SECURITY = ListenerSecurity(
    protocol=SecurityProtocol.SASL_PLAINTEXT, mechanisms=(SHA_256, SHA_512, PLAIN), max_receive_bytes=4096
)


class Peer:
    """A client that knows the bytes."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self._rest = b""
        self._number = 0

    async def raw(self, data: bytes) -> None:
        await self.stream.send([len(data).to_bytes(4, "big") + data])

    async def frame(self) -> bytes:
        """Raises `EOFError` at the end of the connection."""
        while len(self._rest) < 4 or len(self._rest) < 4 + int.from_bytes(self._rest[:4], "big"):
            try:
                piece = await self.stream.receive_some()
            except NetworkError:
                piece = b""
            if not piece:
                assert not self._rest
                raise EOFError
            self._rest += piece
        size = int.from_bytes(self._rest[:4], "big")
        taken, self._rest = self._rest[4 : 4 + size], self._rest[4 + size :]
        return taken

    async def call(self, key: ApiKey, version: int, **values: object) -> Any:
        self._number += 1
        body = b"".join(encode_entity(build(request_type(key, version), **values)))
        await self.stream.send([frame(key, version, self._number, body)])
        answer = memoryview(await self.frame())
        assert int.from_bytes(answer[:4], "big") == self._number
        start = read_response_header(answer, api=APIS[key], version=version)
        return decode_entity(response_type(key, version), answer[start:])

    async def heartbeat(self) -> Any:
        return await self.call(ApiKey.HEARTBEAT, 4, group_id="g", generation_id=1, member_id="m")

    async def shake(self, mechanism: SaslMechanism | str = SHA_256, version: int = 1) -> Any:
        name = mechanism if isinstance(mechanism, str) else mechanism.value
        return await self.call(ApiKey.SASL_HANDSHAKE, version, mechanism=name)

    async def token(self, data: bytes, version: int = 2) -> Any:
        return await self.call(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=data)

    async def log_in(
        self,
        user: str = "ann",
        password: str = "secret of ann",
        mechanism: SaslMechanism = SHA_256,
        version: int = 2,
    ) -> Any:
        """The last answer."""
        assert (await self.shake(mechanism)).error_code is ErrorCode.none
        if mechanism is PLAIN:
            return await self.token(f"\0{user}\0{password}".encode(), version)
        client = ScramClient(mechanism, user, password)
        first = await self.token(client.first(), version)
        if first.error_code is not ErrorCode.none:
            return first
        assert first.error_message is None
        final = await self.token(client.final(first.auth_bytes), version)
        assert client.trusts(final.auth_bytes) is (final.error_code is ErrorCode.none)
        return final

    async def is_closed(self) -> bool:
        with pytest.raises(EOFError):
            await self.frame()
        return True


class Listener:
    def __init__(self, security: ListenerSecurity = SECURITY, **options: Any) -> None:
        """`options`: of `served_wire.serving`."""
        self.users = Users()
        self.users.add("ann", SHA_256, "secret of ann")
        self.users.add("ann", SHA_512, "secret of ann")
        self.users.add("bob", SHA_256, "secret of bob")
        self.handler = Handler(heartbeat=heartbeat_ok)
        self._serving = serving(self.handler, security=security, credentials=self.users, **options)
        self._peers = 0

    async def __aenter__(self) -> "Listener":
        self._net, self._server = await self._serving.__aenter__()
        return self

    async def __aexit__(self, *reason: Any) -> None:
        await self._serving.__aexit__(*reason)

    async def peer(self) -> Peer:
        self._peers += 1
        return Peer(await self._net.for_node(f"client-{self._peers}").connect(HOME))

    @property
    def server(self) -> WireServer:
        return self._server

    @property
    def counts(self) -> LoginCounts:
        return self._server.statistics().logins

    @property
    def principals(self) -> list[str]:
        """Those of the handled requests."""
        return [str(context.connection.principal) for _, context, _ in self.handler.seen]


@contextmanager
def failures() -> Iterator[list[str]]:
    """The reasons of failed logins, by their log lines."""
    reasons: list[str] = []
    with captured_logs() as entries:
        yield reasons
    reasons += [str(entry["reason"]) for entry in entries if entry["event"] == "login failed"]
    assert not any("secret of" in str(entry) for entry in entries)
