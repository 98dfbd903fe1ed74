"""How a node takes part in a quorum."""

import re
from dataclasses import dataclass, field
from typing import Final

from quorate.quorum_state import EMBEDDED, ParameterNames
from quorate.raft.core import CoreConfig
from quorate.raft.errors import QuorumConfigError
from quorate.runtime import Address
from quorate.types import Endpoint, NodeId, ReplicaKey, Voter, VoterSet

HIGH_WATERMARK_WAIT_MS: Final = 5
"""Takes half the messages off a stream of commits: followers learn of a commit with the next records, by the
answer to an append of theirs, or so much later."""


_HOST = re.compile(r"[A-Za-z0-9_.:%-]+")
"""Names, and addresses of IPv4 and IPv6 (with a zone)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumConfig:
    """One node's part in a quorum. Keys of the same meaning carry Kafka's names."""

    node_id: NodeId
    cluster_id: str
    folder: str
    """Holds `meta.properties`, `quorum-state` and the log; one node and process at a time."""
    voters: VoterSet = VoterSet(())
    """The static set (kraft.version 0). Not looked at once the log, or the bootstrap snapshot that formatting
    wrote, has voters (KIP-853)."""
    bootstrap: tuple[Endpoint, ...] = ()
    """Servers to ask for the leader (Kafka's `controller.quorum.bootstrap.servers`). A node that finds no
    voters in its folder needs them."""
    observer: bool = False
    """This node only follows: `voters` are others. Needs not be said where the voters are in the log."""
    listen: Address | None = None
    """Where to accept other nodes; by default a voter's own endpoint. An observer needs none."""
    advertised: Endpoint | None = None
    """Where others reach this node, if that is not where it listens."""
    auto_join: bool = False
    """Become a voter by itself, once it has caught up (Kafka's `controller.quorum.auto.join.enable`). A voter
    of the same id on another disk is removed first. Remove such a node only after stopping it, or it joins
    again."""
    core: CoreConfig = field(
        default_factory=lambda: CoreConfig(high_watermark_wait_ms=HIGH_WATERMARK_WAIT_MS)
    )
    max_batch_bytes: int = 8 * 1024 * 1024
    """Largest append, and largest batch that concurrent appends are joined into; each record counts for 20
    bytes more than it has."""
    max_pending_bytes: int = 64 * 1024 * 1024
    """Bytes of appends that may wait for their commit before further ones wait for room."""
    segment_bytes: int = 1024 * 1024 * 1024
    recovery_point_bytes: int = 16 * 1024 * 1024
    """After how many appended bytes the log writes its recovery point, which bounds what a restart has to
    read and rewrite."""
    snapshot_max_new_bytes: int = 20 * 1024 * 1024
    """Take a snapshot after so many bytes of applied log (Kafka's
    `metadata.log.max.record.bytes.between.snapshots`)."""
    snapshot_max_interval_ms: int = 60 * 60 * 1000
    """Or after so long, if anything was applied since the last one; 0 for never (Kafka's
    `metadata.log.max.snapshot.interval.ms`)."""
    retention_bytes: int = 100 * 1024 * 1024
    """While log and snapshots have more, the oldest of several snapshots and the log before the next go
    (Kafka's `metadata.max.retention.bytes`)."""
    retention_ms: int = 7 * 24 * 60 * 60 * 1000
    """So do a snapshot whose last record is older, and the log before the next (Kafka's
    `metadata.max.retention.ms`)."""
    connect_timeout_ms: int = 1000
    drain_timeout_ms: int = 1000
    """How long the orderly end of the `Quorum.open` block waits for appends that are under way. New ones are
    refused meanwhile."""
    names: ParameterNames = EMBEDDED
    """What messages call these parameters."""
    remote_appends: bool = True
    """Take appends that come over the network: from nodes that do not lead, and from whoever reaches the
    listener. Without, only the program on the leader appends, and `append` on another node raises
    `NotLeaderError`. The same on every node."""

    def __post_init__(self) -> None:
        if self.node_id < 0:
            raise QuorumConfigError(f"node_id is {self.node_id}; it must be 0 or more")
        if not self.cluster_id:
            raise QuorumConfigError("cluster_id is empty; choose one, the same on every node")
        if self.core.fetch_timeout_ms < 2 * self.core.fetch_max_wait_ms:
            raise QuorumConfigError(
                f"fetch_timeout_ms ({self.core.fetch_timeout_ms}) must be at least twice fetch_max_wait_ms "
                f"({self.core.fetch_max_wait_ms}), or a healthy but idle leader looks dead"
            )
        if self.observer and self.node_id in self.voters:
            raise QuorumConfigError(
                f"node {self.node_id} is an observer (observer=True) and among voters; it can't be both"
            )
        _check_endpoints(self.voters)
        if self.max_pending_bytes < self.max_batch_bytes:
            raise QuorumConfigError(
                f"max_pending_bytes ({self.max_pending_bytes}) is less than one batch may have "
                f"(max_batch_bytes is {self.max_batch_bytes}); raise it"
            )
        if self.core.fetch_max_bytes < 1:
            raise QuorumConfigError(
                f"fetch_max_bytes is {self.core.fetch_max_bytes}; a follower has to ask for something"
            )
        if self.snapshot_max_new_bytes < 1:
            raise QuorumConfigError(
                f"snapshot_max_new_bytes is {self.snapshot_max_new_bytes}; a snapshot needs something new: 1 "
                "or more"
            )
        for name in ("snapshot_max_interval_ms", "retention_bytes", "retention_ms", "drain_timeout_ms"):
            if getattr(self, name) < 0:
                raise QuorumConfigError(f"{name} is {getattr(self, name)}; it must be 0 or more")
        if not 1024 <= self.max_batch_bytes <= 512 * 1024 * 1024:
            raise QuorumConfigError(f"max_batch_bytes is {self.max_batch_bytes}; choose 1 KiB to 512 MiB")

    def check_voters(self, *, in_log: bool) -> None:
        """Raises `QuorumConfigError` if this node could never know a leader, or would follow where it was
        meant to vote. `in_log`: the folder's log, or what formatting wrote, names the voters."""
        if in_log or self.bootstrap:
            return
        if not self.voters:
            raise QuorumConfigError(
                f"nobody is known who could lead: {self.folder} has no voters in its log, and the "
                'configuration names none; set voters=parse_voters("1@host:port,2@host:port") for a fixed '
                "set, bootstrap=(Endpoint(host, port),) to join a quorum that runs, or format the folder "
                "with the first voters of a new one: format_folder(..., voters=...)"
            )
        if self.node_id not in self.voters and not self.observer:
            raise QuorumConfigError(
                f"node {self.node_id} is not among voters ({text_of(self.voters)}); add "
                f"{self.node_id}@host:port there, on every node, or set observer=True if it is only to follow"
            )

    @property
    def listen_address(self) -> Address | None:
        if self.listen is not None:
            return self.listen
        endpoint = self.voters.endpoint_of(self.node_id)
        return None if endpoint is None else Address(endpoint.host, endpoint.port)

    @property
    def own_endpoint(self) -> Endpoint | None:
        """What others are told."""
        if self.advertised is not None:
            return self.advertised
        configured = self.voters.endpoint_of(self.node_id)
        if configured is not None or self.listen is None:
            return configured
        return Endpoint(self.listen.host, self.listen.port)


def parse_voters(text: str) -> VoterSet:
    """From Kafka's `controller.quorum.voters` form: `1@host:port,2@host:port`.

    Raises `QuorumConfigError` naming the entry that is wrong.
    """
    voters = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        node, separator, address_text = entry.partition("@")
        try:
            if not separator or not node.isdigit():
                raise ValueError("the part before '@' must be a node id")
            address = Address.parse(address_text)
            if not _HOST.fullmatch(address.host):
                raise ValueError(f"{address.host!r} is no host; separate voters by commas")
        except ValueError as error:
            raise QuorumConfigError(f"voter {entry!r}: {error}; write id@host:port") from error
        voters.append(Voter(key=ReplicaKey(NodeId(int(node))), endpoint=Endpoint(address.host, address.port)))
    voters.sort(key=lambda voter: voter.key.id)
    try:
        found = VoterSet(tuple(voters))
    except ValueError as error:
        raise QuorumConfigError(f"voters {text!r}: {error}") from error
    _check_endpoints(found)
    return found


def text_of(voters: VoterSet) -> str:
    """As `parse_voters` reads it."""
    return ",".join(f"{each.key.id}@{Address(each.endpoint.host, each.endpoint.port)}" for each in voters)


def _check_endpoints(voters: VoterSet) -> None:
    held: dict[Endpoint, NodeId] = {}
    for voter in voters:
        other = held.setdefault(voter.endpoint, voter.key.id)
        if other != voter.key.id:
            raise QuorumConfigError(
                f"voters {other} and {voter.key.id} have the same endpoint, "
                f"{Address(voter.endpoint.host, voter.endpoint.port)}; give each its own"
            )
