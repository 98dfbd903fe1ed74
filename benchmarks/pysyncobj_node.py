"""One node of PySyncObj behind a TCP server, in a process of its own.

Usage: pysyncobj_node.py PORT JOURNAL SELF PEER...; frames are described in rival_client/pysyncobj.go. The
journal is a memory-mapped file that PySyncObj never syncs.
"""

import socket
import struct
import sys
import threading
from functools import partial

from pysyncobj import FAIL_REASON, SyncObj, SyncObjConf, replicated

_HEAD = struct.Struct(">IIcB")
_ANSWER = struct.Struct(">IIB")


class Values(SyncObj):  # type: ignore[misc]
    def __init__(self, own: str, peers: list[str], journal: str) -> None:
        super().__init__(
            own,
            peers,
            # Without batches a lone command is sent at once, as PySyncObj's docs advise; a queue bounded as
            # by default; no waiting for a leader, so that a client may try elsewhere.
            SyncObjConf(journalFile=journal, appendEntriesUseBatch=False, commandsWaitLeader=False),
        )
        self.values: dict[bytes, bytes] = {}

    @replicated  # type: ignore[untyped-decorator]
    def put(self, key: bytes, value: bytes) -> None:
        self.values[key] = value


class Connection:
    def __init__(self, stream: socket.socket, values: Values) -> None:
        self._stream = stream
        self._values = values
        self._lock = threading.Lock()

    def serve(self) -> None:
        reader = self._stream.makefile("rb", buffering=1 << 16)
        while len(head := reader.read(_HEAD.size)) == _HEAD.size:
            length, number, kind, key_length = _HEAD.unpack(head)
            body = reader.read(length - 6)
            if kind == b"l":
                leads = self._values._getLeader() == self._values.selfNode
                self._answer(number, FAIL_REASON.SUCCESS if leads else FAIL_REASON.NOT_LEADER)
            else:
                self._values.put(
                    body[:key_length], body[key_length:], callback=partial(self._committed, number)
                )

    def _committed(self, number: int, _: object, reason: int) -> None:
        self._answer(number, reason)

    def _answer(self, number: int, status: int) -> None:
        try:
            with self._lock:
                self._stream.sendall(_ANSWER.pack(5, number, status))
        except OSError:
            pass  # The client has gone.


def main() -> None:
    port, journal, own, *peers = sys.argv[1:]
    values = Values(own, peers, journal)
    with socket.create_server(("127.0.0.1", int(port))) as server:
        while True:
            stream, _ = server.accept()
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=Connection(stream, values).serve, daemon=True).start()


if __name__ == "__main__":
    main()
