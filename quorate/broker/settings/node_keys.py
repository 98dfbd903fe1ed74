"""The keys of a node itself: its identity, listeners, quorum, directories and endpoint for metrics."""

from dataclasses import dataclass
from typing import Final

from quorate.broker.settings.config_key import (
    LONG_MAX,
    REQUIRED,
    choices,
    flag_key,
    int_key,
    list_key,
    long_key,
    split_list,
    text_key,
)
from quorate.broker.settings.registered_names import MAX_REGISTERED_NAME
from quorate.broker.settings.setting import setting

RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_LEADER: Final = "org.apache.kafka.common.replica.LeaderSelector"


def _roles(value: str) -> None:
    roles = [role.strip() for role in value.split(",")]
    if any(role not in ("broker", "controller") for role in roles) or len(set(roles)) != len(roles):
        raise ValueError("it must be broker, controller or broker,controller")


def _rack(value: str) -> None:
    if len(value) > MAX_REGISTERED_NAME:
        raise ValueError(f"it must have {MAX_REGISTERED_NAME} characters at most")


def _selector(value: str) -> None:
    if value not in ("", _LEADER, RACK_AWARE):
        raise ValueError(f"there are {RACK_AWARE} and {_LEADER}; code of others can't be loaded")


def _or_no_limit(value: int) -> int:
    return LONG_MAX if value == -1 else value


# fmt: off
class NodeKeys:
    """The identity of a node, its listeners and the other nodes that it knows. `ServerConfig` checks these
    keys together."""

    PROCESS_ROLES: Final = list_key("process.roles", REQUIRED,
        "The roles of this node: broker, controller, or both separated by a comma.",
        check=_roles, example="broker,controller")
    NODE_ID: Final = int_key("node.id", REQUIRED,
        "The id of this node. It is unique in the cluster.", low=0, example="1")
    BROKER_ID: Final = int_key("broker.id", -1,
        "The older name of node.id. -1: not set. If both are set, they must be equal.", low=-1)
    RACK: Final = text_key("broker.rack", "",
        "The rack of this broker. Clients see it in Metadata.", check=_rack)
    REPLICA_SELECTOR: Final = text_key("replica.selector.class", "",
        "How a leader chooses the replica that a consumer reads from (KIP-392), as the name of a class of "
        f"Kafka's: {RACK_AWARE} sends a consumer with a client.rack to a replica in its rack. Empty, and "
        f"{_LEADER}: consumers read from the leader.", check=_selector)
    LISTENERS: Final = list_key("listeners", "PLAINTEXT://:9092",
        "The addresses that this node listens on: NAME://host:port, separated by commas. An empty host is "
        "every interface.")
    ADVERTISED_LISTENERS: Final = list_key("advertised.listeners", "",
        "The addresses that clients, brokers and controllers use to reach this node: NAME://host:port, "
        "separated by commas. A listener without an entry is advertised as it stands in listeners, with "
        "localhost for an empty host.")
    CONTROLLER_LISTENER_NAMES: Final = list_key("controller.listener.names", REQUIRED,
        "The name of the listener that the quorum uses.", example="CONTROLLER")
    INTER_BROKER_LISTENER: Final = text_key("inter.broker.listener.name", "",
        "The name of the listener that other brokers fetch through. Empty: the first of "
        "advertised.listeners.")
    PROTOCOL_MAP: Final = list_key("listener.security.protocol.map", "",
        "The protocol of each listener, as NAME:PROTOCOL pairs separated by commas: PLAINTEXT, SSL, "
        "SASL_PLAINTEXT or SASL_SSL. Empty: a listener with the name of a protocol has it, the others have "
        "PLAINTEXT. That of controllers, and that of brokers, is PLAINTEXT or SSL, by which nodes know each "
        "other.", kafkas="PLAINTEXT:PLAINTEXT,SSL:SSL,...")
    CONTROLLER_TLS_USE: Final = text_key("controller.tls.use", "required",
        "What the listener of the quorum demands where its protocol is SSL. accepted: it takes connections "
        "with TLS and without, and this node opens its own without. preferred: it takes both, and this node "
        "opens its own with TLS. required: only TLS. Rolling restarts take an open cluster through the "
        "three, in this order. Before required, whoever reaches the listener is believed.",
        check=choices("accepted", "preferred", "required"))
    VOTERS: Final = list_key("controller.quorum.voters", "",
        "The voters of a static quorum: id@host:port, separated by commas. The node ignores this key as soon "
        "as its log contains a voter set. Either this key or controller.quorum.bootstrap.servers is "
        "required.")
    BOOTSTRAP_SERVERS: Final = list_key("controller.quorum.bootstrap.servers", "",
        "The controllers that this node asks for the leader: host:port, separated by commas. Such a quorum "
        "keeps its voter set in the log.")


QUORUM_FETCH_TIMEOUT: Final = int_key("controller.quorum.fetch.timeout.ms", 2000,
    "The time without a successful fetch from the leader after which a voter starts an election.", low=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSettings:
    """The quorum and its log. Durations are in ms and sizes in bytes."""

    auto_join: bool = setting(flag_key("controller.quorum.auto.join.enable", False,
        "true: this controller becomes a voter as soon as it has caught up. If it is removed from the voters "
        "while it runs, it joins again."))
    election_timeout_ms: int = setting(int_key("controller.quorum.election.timeout.ms", 1000,
        "The minimum time that a candidate waits for votes, and a node without a leader waits for one, "
        "before the next election. The actual time is random, up to twice this value.", low=1))
    fetch_timeout_ms: int = setting(QUORUM_FETCH_TIMEOUT)
    election_backoff_max_ms: int = setting(int_key("controller.quorum.election.backoff.max.ms", 1000,
        "The maximum wait before an election after the leader resigned or its connection broke.", low=0))
    request_timeout_ms: int = setting(int_key("controller.quorum.request.timeout.ms", 2000,
        "The time after which a request to another node of the quorum counts as failed.", low=1))
    retry_backoff_ms: int = setting(int_key("controller.quorum.retry.backoff.ms", 20,
        "The pause after a failed request before the next request to the same node.", low=1))
    fetch_max_bytes: int = setting(int_key("controller.quorum.fetch.max.bytes", 8 << 20,
        "The maximum size of the records in one answer to a fetch of the metadata log.",
        low=1, kafkas="1048576"))
    segment_bytes: int = setting(int_key("metadata.log.segment.bytes", 1 << 30,
        "The maximum size of a segment of the metadata log.", low=1024))
    snapshot_max_new_bytes: int = setting(long_key(
        "metadata.log.max.record.bytes.between.snapshots", 20 << 20,
        "The size of new metadata records after which a node takes a snapshot.", low=1))
    snapshot_max_interval_ms: int = setting(long_key("metadata.log.max.snapshot.interval.ms", 3_600_000,
        "The maximum time between two snapshots while there are new records. 0: only the size of the records "
        "counts.", low=0))
    retention_bytes: int = setting(long_key("metadata.max.retention.bytes", 100 << 20,
        "The maximum size of the metadata log and its snapshots together. Above it the oldest snapshots are "
        "deleted, and the log that a later snapshot covers. -1: no limit.", low=-1).into(_or_no_limit))
    retention_ms: int = setting(long_key("metadata.max.retention.ms", 604_800_000,
        "The maximum age of a snapshot. Older ones are deleted, except the latest, with the log that a later "
        "snapshot covers. -1: no limit.", low=-1).into(_or_no_limit))


class DirectoryKeys:
    """The directories of a node. `ServerConfig` checks these keys together."""

    LOG_DIR: Final = text_key("log.dir", "/tmp/kafka-logs",
        "The data directory, if log.dirs is empty.").into(split_list)
    LOG_DIRS: Final = list_key("log.dirs", "",
        "The data directories, separated by commas. Empty: log.dir. If a directory fails, other brokers lead "
        "its partitions. If all have failed, or the one with the metadata log, the broker stops.")
    METADATA_LOG_DIR: Final = text_key("metadata.log.dir", "",
        "The directory of the metadata log. Empty: the first of log.dirs.")


METRICS_HOST: Final = text_key("metrics.http.host", "127.0.0.1",
    "The address of the metrics endpoint. Beyond this machine it needs TLS with a token or a truststore, or "
    "metrics.http.open.", ours=True)
METRICS_TRUSTSTORE: Final = text_key("metrics.http.ssl.truststore.location", "",
    "The file with the certificates of the authorities that vouch for scrapers: each of them has to show a "
    "certificate then. Empty: none is asked for.", ours=True)
METRICS_PAGE_PEERS: Final = list_key("metrics.http.page.peers", "",
    "Where the pages of all nodes are, such as 2@http://host:7071, separated by commas. The page links to "
    "them by the ids of nodes before the @, if there are any. A browser whose node is gone goes on with "
    "another of them.", ours=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """The endpoint for metrics."""

    port: int = setting(int_key("metrics.http.port", -1,
        "The port of the metrics endpoint. -1: no endpoint. 0: any free port.",
        low=-1, high=65_535, ours=True))
    host: str = setting(METRICS_HOST)
    keystore: str = setting(text_key("metrics.http.ssl.keystore.location", "",
        "The file with the private key and the certificates of the metrics endpoint, as PEM. It is "
        "read again when it changes. Empty: the endpoint serves HTTP without "
        "TLS.", ours=True))
    truststore: str = setting(METRICS_TRUSTSTORE)
    token_file: str = setting(text_key("metrics.http.token.location", "",
        "The file with a token that scrapers have to send (`authorization.credentials_file` of Prometheus). "
        "Only its owner may read it. It is read for each request. Empty: none is asked for.", ours=True))
    open: bool = setting(flag_key("metrics.http.open", False,
        "true: whoever reaches metrics.http.host may read the metrics.", ours=True))
    page: bool = setting(flag_key("metrics.http.page", True,
        "true: the metrics endpoint serves a page about the cluster at /, with the same protection. "
        "false: metrics and health alone.", ours=True))
    page_peers: tuple[str, ...] = setting(METRICS_PAGE_PEERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class DebugSettings:
    """What helps to find faults of a node."""

    slow_step_ms: int = setting(int_key("quorate.slow.step.ms", 0,
        "For debugging: the node logs each step of the event loop that takes at least this time, with its "
        "task and the line of code. 0: off.", low=0, ours=True))
# fmt: on
