"""A replicated dictionary behind HTTP. Three terminals:

    python examples/dictionary.py 1 8001 /tmp/d1    (and 2 8002 /tmp/d2, and 3 8003 /tmp/d3)
    curl -X PUT localhost:8001/colour -d blue; curl localhost:8002/colour
"""

import json
import sys
from functools import partial

import trio

from quorate.raft import NotLeaderError, OutcomeUnknownError, Quorum, QuorumConfig, format_folder, parse_voters
from quorate.runtime.real import SyncStrategy, real_runtime

VOTERS = parse_voters("1@127.0.0.1:9191,2@127.0.0.1:9192,3@127.0.0.1:9193")


class Dictionary:
    def __init__(self):
        self.items = {}

    def apply(self, batch):  # each committed record, on every node, in the same order
        return [self.put(*json.loads(record)) for record in batch.records]

    def put(self, key, value):
        before, self.items[key] = self.items.get(key), value
        return before

    def take_snapshot(self):
        yield json.dumps(self.items).encode()

    def load_snapshot(self, chunks):
        self.items = json.loads(b"".join(chunks))


async def answer(quorum, dictionary, stream):
    request = (await stream.receive_some()).decode()
    method, path, _ = request.split("\r\n")[0].split(" ")
    key, status, body = path[1:], "200 OK", ""
    try:
        if method == "PUT":
            record = json.dumps([key, request.partition("\r\n\r\n")[2]]).encode()
            body = f"was {(await quorum.append([record])).results[0]}"
        else:
            body = dictionary.items.get(key, "")
    except (NotLeaderError, OutcomeUnknownError) as error:
        status, body = "503 Service Unavailable", str(error)
    await stream.send_all(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())


async def main(node, port, folder):
    runtime, dictionary = real_runtime(sync=SyncStrategy.INLINE), Dictionary()
    if not runtime.disk.exists(folder):
        await format_folder(runtime, folder, cluster_id="dictionary", node_id=node)
    config = QuorumConfig(node_id=node, cluster_id="dictionary", folder=folder, voters=VOTERS)
    async with Quorum.open(config, dictionary, runtime=runtime) as quorum:
        await trio.serve_tcp(partial(answer, quorum, dictionary), port, host="127.0.0.1")


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
