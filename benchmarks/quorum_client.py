"""The benchmark's client, in a process of its own: appends over TCP to whoever leads.

Usage: quorum_client.py VOTERS IN_FLIGHT SECONDS RECORD_BYTES; prints one line of JSON.
"""

import json
import sys
import time

import trio

from quorate.raft.channel import Channel
from quorate.raft.config import parse_voters
from quorate.raft.errors import QuorumError
from quorate.runtime.network import Address, NetworkError
from quorate.runtime.real import RealNetwork


async def channel_to_leader(nursery: trio.Nursery, voters_text: str) -> Channel:
    """Ask each node until one takes an append."""
    while True:
        for voter in parse_voters(voters_text):
            channel = Channel(
                RealNetwork(),
                Address(voter.endpoint.host, voter.endpoint.port),
                cluster_id="benchmark",
                max_frame_bytes=64 * 1024 * 1024,
                max_append_bytes=8 * 1024 * 1024,
            )
            try:
                await channel.connect()
            except NetworkError:
                continue
            nursery.start_soon(channel.run)
            try:
                with trio.fail_after(2):
                    await channel.append([b"who leads?"])
            except (QuorumError, trio.TooSlowError):
                channel.close()
            else:
                return channel
        await trio.sleep(0.005)


async def main() -> None:
    voters, in_flight, seconds, size = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    latencies: list[float] = []
    record = b"x" * size
    async with trio.open_nursery() as nursery:
        channel = await channel_to_leader(nursery, voters)
        await channel.append([record])
        started = time.perf_counter()
        end = started + seconds

        async def worker() -> None:
            now = time.perf_counter()
            while now < end:
                await channel.append([record])
                then, now = now, time.perf_counter()
                latencies.append(now - then)

        async with trio.open_nursery() as workers:
            for _ in range(in_flight):
                workers.start_soon(worker)
        elapsed = time.perf_counter() - started
        nursery.cancel_scope.cancel()
    latencies.sort()
    print(
        json.dumps(
            {
                "commits_per_second": len(latencies) / elapsed,
                "p50_ms": latencies[len(latencies) // 2] * 1000,
                "p99_ms": latencies[int(len(latencies) * 0.99)] * 1000,
            }
        )
    )


if __name__ == "__main__":
    trio.run(main)
