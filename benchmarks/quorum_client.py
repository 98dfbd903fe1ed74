"""The benchmark's client of quorate, in a process of its own, over TCP.

Usage: quorum_client.py VOTERS [CERTIFICATES]

One JSON command a line in, one JSON answer a line out, here, in rival_client/main.go and in door_client.py:

    {"do": "ready"}                         nothing, as soon as it can
    {"do": "leader"}                        the number, from 1, of the node that takes appends
    {"do": "commit"}                        who commits first, of all nodes tried at once
    {"do": "write", "in_flight", "size", and "seconds" or "count"}
                                            how many, how long, and percentiles
    {"do": "read", the same}                linearizable reads
    {"do": "snapshot"}                      every node takes one; quorate's client only
    {"do": "write", ..., "bucket_ms"}       also how many ended in each such stretch of time
    {"do": "write", ..., "distinct": true}  each record under a key of its own
"""

import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypedDict

import trio
from node_requests import CLIENT_NODE, READ, SNAPSHOT, UNSUPPORTED, member_files

from quorate.raft.quorum_config import parse_voters
from quorate.raft.quorum_errors import NotLeaderError, QuorumError
from quorate.raft.transport.channel import Channel
from quorate.runtime.network import Address, Network, NetworkError
from quorate.runtime.real import RealNetwork
from quorate.types import Voter


class Command(TypedDict, total=False):
    do: str
    in_flight: int
    size: int
    seconds: float
    count: int
    bucket_ms: int
    distinct: bool


@dataclass
class Client:
    """A channel to whoever leads, sought anew when it breaks."""

    voters: list[Voter]
    nursery: trio.Nursery
    channel: Channel | None = None
    leader: int = 0
    written: int = 0

    async def connected(self) -> Channel:
        if self.channel is None or self.channel.broken:
            await self.commit()
        assert self.channel is not None
        return self.channel

    async def commit(self) -> int:
        """Try all nodes at once, until one commits."""
        if self.channel is not None:
            self.channel.close()
        async with trio.open_nursery() as attempts:
            for number, voter in enumerate(self.voters, 1):
                attempts.start_soon(self._attempt, number, voter, attempts.cancel_scope)
        return self.leader

    async def _attempt(self, number: int, voter: Voter, others: trio.CancelScope) -> None:
        while True:
            try:
                channel = await _channel_to(voter)
            except NetworkError:
                await trio.sleep(0.005)
                continue
            kept = False
            try:
                self.nursery.start_soon(channel.run)
                while True:
                    try:
                        await channel.append([b"commit  "])
                    except NotLeaderError:
                        await trio.sleep(0.005)
                    else:
                        break
                kept = True
            except QuorumError:
                await trio.sleep(0.005)
            finally:
                if not kept:
                    channel.close()
            if kept:
                self.channel, self.leader = channel, number
                others.cancel()
                return

    async def answer(self, command: Command) -> dict[str, object]:
        match command["do"]:
            case "ready":
                return {}
            case "leader":
                await self.connected()
                return {"leader": self.leader}
            case "commit":
                return {"leader": await self.commit()}
            case "write":
                return await self._write(command)
            case "read":
                return await self._read(command)
            case "snapshot":
                return await self._snapshot()
            case other:
                raise SystemExit(f"no such command: {other!r}")

    async def _write(self, command: Command) -> dict[str, object]:
        channel = await self.connected()
        size, distinct = command["size"], command.get("distinct", False)

        def writer(worker: int) -> Callable[[], Awaitable[object]]:
            record = b"%08x" % worker + bytes(size - 8)

            def write() -> Awaitable[object]:
                if not distinct:
                    return channel.append([record])
                self.written += 1
                return channel.append([b"%08d" % self.written + record[8:]])

            return write

        return await measure(command, writer)

    async def _read(self, command: Command) -> dict[str, object]:
        channel = await self.connected()
        if (await channel.request(READ)) == UNSUPPORTED:
            return {"unsupported": "no linearizable reads in this version"}
        return await measure(command, lambda worker: lambda: channel.request(READ + b"%08x" % worker))

    async def _snapshot(self) -> dict[str, object]:
        supported: list[bool] = []

        async def take(voter: Voter) -> None:
            channel = await _channel_to(voter)
            self.nursery.start_soon(channel.run)
            supported.append((await channel.request(SNAPSHOT)) != UNSUPPORTED)
            channel.close()

        started = time.perf_counter()
        async with trio.open_nursery() as nodes:
            for voter in self.voters:
                nodes.start_soon(take, voter)
        if not all(supported):
            return {"unsupported": "no snapshots in this version"}
        return {"elapsed_s": time.perf_counter() - started}


async def _channel_to(voter: Voter) -> Channel:
    network: Network = RealNetwork()
    if len(sys.argv) > 2:
        network = network.secured(member_files(sys.argv[2], CLIENT_NODE))
    return await Channel.connect(
        network,
        Address(voter.endpoint.host, voter.endpoint.port),
        cluster_id="benchmark",
        max_frame_bytes=64 * 1024 * 1024,
        max_append_bytes=8 * 1024 * 1024,
        silence_timeout_ms=60_000,
    )


@dataclass
class Measured:
    latencies: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)


async def measure(
    command: Command, worker_of: Callable[[int], Callable[[], Awaitable[object]]]
) -> dict[str, object]:
    """Run `in_flight` workers, each with one operation under way, for `seconds` or `count` in all."""
    in_flight, bucket_ms = command["in_flight"], command.get("bucket_ms", 0)
    each = command.get("count", 0) // in_flight
    measured = Measured()
    clock = time.perf_counter
    started = clock()
    end = started + (command["seconds"] if not each else 1e9)

    async def work(operation: Callable[[], Awaitable[object]]) -> None:
        now, done = clock(), 0
        while not done or (now < end and (not each or done < each)):
            await operation()
            done += 1
            then, now = now, clock()
            measured.latencies.append(now - then)
            if bucket_ms:
                measured.ends.append(now - started)

    async with trio.open_nursery() as workers:
        for worker in range(in_flight):
            workers.start_soon(work, worker_of(worker))
    elapsed = clock() - started
    answer = summary(measured.latencies, elapsed)
    if bucket_ms:
        buckets = [0] * (int(elapsed * 1000 / bucket_ms) + 1)
        for ended in measured.ends:
            buckets[int(ended * 1000 / bucket_ms)] += 1
        answer["buckets"] = buckets[:-1]
    return answer


def summary(seconds: list[float], elapsed: float) -> dict[str, object]:
    """The answer for operations that took so long each, and `elapsed` together."""
    latencies = sorted(seconds)
    count = len(latencies)
    return {
        "operations": count,
        "elapsed_s": elapsed,
        "per_second": count / elapsed,
        **{f"{name}_ms": latencies[int(count * share)] * 1000 for name, share in PERCENTILES.items()},
    }


PERCENTILES = {"p50": 0.5, "p99": 0.99, "p999": 0.999}


async def main() -> None:
    async with trio.open_nursery() as nursery:
        client = Client(list(parse_voters(sys.argv[1])), nursery)
        # Nothing waits in a thread while a command runs: the line is read between commands.
        while line := await trio.to_thread.run_sync(sys.stdin.readline):
            print(json.dumps(await client.answer(json.loads(line))), flush=True)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
