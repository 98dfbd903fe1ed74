"""The `quorum-state` file: what a voter must remember (KIP-595, KIP-853).

One JSON object. Kafka's version 1 fields, with the cluster and node ids added, so that a directory
that was copied or mounted in the wrong place is noticed:

    {"clusterId": "…", "nodeId": 1, "leaderId": -1, "leaderEpoch": 3, "votedId": 2,
     "votedDirectoryId": "…", "data_version": 1}

A node that may have promised a read lease stores its length in `readLeaseMs`, with data_version 2: an older
quorate would not keep the promise after a restart, so it must not start with the file.
"""

import json

from quorate.quorum_state.quorum_state_errors import (
    REPLACE,
    ForeignStateError,
    MissingStateError,
    UnknownVersionError,
    UnreadableStateError,
)
from quorate.runtime import Disk, read_file, write_file_atomically
from quorate.types import ElectionState, Epoch, NodeId, ReplicaKey

QUORUM_STATE = "quorum-state"
"""The name of the file with a node's epoch, leader and vote."""
DATA_VERSION = 1
LEASE_DATA_VERSION = 2
"""The version with the field `readLeaseMs`, written only by a node with read leases."""
_NONE = -1
_NO_DIRECTORY = "AAAAAAAAAAAAAAAAAAAAAA"


class QuorumStateFile:
    """The `quorum-state` file of one node (KIP-595).

    A store costs one sync of the file and one of its folder, which makes the rename durable. It costs nothing
    if this state is already durable.
    """

    __slots__ = ("_cluster_id", "_disk", "_durable", "_node", "_path")

    def __init__(self, disk: Disk, folder: str, *, cluster_id: str, node: NodeId) -> None:
        self._disk = disk
        self._path = f"{folder}/{QUORUM_STATE}"
        self._cluster_id = cluster_id
        self._node = node
        self._durable: ElectionState | None = None

    @property
    def path(self) -> str:
        """The path of the file."""
        return self._path

    def load(self) -> ElectionState:
        """Return the stored state. Formatting stores epoch 0 without a vote, so a missing file is always an
        error. Raises `QuorumStateError`."""
        try:
            data = read_file(self._disk, self._path)
        except FileNotFoundError:
            raise MissingStateError(
                self._path, "the file is missing, and with it the vote that this node may have given", REPLACE
            ) from None
        state = self._parse(data)
        self._durable = state
        return state

    async def store(self, state: ElectionState) -> None:
        """Store `state`. It is durable when this returns. After a `DiskError` or a cancellation, either the
        old or the new state is on disk."""
        if state == self._durable:
            return
        self._durable = None
        await write_file_atomically(self._disk, self._path, self._encode(state))
        self._durable = state

    def _encode(self, state: ElectionState) -> bytes:
        voted = state.voted
        lease = {"readLeaseMs": state.promise_ms} if state.promise_ms else {}
        return json.dumps(
            {
                "clusterId": self._cluster_id,
                "nodeId": self._node,
                "leaderId": _NONE if state.leader is None else state.leader,
                "leaderEpoch": state.epoch,
                "votedId": _NONE if voted is None else voted.id,
                "votedDirectoryId": _NO_DIRECTORY
                if voted is None or voted.directory_id is None
                else voted.directory_id,
                **lease,
                "data_version": LEASE_DATA_VERSION if lease else DATA_VERSION,
            },
            separators=(",", ":"),
        ).encode()

    def _parse(self, data: bytes) -> ElectionState:
        try:
            fields: object = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise self._unreadable(f"not valid JSON ({error})") from error
        if not isinstance(fields, dict):
            raise self._unreadable("not a JSON object")
        # First the version: what an unknown one means by the other fields is unknown too.
        version = self._integer(fields, "data_version", minimum=0)
        if version not in (DATA_VERSION, LEASE_DATA_VERSION):
            raise UnknownVersionError(
                self._path,
                f"data_version is {version}, this quorate knows {DATA_VERSION} and {LEASE_DATA_VERSION}",
                "Start the version of quorate that wrote it, or a newer one.",
            )
        cluster_id = self._text(fields, "clusterId")
        if cluster_id != self._cluster_id:
            raise ForeignStateError(
                self._path,
                f"it belongs to cluster {cluster_id}, not {self._cluster_id}",
                "Mount the right directory, or correct cluster.id.",
            )
        node = self._integer(fields, "nodeId", minimum=0)
        if node != self._node:
            raise ForeignStateError(
                self._path,
                f"it belongs to node {node}, not {self._node}",
                "Mount the right directory, or correct node.id.",
            )
        leader = self._integer(fields, "leaderId", minimum=_NONE)
        voted = self._integer(fields, "votedId", minimum=_NONE)
        directory = self._text(fields, "votedDirectoryId")
        if voted == _NONE and directory != _NO_DIRECTORY:
            raise self._unreadable("votedDirectoryId without votedId")
        return ElectionState(
            epoch=Epoch(self._integer(fields, "leaderEpoch", minimum=0)),
            leader=None if leader == _NONE else NodeId(leader),
            voted=None
            if voted == _NONE
            else ReplicaKey(NodeId(voted), None if directory == _NO_DIRECTORY else directory),
            promise_ms=0 if version == DATA_VERSION else self._integer(fields, "readLeaseMs", minimum=1),
        )

    def _integer(self, fields: dict[str, object], name: str, *, minimum: int) -> int:
        value = fields.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value < 2**31:
            raise self._unreadable(f"{name} is {value!r}, not an integer of at least {minimum}")
        return value

    def _text(self, fields: dict[str, object], name: str) -> str:
        value = fields.get(name)
        if not isinstance(value, str) or not value:
            raise self._unreadable(f"{name} is {value!r}, not a text")
        return value

    def _unreadable(self, problem: str) -> UnreadableStateError:
        return UnreadableStateError(self._path, problem, REPLACE)
