"""A replicated dictionary behind HTTP. Three terminals:

python examples/dictionary.py 1 8001 /tmp/d1    (and 2 8002 /tmp/d2, and 3 8003 /tmp/d3)
curl -X PUT localhost:8001/colour/blue; curl localhost:8002/colour
"""

import json
import sys
from functools import partial

import trio

from quorate.raft import Quorum, QuorumConfig, QuorumError, format_folder, parse_voters
from quorate.runtime.real import SyncStrategy, real_runtime

VOTERS = (sys.argv[4:] or ["1@127.0.0.1:9191,2@127.0.0.1:9192,3@127.0.0.1:9193"])[0]


class Dictionary:
    def __init__(self):
        self.items = {}

    def apply(self, batch):  # committed records, on every node, in the same order
        return [self.put(*json.loads(record)) for record in batch.records]

    def put(self, key, value):
        before, self.items[key] = self.items.get(key), value
        return before

    def take_snapshot(self):
        yield json.dumps(self.items).encode()

    def load_snapshot(self, chunks):
        self.items = json.loads(b"".join(chunks))


async def answer(quorum, dictionary, stream):
    method, path, _ = (await stream.receive_some()).decode().split(" ", 2)
    key, _, value = path[1:].partition("/")
    status, text = "200 OK", dictionary.items.get(key, "")
    if method == "PUT":
        try:
            text = f"was {(await quorum.append([json.dumps([key, value]).encode()])).results[0]}"
        except QuorumError as error:  # it may say that the outcome is unknown: put again
            status, text = "503 Service Unavailable", str(error)
    data = text.encode()
    await stream.send_all(f"HTTP/1.1 {status}\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)


async def main(node, port, folder):
    runtime, dictionary = real_runtime(sync=SyncStrategy.INLINE), Dictionary()
    if not runtime.disk.exists(f"{folder}/meta.properties"):
        await format_folder(runtime, folder, cluster_id="dictionary", node_id=node)
    config = QuorumConfig(node_id=node, cluster_id="dictionary", folder=folder, voters=parse_voters(VOTERS))
    async with Quorum.open(config, dictionary, runtime=runtime) as quorum:
        await trio.serve_tcp(partial(answer, quorum, dictionary), port, host="127.0.0.1")


trio.run(main, int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
