"""The configuration of a node of a quorum."""

import re
from dataclasses import dataclass, field
from typing import Final

from quorate.quorum_state import EMBEDDED, ParameterNames
from quorate.raft.core import CoreConfig
from quorate.raft.quorum_errors import QuorumConfigError
from quorate.runtime import Address, TlsFiles, TlsUse
from quorate.types import Endpoint, NodeId, ReplicaKey, Voter, VoterSet

HIGH_WATERMARK_WAIT_MS: Final = 5
"""The default of `CoreConfig.high_watermark_wait_ms` for a quorum with a driver. It halves the messages of a
stream of commits: followers learn a commit with the next records, with the answer to their own append, or
after this time."""


_HOST = re.compile(r"[A-Za-z0-9_.:%-]+")
"""Names, and addresses of IPv4 and IPv6 (with a zone)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumConfig:
    """The configuration of one node of a quorum. Fields that are also keys of Kafka have Kafka's names and
    defaults. Durations are in ms, sizes in bytes. Raises `QuorumConfigError` for an invalid value."""

    node_id: NodeId
    cluster_id: str
    folder: str
    """The directory with `meta.properties`, `quorum-state`, the log and the snapshots. Only one process may
    use it."""
    voters: VoterSet = VoterSet(())
    """The static voter set (kraft.version 0). It is ignored as soon as the log or the bootstrap snapshot,
    which formatting writes, has a voter set (KIP-853)."""
    bootstrap: tuple[Endpoint, ...] = ()
    """The servers that this node asks for the leader (Kafka's `controller.quorum.bootstrap.servers`).
    Required if neither `voters` nor the folder names a voter."""
    observer: bool = False
    """True: this node is not among the static `voters` and only follows. Not needed if the voter set is in
    the log."""
    listen: Address | None = None
    """The address to listen on. None: a voter's own endpoint; an observer does not listen."""
    advertised: Endpoint | None = None
    """The endpoint that other nodes use, if it differs from `listen`."""
    client_listen: Address | None = None
    """The address to listen on for clients (`quorate.client`), which are no members of the quorum. It has its
    own limit of connections, and takes no requests of nodes. None: there are no clients."""
    tls: TlsFiles | None = None
    """The certificate of this node, its key, and the authorities of the cluster's members
    (`quorate certs create-node` makes them). All connections of the quorum and of its clients then have TLS
    1.3, with certificates on both ends: nodes believe a node's id, and serve a client, only if a certificate
    says so. Set it on every node, or on none. None: whoever reaches a listener is believed."""
    tls_use: TlsUse = TlsUse.REQUIRED
    """How far the members have come to TLS, on the way of an open quorum to a protected one by rolling
    restarts. Until it is `REQUIRED` on every node, whoever reaches a listener is believed."""
    auto_join: bool = False
    """True: the node becomes a voter as soon as it has caught up (Kafka's
    `controller.quorum.auto.join.enable`). It first removes a voter with its id and another directory. Stop
    such a node before removing it from the voters. Otherwise it joins again."""
    core: CoreConfig = field(
        default_factory=lambda: CoreConfig(high_watermark_wait_ms=HIGH_WATERMARK_WAIT_MS)
    )
    max_batch_bytes: int = 8 * 1024 * 1024
    """The maximum size of an append, and of the batch that joins concurrent appends. Each record counts 20
    bytes more than its length."""
    max_pending_bytes: int = 64 * 1024 * 1024
    """The maximum size of all appends that wait for their commit. Further appends wait for room."""
    segment_bytes: int = 1024 * 1024 * 1024
    recovery_point_bytes: int = 16 * 1024 * 1024
    """The size of appends after which the log writes its recovery point. It bounds the part that a restart
    reads and rewrites."""
    snapshot_max_new_bytes: int = 20 * 1024 * 1024
    """The size of newly applied log after which the node takes a snapshot (Kafka's
    `metadata.log.max.record.bytes.between.snapshots`)."""
    snapshot_max_interval_ms: int = 60 * 60 * 1000
    """The maximum time between two snapshots while new records are applied. 0: no limit (Kafka's
    `metadata.log.max.snapshot.interval.ms`). By the timestamps of the log there is also a snapshot in each
    interval of this length, the same on every node with this value."""
    compare_states: bool = True
    """True: snapshots have a digest, and a node stops if its state differs from that of a majority of the
    voters after the same records. False only for a `take_snapshot` of one's own that writes equal states as
    different bytes, such as a set in its own order."""
    retention_bytes: int = 100 * 1024 * 1024
    """The maximum size of log and snapshots together. Above it, the oldest of several snapshots is deleted,
    and the log below the next one (Kafka's `metadata.max.retention.bytes`)."""
    retention_ms: int = 7 * 24 * 60 * 60 * 1000
    """The maximum age of the last record of a snapshot. An older one is deleted as above, unless it is the
    latest (Kafka's `metadata.max.retention.ms`)."""
    connect_timeout_ms: int = 1000
    drain_timeout_ms: int = 1000
    """The maximum time that an orderly end of the `Quorum.open` block waits for appends in progress. New ones
    are refused then."""
    names: ParameterNames = EMBEDDED
    """The names of these parameters in messages."""
    remote_appends: bool = True
    """True: the leader accepts appends from the network, from any node or client that reaches its listener.
    False: only the program on the leader may append, and `append` elsewhere raises `NotLeaderError`. It must
    be equal on every node."""

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
        lease_ms, wait_ms = self.core.read_lease_ms, self.core.fetch_max_wait_ms
        if lease_ms and not 2 * wait_ms <= lease_ms <= self.core.fetch_timeout_ms:
            raise QuorumConfigError(
                f"read_lease_ms is {lease_ms}; choose 0 for no leases, or at least twice fetch_max_wait_ms "
                f"({wait_ms}), after which an idle leader renews them, and at most fetch_timeout_ms "
                f"({self.core.fetch_timeout_ms}), because elections wait for them"
            )
        if self.observer and self.node_id in self.voters:
            raise QuorumConfigError(
                f"node {self.node_id} is an observer (observer=True) and among voters; it can't be both"
            )
        if self.tls is None and self.tls_use is not TlsUse.REQUIRED:
            raise QuorumConfigError(
                f"tls_use is {self.tls_use.name}, and tls is None; set tls to the files of this node"
            )
        _check_endpoints(self.voters)
        if self.max_pending_bytes < self.max_batch_bytes:
            raise QuorumConfigError(
                f"max_pending_bytes ({self.max_pending_bytes}) is less than one batch may have "
                f"(max_batch_bytes is {self.max_batch_bytes}); raise it"
            )
        if self.core.fetch_max_bytes < 1:
            raise QuorumConfigError(f"fetch_max_bytes is {self.core.fetch_max_bytes}; it must be 1 or more")
        if self.snapshot_max_new_bytes < 1:
            raise QuorumConfigError(
                f"snapshot_max_new_bytes is {self.snapshot_max_new_bytes}; it must be 1 or more"
            )
        for name in ("snapshot_max_interval_ms", "retention_bytes", "retention_ms", "drain_timeout_ms"):
            if getattr(self, name) < 0:
                raise QuorumConfigError(f"{name} is {getattr(self, name)}; it must be 0 or more")
        if not 1024 <= self.max_batch_bytes <= 512 * 1024 * 1024:
            raise QuorumConfigError(f"max_batch_bytes is {self.max_batch_bytes}; choose 1 KiB to 512 MiB")

    def check_voters(self, *, in_log: bool) -> None:
        """Check that this node can find a leader, and that it votes if it is configured to. `in_log`: its
        log, or the bootstrap snapshot, has a voter set. Raises `QuorumConfigError`."""
        if in_log or self.bootstrap:
            return
        if not self.voters:
            raise QuorumConfigError(
                f"no voter is known: {self.folder} has no voters in its log, and the "
                'configuration names none; set voters=parse_voters("1@host:port,2@host:port") for a fixed '
                "set, bootstrap=(Endpoint(host, port),) to join a running quorum, or format the folder "
                "with the first voters of a new one: format_folder(..., voters=...)"
            )
        if self.node_id not in self.voters and not self.observer:
            raise QuorumConfigError(
                f"node {self.node_id} is not among voters ({text_of(self.voters)}); add "
                f"{self.node_id}@host:port there, on every node, or set observer=True if it only follows"
            )

    @property
    def listen_address(self) -> Address | None:
        """The address that this node listens on. None: it does not listen."""
        if self.listen is not None:
            return self.listen
        endpoint = self.voters.endpoint_of(self.node_id)
        return None if endpoint is None else Address(endpoint.host, endpoint.port)

    @property
    def own_endpoint(self) -> Endpoint | None:
        """The endpoint that this node tells other nodes. None: it has none."""
        if self.advertised is not None:
            return self.advertised
        configured = self.voters.endpoint_of(self.node_id)
        if configured is not None or self.listen is None:
            return configured
        return Endpoint(self.listen.host, self.listen.port)


def parse_voters(text: str) -> VoterSet:
    """Parse voters in the form of Kafka's `controller.quorum.voters`: `1@host:port,2@host:port`.

    Raises `QuorumConfigError` that names the invalid entry.
    """
    voters = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        node, separator, address_text = entry.partition("@")
        try:
            if not separator or not node.isdecimal():
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
    """Return the voters in the form that `parse_voters` reads."""
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
