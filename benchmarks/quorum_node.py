"""One node of the benchmark's quorum, in a process of its own.

Usage: quorum_node.py ID FOLDER VOTERS [PORT_FOR_CLIENTS]

With QUORATE_BENCH_LEASE_MS in the environment, it has read leases. With QUORATE_BENCH_PROFILE=FILE, SIGUSR1
starts cProfile, and SIGUSR2 writes what it saw to FILE.
"""

import cProfile
import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import trio
from node_requests import CERTIFICATES, READ, SUPPORTED, UNSUPPORTED, member_files

from quorate.raft.quorum import Quorum
from quorate.raft.quorum_config import QuorumConfig, parse_voters
from quorate.raft.state_machine.interface import CommittedBatch
from quorate.raft.storage.storage import format_folder
from quorate.runtime.network import Address
from quorate.runtime.real import SyncStrategy, real_runtime
from quorate.types import NodeId, SnapshotId

KEY_BYTES = 8
CHUNK_BYTES = 64 * 1024


class Values:
    """The latest record of each key, which is its first 8 bytes: what etcd and ZooKeeper keep, too."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}

    def apply(self, batch: CommittedBatch) -> Sequence[None]:
        values = self.values
        for record in batch.records:
            values[record[:KEY_BYTES]] = record
        return [None] * len(batch.records)

    def take_snapshot(self) -> Iterator[bytes]:
        return _chunks(list(self.values.values()))

    def load_snapshot(self, snapshot: SnapshotId) -> "ValuesLoader":
        return ValuesLoader(self)


def _chunks(records: Sequence[bytes]) -> Iterator[bytes]:
    """Whole records, each behind its length, about 64 KiB at a time."""
    parts: list[bytes] = []
    size = 0
    for record in records:
        parts += (len(record).to_bytes(4, "big"), record)
        size += len(record)
        if size >= CHUNK_BYTES:
            yield b"".join(parts)
            parts.clear()
            size = 0
    if parts:
        yield b"".join(parts)


class ValuesLoader:
    def __init__(self, target: Values) -> None:
        self._target = target
        self._values: dict[bytes, bytes] = {}

    def add(self, chunk: bytes) -> None:
        position = 0
        while position < len(chunk):
            end = position + 4 + int.from_bytes(chunk[position : position + 4], "big")
            record = chunk[position + 4 : end]
            self._values[record[:KEY_BYTES]] = record
            position = end

    def install(self) -> None:
        self._target.values = self._values


def configured(
    node: NodeId, folder: str, voters: str, *, client_listen: Address | None = None
) -> QuorumConfig:
    config = QuorumConfig(
        node_id=node,
        cluster_id="benchmark",
        folder=folder,
        voters=parse_voters(voters),
        client_listen=client_listen,
        tls=member_files(certificates, node) if (certificates := os.environ.get(CERTIFICATES)) else None,
    )
    lease_ms = int(os.environ.get("QUORATE_BENCH_LEASE_MS", "0"))
    return replace(config, core=replace(config.core, read_lease_ms=lease_ms))


async def main() -> None:
    node, folder = NodeId(int(sys.argv[1])), sys.argv[2]
    runtime = real_runtime(sync=SyncStrategy.INLINE)
    if not runtime.disk.exists(folder):
        await format_folder(runtime, folder, cluster_id="benchmark", node_id=node)
    client_listen = Address("127.0.0.1", int(sys.argv[4])) if len(sys.argv) > 4 else None
    config = configured(node, folder, sys.argv[3], client_listen=client_listen)
    profile_file = os.environ.get("QUORATE_BENCH_PROFILE")
    profile = None if profile_file is None else cProfile.Profile()
    asked = {signal.SIGTERM, signal.SIGINT} | ({signal.SIGUSR1, signal.SIGUSR2} if profile else set())
    values = Values()
    with trio.open_signal_receiver(*sorted(asked)) as signals:
        async with Quorum.open(config, values, runtime=runtime) as quorum:
            quorum.serve_requests(partial(_answer, quorum, values))
            quorum.serve_reads(lambda key: values.values.get(key, b""))
            async for number in signals:
                if profile is None or profile_file is None or number in (signal.SIGTERM, signal.SIGINT):
                    break
                if number == signal.SIGUSR1:
                    profile.enable()
                else:
                    profile.disable()
                    profile.dump_stats(profile_file + ".part")
                    os.rename(profile_file + ".part", profile_file)


async def _answer(quorum: Quorum[None], values: Values, request: bytes) -> bytes:
    """See node_requests.py; a key's record is read linearizably."""
    name = "wait_read_index" if request[:1] == READ else "take_snapshot"
    read_or_snapshot = getattr(quorum, name, None)
    if read_or_snapshot is None:
        return UNSUPPORTED
    await read_or_snapshot()
    return SUPPORTED + values.values.get(request[1:], b"")


if __name__ == "__main__":
    logging.basicConfig()
    trio.run(main)
