"""A replicated dictionary behind HTTP. Three terminals:

python examples/dictionary.py 1 8001 /tmp/d1    (and 2 8002 /tmp/d2, and 3 8003 /tmp/d3)
curl -X PUT localhost:8001/colour/blue; curl localhost:8002/colour
"""

import contextlib
import json
import logging
import sys
from collections.abc import Iterator

import trio

from quorate.raft import (
    CommittedBatch,
    NodeId,
    Quorum,
    QuorumConfig,
    QuorumError,
    format_folder,
    parse_voters,
)
from quorate.runtime.real import SyncStrategy, real_runtime

VOTERS = "1@127.0.0.1:9191,2@127.0.0.1:9192,3@127.0.0.1:9193"


class Dictionary(dict[str, str]):
    def apply(self, batch: CommittedBatch) -> list[str]:  # committed records, in one order on every node
        return [self.put(*json.loads(record)) for record in batch.records]

    def put(self, key: str, value: str) -> str:
        before, self[key] = self.get(key, "nothing"), value
        return before

    def take_snapshot(self) -> Iterator[bytes]:  # as it is now, whatever comes while it is written
        return (json.dumps(item).encode() for item in list(self.items()))

    def load_snapshot(self, snapshot: object) -> "Loader":
        return Loader(self)


class Loader:  # a dictionary beside the one that runs, so that nobody sees half a snapshot
    def __init__(self, running: Dictionary) -> None:
        self.running, self.loaded = running, Dictionary()

    def add(self, chunk: bytes) -> None:
        self.loaded.put(*json.loads(chunk))

    def install(self) -> None:
        self.running.clear()
        self.running.update(self.loaded)


async def answer(quorum: Quorum[str], dictionary: Dictionary, stream: trio.SocketStream) -> None:
    with contextlib.suppress(trio.BrokenResourceError), trio.move_on_after(30):
        request = (await stream.receive_some(8192)).decode(errors="replace")
        status, text = "200 OK", ""
        try:
            match request.partition("\r\n")[0].replace("/", " ").split():
                case ["PUT", key, value, "HTTP", _]:
                    text = f"was {(await quorum.append([json.dumps([key, value]).encode()])).results[0]}"
                case ["GET", key, "HTTP", _]:
                    await quorum.wait_read_index()  # or else what another node acknowledged may be missing
                    text = dictionary.get(key, "")
                case _:
                    status, text = "400 Bad Request", "GET /key, or PUT /key/value"
        except QuorumError as error:  # it may say that the outcome is unknown: put again
            status, text = "503 Service Unavailable", str(error)
        await stream.send_all(f"HTTP/1.0 {status}\r\n\r\n{text}".encode())


async def main(number: str, port: str, folder: str, voters: str = VOTERS) -> None:
    node, runtime, dictionary = NodeId(int(number)), real_runtime(sync=SyncStrategy.INLINE), Dictionary()
    if not runtime.disk.exists(f"{folder}/meta.properties"):
        await format_folder(runtime, folder, cluster_id="dictionary", node_id=node)
    config = QuorumConfig(node_id=node, cluster_id="dictionary", folder=folder, voters=parse_voters(voters))
    async with Quorum.open(config, dictionary, runtime=runtime) as quorum:
        await trio.serve_tcp(lambda stream: answer(quorum, dictionary, stream), int(port), host="127.0.0.1")


logging.basicConfig(level=logging.INFO)  # elections and what else happens, on standard error
trio.run(lambda: main(*sys.argv[1:]))
