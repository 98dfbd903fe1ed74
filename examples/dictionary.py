"""A replicated dictionary behind HTTP. Three terminals:

python examples/dictionary.py 1 8001 /tmp/d1    (and 2 8002 /tmp/d2, and 3 8003 /tmp/d3)
curl -X PUT localhost:8001/colour/blue; curl localhost:8002/colour
"""

import json
import sys

import trio

from quorate.raft import Quorum, QuorumConfig, QuorumError, format_folder, parse_voters
from quorate.runtime.real import SyncStrategy, real_runtime


class Dictionary:
    def __init__(self, replaces=None):
        self.items, self.replaces = {}, replaces

    def apply(self, batch):  # committed records, on every node, in the same order
        return [self.add(record) for record in batch.records]

    def add(self, record):  # or a chunk of a snapshot, which looks the same here
        key, value = json.loads(record)
        before, self.items[key] = self.items.get(key), value
        return before

    def take_snapshot(self):  # of the items as they are now, whatever comes while it is written
        return (json.dumps(item).encode() for item in list(self.items.items()))

    def load_snapshot(self, snapshot):  # into one beside this, so that nobody sees half of it
        return Dictionary(replaces=self)

    def install(self):
        self.replaces.items = self.items


async def answer(quorum, dictionary, stream):
    method, key, value, *_ = (await stream.receive_some()).decode().replace("/", " ").split()
    status, text = "200 OK", dictionary.items.get(key, "")
    if method == "PUT":
        try:
            text = f"was {(await quorum.append([json.dumps([key, value]).encode()])).results[0]}"
        except QuorumError as error:  # it may say that the outcome is unknown: put again
            status, text = "503 Service Unavailable", str(error)
    data = text.encode()
    await stream.send_all(f"HTTP/1.1 {status}\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)


async def main(node, port, folder, voters="1@127.0.0.1:9191,2@127.0.0.1:9192,3@127.0.0.1:9193"):
    runtime, dictionary = real_runtime(sync=SyncStrategy.INLINE), Dictionary()
    if not runtime.disk.exists(f"{folder}/meta.properties"):
        await format_folder(runtime, folder, cluster_id="dictionary", node_id=node)
    config = QuorumConfig(node_id=node, cluster_id="dictionary", folder=folder, voters=parse_voters(voters))
    async with Quorum.open(config, dictionary, runtime=runtime) as quorum:
        await trio.serve_tcp(lambda stream: answer(quorum, dictionary, stream), port, host="127.0.0.1")


trio.run(main, int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
