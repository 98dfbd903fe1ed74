"""The answers of a node to its clients."""

from collections.abc import Callable, Sequence
from typing import Final, Protocol, assert_never

from quorate.error_code import ErrorCode
from quorate.raft.clients.client_messages import (
    ClientAppend,
    ClientRead,
    ClientWatch,
    decode_client_request,
    encode_appended,
)
from quorate.raft.clients.watch_feed import WatchFeed
from quorate.raft.quorum_errors import (
    InvalidAppendError,
    NotLeaderError,
    QuorumStoppedError,
    RequestRefusedError,
)
from quorate.raft.state_machine.interface import Appended
from quorate.raft.transport.caller import Caller
from quorate.runtime import get_logger

NO_REMOTE_APPENDS: Final = (
    "this quorum takes records from the program of its leader only (remote_appends is off); send a request "
    "of that program's own"
)
_TIMEOUT_MAX_MS: Final = 60_000
"""The longest time that a client may let a request wait here."""

log = get_logger(__name__)

ReadHandler = Callable[[bytes], bytes]


class Served(Protocol):
    """The quorum's node, as far as its clients use it."""

    @property
    def is_leader(self) -> bool: ...

    async def append(self, records: Sequence[bytes], *, timeout_ms: int) -> Appended[object]: ...

    async def read(self, read: Callable[[], bytes], *, timeout_ms: int) -> bytes: ...


class ClientService:
    """Answers on the leader only, which needs no other node to know where a request belongs."""

    def __init__(
        self,
        node: Served,
        *,
        feed: WatchFeed,
        not_leader: Callable[[], NotLeaderError],
        takes_appends: bool,
    ) -> None:
        self._node = node
        self._feed = feed
        self._not_leader = not_leader
        self._takes_appends = takes_appends
        self.read_handler: ReadHandler | None = None

    async def answer(self, payload: bytes, _: Caller) -> bytes:
        """Return the answer to a request. Raises `QuorumError`."""
        request = decode_client_request(payload)
        node = self._node
        if not node.is_leader:
            raise self._not_leader()
        timeout_ms = min(request.timeout_ms, _TIMEOUT_MAX_MS)
        try:
            match request:
                case ClientAppend(records=records):
                    if not self._takes_appends:
                        raise InvalidAppendError(NO_REMOTE_APPENDS)
                    return encode_appended(await node.append(records, timeout_ms=timeout_ms))
                case ClientRead(query=query):
                    return await node.read(lambda: self._answer_read(query), timeout_ms=timeout_ms)
                case ClientWatch(from_offset=from_offset):
                    return await self._feed.answer(from_offset, wait_ms=timeout_ms)
                case _:
                    assert_never(request)
        except QuorumStoppedError as error:
            # Nothing happened. The next leader may take it.
            raise self._not_leader() from error

    def _answer_read(self, query: bytes) -> bytes:
        if self.read_handler is None:
            raise RequestRefusedError(
                ErrorCode.INVALID_REQUEST,
                "the leader answers no reads of clients; its program must call serve_reads",
            )
        try:
            return self.read_handler(query)
        except Exception as error:
            log.exception("the application failed to answer a read")
            raise RequestRefusedError(
                ErrorCode.INVALID_REQUEST,
                f"the leader's program failed to answer ({type(error).__name__}); its log has the reason",
            ) from error
