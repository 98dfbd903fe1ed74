"""A replicated dictionary behind HTTP. Three terminals:

python examples/dictionary.py 1 8001 /tmp/d1    (and 2 8002 /tmp/d2, and 3 8003 /tmp/d3)
curl -X PUT localhost:8001/colour/blue; curl localhost:8002/colour
"""

import contextlib
import json
import logging
import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import trio

from quorate.blocking import format_folder
from quorate.raft import CommittedBatch, NodeId, Quorum, QuorumConfig, QuorumError, parse_voters

VOTERS = "1@127.0.0.1:9191,2@127.0.0.1:9192,3@127.0.0.1:9193"


@dataclass
class Dictionary:
    items: dict[str, str] = field(default_factory=dict)

    def apply(self, batch: CommittedBatch) -> list[str]:  # committed records, in one order on every node
        return [self.put(*json.loads(record)) for record in batch.records]

    @staticmethod
    def entry(key: str, value: str) -> bytes:
        return json.dumps([key, value]).encode()

    def found(self, key: str) -> str:
        return self.items.get(key, "")

    def put(self, key: str, value: str) -> str:
        before, self.items[key] = self.items.get(key, "nothing"), value
        return before


async def answer(quorum: Quorum[str], dictionary: Dictionary, stream: trio.SocketStream) -> None:
    with contextlib.suppress(trio.BrokenResourceError), trio.move_on_after(30):
        request = (await stream.receive_some(8192)).decode(errors="replace")
        status, text = "200 OK", ""
        try:
            match request.partition("\r\n")[0].replace("/", " ").split():
                case ["PUT", key, value, "HTTP", _]:
                    text = f"was {(await quorum.append([dictionary.entry(key, value)])).results[0]}"
                case ["GET", key, "HTTP", _]:
                    text = await quorum.read(partial(dictionary.found, key))  # what any node acknowledged
                case _:
                    status, text = "400 Bad Request", "GET /key, or PUT /key/value"
        except QuorumError as error:  # it may say that the outcome is unknown: put again
            status, text = "503 Service Unavailable", str(error)
        await stream.send_all(f"HTTP/1.0 {status}\r\n\r\n{text}".encode())


def configured(number: str, folder: str, voters: str = VOTERS) -> QuorumConfig:
    node = NodeId(int(number))
    if not Path(folder, "meta.properties").exists():
        format_folder(folder, cluster_id="dictionary", node_id=node)
    return QuorumConfig(node_id=node, cluster_id="dictionary", folder=folder, voters=parse_voters(voters))


async def main(config: QuorumConfig, port: str) -> None:
    async with Quorum.open(config, dictionary := Dictionary()) as quorum:
        await trio.serve_tcp(lambda stream: answer(quorum, dictionary, stream), int(port), host="127.0.0.1")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)  # elections and what else happens, on standard error
    node, port, *rest = sys.argv[1:]
    trio.run(main, configured(node, *rest), port)
