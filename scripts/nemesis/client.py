"""Clients in a process of their own. Usage: client.py JSON (see `Arguments`)

Each appends to lists and reads them, one call after another, at any node, and writes down what it was told,
a JSON array per call: [kind, key, value or values read, invoked, returned, offset], times in seconds of the
machine's monotonic clock. What surely had no effect, and reads that failed, are only counted. Ends when the
standard input does, after the calls under way, and then says how many calls were made.
"""

import dataclasses
import json
import random
import sys
import time
from collections import Counter
from typing import TextIO

import trio
from links import CALL_SECONDS, Links, NotSentError

from quorate.raft.quorum_errors import NotLeaderError, OutcomeUnknownError, QuorumError
from quorate.runtime.network import Address

THINK_SECONDS_MAX = 0.2
BLOCK_SECONDS = 10
"""The time that a key is in use. Short histories are quickly checked."""
KEYS = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Arguments:
    name: str
    seed: str
    cluster_id: str
    nodes: dict[str, tuple[str, int]]
    workers: int
    output: str
    started_at: float
    """The start of the run on the monotonic clock."""


class Clients:
    def __init__(self, arguments: Arguments, links: Links, output: TextIO) -> None:
        self._arguments = arguments
        self._links = links
        self._output = output
        self._leader: int | None = None
        self.finishing = False
        self.counts: Counter[str] = Counter()

    async def work(self, number: int) -> None:
        draw = random.Random(f"{self._arguments.seed}/{number}")
        calls = 0
        while not self.finishing:
            calls += 1
            block = int((time.monotonic() - self._arguments.started_at) / BLOCK_SECONDS)
            key = f"{block}/{draw.randrange(KEYS)}"
            node = draw.choice(list(self._links.nodes))
            if self._leader is not None and draw.random() < 0.4:
                node = self._leader
            match draw.choice(("read", "read", "append", "append directly")):
                case "read":
                    await self._read(node, key)
                case how:
                    value = f"{self._arguments.name}{number}-{calls}"
                    await self._append(node, key, value, directly=how == "append directly")
            await trio.sleep(draw.uniform(0, THINK_SECONDS_MAX))

    async def _read(self, node: int, key: str) -> None:
        invoked_at = time.monotonic()
        try:
            reply = await self._links.ask(node, {"read": key})
        except (NotSentError, QuorumError):
            self.counts["reads that failed"] += 1
        else:
            self._write_down("read", key, reply["values"], invoked_at, time.monotonic(), None)

    async def _append(self, node: int, key: str, value: str, *, directly: bool) -> None:
        invoked_at = time.monotonic()
        try:
            if directly:
                channel = await self._links.to(node)
                with trio.fail_after(CALL_SECONDS):
                    offset, _ = await channel.append([json.dumps([key, value]).encode()])
                self._leader = node
            else:
                offset = (await self._links.ask(node, {"append": [key, value]}))["offset"]
        except NotSentError:
            self.counts["appends that failed"] += 1
        except NotLeaderError as error:
            self.counts["appends that failed"] += 1
            self._leader = error.leader
        except (OutcomeUnknownError, trio.TooSlowError):
            self._write_down("append", key, value, invoked_at, None, None)
        else:
            self._write_down("append", key, value, invoked_at, time.monotonic(), offset)

    def _write_down(
        self,
        kind: str,
        key: str,
        value: object,
        invoked_at: float,
        returned_at: float | None,
        offset: int | None,
    ) -> None:
        self.counts[kind + ("s" if returned_at is not None else "s of unknown outcome")] += 1
        print(json.dumps([kind, key, value, invoked_at, returned_at, offset]), file=self._output)


async def main(arguments: Arguments, output: TextIO) -> None:
    nodes = {int(node): Address(host, port) for node, (host, port) in arguments.nodes.items()}
    async with trio.open_nursery() as nursery:
        clients = Clients(arguments, Links(nursery, arguments.cluster_id, nodes), output)
        async with trio.open_nursery() as workers:
            for number in range(arguments.workers):
                workers.start_soon(clients.work, number)
            await trio.lowlevel.wait_readable(0)
            clients.finishing = True
        nursery.cancel_scope.cancel()
    print(json.dumps(clients.counts), flush=True)


if __name__ == "__main__":
    given = Arguments(**json.loads(sys.argv[1]))
    with open(given.output, "w") as history:
        trio.run(main, given, history)
