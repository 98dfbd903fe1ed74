"""One node of the quorum, in a process of its own. Usage: node.py JSON (see `Arguments`)

Its state is a list of values by key. Anybody may ask any node over the controller listener, in JSON:

    {"append": [key, value]}   appended and applied here: {"offset": n}
    {"read": key}              linearizable: {"values": [...]}
    {"dump": true}             linearizable: {"lists": {key: [...]}}
    {"status": true}           what this node knows at once

Ends when its standard input does, so that it never outlives who started it.
"""

import dataclasses
import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from functools import partial

import trio

from quorate.raft.quorum import Quorum
from quorate.raft.quorum_config import QuorumConfig
from quorate.raft.state_machine.interface import CommittedBatch
from quorate.raft.storage.storage import format_folder
from quorate.runtime.network import Address
from quorate.runtime.real import SyncStrategy, real_runtime
from quorate.types import Endpoint, NodeId, ReplicaKey, SnapshotId, Voter, VoterSet

CHUNK_KEYS = 50
CALL_TIMEOUT_MS = 4000
STOPPED = 3
"""The exit code of a node that stopped by itself, and printed the reason."""


@dataclasses.dataclass(frozen=True, slots=True)
class Arguments:
    node: int
    folder: str
    cluster_id: str
    host: str
    port: int
    servers: list[tuple[str, int]]
    first_voters: list[tuple[int, str, str, int]]
    """Id, directory id, host and port of each. It is empty for a node with a new disk."""
    snapshot_bytes: int


class Lists:
    """Every record is a JSON array [key, value], and its result is how long the key's list is then."""

    def __init__(self) -> None:
        self.lists: dict[str, tuple[str, ...]] = {}

    def apply(self, batch: CommittedBatch) -> Sequence[int]:
        lengths = []
        for record in batch.records:
            key, value = json.loads(record)
            values = self.lists[key] = (*self.lists.get(key, ()), value)
            lengths.append(len(values))
        return lengths

    def take_snapshot(self) -> Iterator[bytes]:
        items = list(self.lists.items())
        return (
            json.dumps(dict(items[start : start + CHUNK_KEYS])).encode()
            for start in range(0, len(items), CHUNK_KEYS)
        )

    def load_snapshot(self, snapshot: SnapshotId) -> "ListsLoader":
        return ListsLoader(self)

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(sorted(self.lists.items())).encode()).hexdigest()[:16]


class ListsLoader:
    def __init__(self, target: Lists) -> None:
        self._target = target
        self._lists: dict[str, tuple[str, ...]] = {}

    def add(self, chunk: bytes) -> None:
        for key, values in json.loads(chunk).items():
            self._lists[key] = tuple(values)

    def install(self) -> None:
        self._target.lists = self._lists


async def answer(quorum: Quorum[int], state: Lists, request: bytes) -> bytes:
    match json.loads(request):
        case {"append": [str(key), str(value)]}:
            record = json.dumps([key, value]).encode()
            appended = await quorum.append([record], timeout_ms=CALL_TIMEOUT_MS)
            reply: object = {"offset": appended.base_offset}
        case {"read": str(key)}:
            await quorum.wait_read_index(timeout_ms=CALL_TIMEOUT_MS)
            reply = {"values": state.lists.get(key, ())}
        case {"dump": True}:
            await quorum.wait_read_index(timeout_ms=CALL_TIMEOUT_MS)
            reply = {"lists": state.lists}
        case {"status": True}:
            reply = {
                "leader": quorum.leader,
                "epoch": quorum.epoch,
                "role": quorum.role.value,
                "applied": quorum.applied_offset,
                "log_start": quorum.log.log_start_offset,
                "digest": state.digest,
                "snapshots": [snapshot.end_offset for snapshot in quorum.snapshots()],
                "voters": [[voter.key.id, voter.key.directory_id] for voter in quorum.voters],
            }
        case other:
            raise ValueError(f"nobody knows how to answer {other!r}")
    return json.dumps(reply).encode()


async def main(arguments: Arguments) -> None:
    runtime = real_runtime(sync=SyncStrategy.INLINE)
    node = NodeId(arguments.node)
    if not runtime.disk.exists(f"{arguments.folder}/meta.properties"):
        voters = VoterSet(
            tuple(
                Voter(ReplicaKey(NodeId(voter), directory), Endpoint(host, port))
                for voter, directory, host, port in arguments.first_voters
            )
        )
        await format_folder(
            runtime,
            arguments.folder,
            cluster_id=arguments.cluster_id,
            node_id=node,
            voters=voters if arguments.first_voters else None,
        )
    config = QuorumConfig(
        node_id=node,
        cluster_id=arguments.cluster_id,
        folder=arguments.folder,
        bootstrap=tuple(Endpoint(host, port) for host, port in arguments.servers),
        listen=Address(arguments.host, arguments.port),
        snapshot_max_new_bytes=arguments.snapshot_bytes,
        segment_bytes=4 * arguments.snapshot_bytes,
        retention_bytes=8 * arguments.snapshot_bytes,
        recovery_point_bytes=2 * arguments.snapshot_bytes,
    )
    state = Lists()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(end_with_input, nursery.cancel_scope)
        async with Quorum[int].open(config, state, runtime=runtime) as quorum:
            quorum.serve_requests(partial(answer, quorum, state))
            await trio.sleep_forever()


async def end_with_input(scope: trio.CancelScope) -> None:
    await trio.lowlevel.wait_readable(0)
    scope.cancel()


def text_of(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    try:
        trio.run(main, Arguments(**json.loads(sys.argv[1])))
    except Exception as failure:
        print(f"the node ended: {text_of(failure)}", file=sys.stderr, flush=True)
        sys.exit(STOPPED)
