"""A client on a thread of its own, with its own trio loop."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import ClassVar, Final

from quorate.raft.clients.client import Client, forked_client_error
from quorate.raft.doors.own_thread import OwnThread
from quorate.raft.quorum_errors import QuorumForkedError
from quorate.runtime import Address, TlsFiles

_EXIT_S: Final = 5.0
"""The maximum time to wait for the thread at its end."""


class ClientThread(OwnThread[Client]):
    """One client from its opening to its end."""

    stopped_message: ClassVar[str] = "the client is closed"
    lost_message: ClassVar[str] = "the client was closed during the call"
    own_call_message: ClassVar[str] = (
        "this call was made on the client's own thread, and would wait for itself; make it on another thread"
    )

    def __init__(
        self,
        addresses: Sequence[Address],
        *,
        cluster_id: str | None,
        sessions: bool,
        tls: TlsFiles | None,
    ) -> None:
        super().__init__()
        self._addresses = addresses
        self._cluster_id = cluster_id
        self._sessions = sessions
        self._tls = tls

    def _open(self) -> AbstractAsyncContextManager[Client]:
        return Client.open(
            self._addresses, cluster_id=self._cluster_id, sessions=self._sessions, tls=self._tls
        )

    @property
    def _exit_s(self) -> float:
        return _EXIT_S

    def _forked_error(self) -> QuorumForkedError:
        return forked_client_error()
