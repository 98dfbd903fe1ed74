"""The keys of `server.properties`: Kafka's names and defaults, and ours in the same manner."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from quorate.broker.metadata import (
    BROKER_KEYS,
    INT_MAX,
    LONG_MAX,
    ConfigKey,
    ValueType,
    anything,
    not_empty,
    number,
    true_or_false,
)
from quorate.broker.settings.kafka_keys import KAFKA_KEYS

REQUIRED: Final = None
"""As a default: the key must be set."""


def _roles(value: str) -> None:
    roles = [role.strip() for role in value.split(",")]
    if any(role not in ("broker", "controller") for role in roles) or len(set(roles)) != len(roles):
        raise ValueError("it must be broker, controller or broker,controller")


def _key(
    kind: ValueType,
    name: str,
    default: str | None,
    doc: str,
    check: Callable[[str], None],
    *,
    kafkas: str | None = None,
    ours: bool = False,
) -> ConfigKey:
    """`kafkas`: Kafka's default, where it is another."""
    return ConfigKey(
        name=name,
        type=kind,
        default=default,
        check=check,
        doc=doc,
        kafkas_default=kafkas,
        ours=ours,
    )


def _int(
    name: str,
    default: int,
    low: int,
    doc: str,
    high: int = INT_MAX,
    *,
    kafkas: str | None = None,
    ours: bool = False,
) -> ConfigKey:
    check = number(low, high)
    return _key(ValueType.INT, name, str(default), doc, check, kafkas=kafkas, ours=ours)


def _long(
    name: str, default: int, low: int, doc: str, *, kafkas: str | None = None, ours: bool = False
) -> ConfigKey:
    check = number(low, LONG_MAX)
    return _key(ValueType.LONG, name, str(default), doc, check, kafkas=kafkas, ours=ours)


def _flag(name: str, default: bool, doc: str) -> ConfigKey:
    return _key(ValueType.BOOLEAN, name, str(default).lower(), doc, true_or_false)


def _string(
    name: str,
    default: str | None,
    doc: str,
    check: Callable[[str], None] | None = None,
    *,
    kafkas: str | None = None,
    ours: bool = False,
) -> ConfigKey:
    check = check or (not_empty if default is None else anything)
    return _key(ValueType.STRING, name, default, doc, check, kafkas=kafkas, ours=ours)


def _list(
    name: str,
    default: str | None,
    doc: str,
    check: Callable[[str], None] | None = None,
    *,
    kafkas: str | None = None,
) -> ConfigKey:
    check = check or (not_empty if default is None else anything)
    return _key(ValueType.LIST, name, default, doc, check, kafkas=kafkas)


_OWN_KEYS: Final = (
    # Who this node is
    _list("process.roles", REQUIRED, "What this node is: broker, controller or both.", _roles),
    _key(ValueType.INT, "node.id", REQUIRED, "This node's id, unique in the cluster.", number(0, INT_MAX)),
    _int("broker.id", -1, -1, "Older name of node.id; if both are set they must be equal."),
    _string("broker.rack", "", "The rack this broker is in, shown to clients."),
    # Where it listens
    _list("listeners", "PLAINTEXT://:9092", "Where to listen: NAME://host:port, separated by commas."),
    _list(
        "advertised.listeners",
        "",
        "Where clients and brokers reach this one, and other nodes this controller: NAME://host:port. "
        "Without an entry for either it is as in listeners, with localhost for an empty host.",
    ),
    _list("controller.listener.names", REQUIRED, "The listeners that the quorum uses. One name."),
    _string(
        "inter.broker.listener.name",
        "",
        "The listener that brokers fetch through; empty: the first of advertised.listeners.",
    ),
    _list(
        "listener.security.protocol.map",
        "",
        "NAME:PROTOCOL pairs. PLAINTEXT is the only protocol for now, and what a name not in the map has.",
        kafkas="PLAINTEXT:PLAINTEXT,SSL:SSL,...",
    ),
    # The quorum
    _list(
        "controller.quorum.voters",
        "",
        "The voters of a static quorum: id@host:port, separated by commas. Not looked at once the log has a "
        "voter set. One of this and controller.quorum.bootstrap.servers is required.",
    ),
    _list(
        "controller.quorum.bootstrap.servers",
        "",
        "Controllers to ask who leads: host:port, separated by commas. With it, who votes is in the log.",
    ),
    _flag(
        "controller.quorum.auto.join.enable",
        False,
        "Whether a controller becomes a voter by itself once it has caught up. One that was removed joins "
        "again while it runs.",
    ),
    _int(
        "controller.quorum.election.timeout.ms", 1000, 1, "How long to wait for a leader before asking again."
    ),
    _int("controller.quorum.fetch.timeout.ms", 2000, 1, "How long without the leader before an election."),
    _int("controller.quorum.election.backoff.max.ms", 1000, 0, "The longest wait between two elections."),
    _int("controller.quorum.request.timeout.ms", 2000, 1, "How long to wait for a peer's answer."),
    _int("controller.quorum.retry.backoff.ms", 20, 1, "The wait before a request is repeated."),
    _int(
        "controller.quorum.fetch.max.bytes",
        8 << 20,
        1,
        "The most bytes of one fetch of the metadata log.",
        kafkas="1048576",
    ),
    _int(
        "metadata.log.segment.bytes",
        1 << 30,
        1024,
        "The size at which the metadata log begins a new segment.",
    ),
    _long(
        "metadata.log.max.record.bytes.between.snapshots",
        20 << 20,
        1,
        "Take a snapshot of the metadata after so many bytes of new records.",
    ),
    _long(
        "metadata.log.max.snapshot.interval.ms",
        3_600_000,
        0,
        "The longest time between two snapshots while there are new records; 0: snapshots go by bytes alone.",
    ),
    _long(
        "metadata.max.retention.bytes",
        100 << 20,
        -1,
        "While the metadata log and its snapshots have more, what a later snapshot holds is deleted; -1: no "
        "limit.",
    ),
    _long(
        "metadata.max.retention.ms",
        604_800_000,
        -1,
        "Snapshots older than this are deleted, and the log before them; -1: no limit.",
    ),
    # Storage
    _string("log.dir", "/tmp/kafka-logs", "The data folder, where log.dirs is not set."),
    _list(
        "log.dirs",
        "",
        "The data folders, separated by commas; empty: log.dir. One that fails is not used any more, and "
        "other brokers lead what was in it; the broker stops when all have failed, or the one with the "
        "metadata.",
    ),
    _string("metadata.log.dir", "", "The folder of the metadata log; empty: the first of log.dirs."),
    _long(
        "log.close.timeout.ms",
        60_000,
        1,
        "How long a stopping broker gives its disks to sync everything, before it goes without.",
        ours=True,
    ),
    _long(
        "log.dir.failure.timeout.ms",
        30_000,
        1,
        "How long a broker may be unable to tell the controller that a folder of log.dirs has failed, while "
        "it leads partitions in it, before it stops. Also how long it leads a partition whose log it can't "
        "open for want of file descriptors, if another replica is in sync.",
    ),
    _long(
        "log.retention.check.interval.ms",
        300_000,
        1,
        "How often segments are checked against the retention, in ms.",
    ),
    _long(
        "log.flush.offset.checkpoint.interval.ms", 60_000, 0, "How often recovery points are written, in ms."
    ),
    # The brokers
    _int("num.partitions", 1, 1, "Partitions of a topic that is created without a number."),
    _int("default.replication.factor", 1, 1, "Replicas of a topic that is created without a number.", 32767),
    _flag("auto.create.topics.enable", True, "Whether asking for a topic's metadata may create it."),
    _flag("delete.topic.enable", True, "Whether topics may be deleted."),
    _int("broker.heartbeat.interval.ms", 2000, 1, "How often a broker heartbeats to the controller."),
    _int("broker.session.timeout.ms", 9000, 1, "After how long without heartbeat a broker is fenced."),
    _int("initial.broker.registration.timeout.ms", 60_000, 1, "How long a broker may take to register."),
    _int(
        "quorate.controller.partitions.per.step",
        128,
        1,
        "How many partitions the controller changes in one step. More is less work in all; fewer lets "
        "the quorum's messages pass sooner.",
        10_000,
        ours=True,
    ),
    _flag("controlled.shutdown.enable", True, "Whether a broker hands its partitions over before it stops."),
    _int("controlled.shutdown.timeout.ms", 10_000, 1, "How long that may take.", ours=True),
    _flag(
        "auto.leader.rebalance.enable",
        True,
        "Whether partitions are given back to their first replica once that can lead again.",
    ),
    _long("leader.imbalance.check.interval.seconds", 300, 1, "How often that is looked at, in seconds."),
    _long(
        "producer.id.expiration.ms",
        86_400_000,
        1,
        "After how long without a batch a partition forgets a producer.",
    ),
    # Replication
    _long(
        "replica.lag.time.max.ms", 30_000, 1, "A follower that was not caught up for so long leaves the ISR."
    ),
    _int("replica.fetch.wait.max.ms", 500, 0, "The longest that a follower's fetch waits at the leader."),
    _int("replica.fetch.min.bytes", 1, 0, "The least bytes for which a leader answers a follower's fetch."),
    _int("replica.fetch.max.bytes", 1 << 20, 0, "The most bytes of one partition in a follower's fetch."),
    _int("replica.fetch.response.max.bytes", 10 << 20, 0, "The most bytes of a whole follower's fetch."),
    _int(
        "replica.fetch.backoff.ms",
        1000,
        0,
        "The wait before a partition whose fetch failed is fetched again.",
    ),
    _int(
        "replica.socket.timeout.ms",
        30_000,
        1,
        "How long a follower waits for an answer beyond the fetch wait.",
    ),
    _long("replica.high.watermark.checkpoint.interval.ms", 5000, 1, "How often high watermarks are written."),
    _int(
        "replica.fetch.backoff.min.ms",
        20,
        1,
        "The first wait before a fetch that failed is repeated; it doubles up to replica.fetch.backoff.ms.",
        ours=True,
    ),
    _int("alter.partition.retry.ms", 50, 1, "The wait before a leader proposes an ISR again.", ours=True),
    # Clients
    _int(
        "socket.request.max.bytes",
        100 << 20,
        1,
        "The largest request, and the most that a produced batch may become when it is decompressed.",
    ),
    _int("max.connections", 10_000, 1, "The most client connections of a listener.", kafkas="2147483647"),
    _int(
        "max.connections.per.ip",
        INT_MAX,
        1,
        "The most client connections of one address.",
    ),
    _long("connections.max.idle.ms", 600_000, 1, "After how long an idle connection is closed."),
    _long("queued.max.request.bytes", 256 << 20, 1, "The most bytes of requests in memory.", kafkas="-1"),
    _int("fetch.max.bytes", 55 << 20, 1024, "The most bytes of an answer to a consumer's fetch."),
    # Groups
    _int("group.min.session.timeout.ms", 6000, 1, "The least session timeout that a member may ask for."),
    _int(
        "group.max.session.timeout.ms", 1_800_000, 1, "The largest session timeout that a member may ask for."
    ),
    _int(
        "group.initial.rebalance.delay.ms", 3000, 0, "How long an empty group waits for more members to join."
    ),
    _int("group.max.size", INT_MAX, 1, "The most members of a group."),
    _int("offset.metadata.max.bytes", 4096, 0, "The longest metadata of a committed offset."),
    _int("offsets.topic.num.partitions", 50, 1, "Partitions of __consumer_offsets."),
    _int(
        "offsets.topic.replication.factor",
        3,
        1,
        "Replicas of __consumer_offsets; fewer if there are not so many brokers when it is created.",
        32767,
    ),
    _int("offsets.topic.segment.bytes", 100 << 20, 1, "The segment size of __consumer_offsets."),
    _int("offsets.commit.timeout.ms", 5000, 1, "How long a commit may wait for its replicas."),
    # Ours
    _int(
        "metrics.http.port", -1, -1, "The port of /metrics; -1: none, 0: any that is free.", 65535, ours=True
    ),
    _string("metrics.http.host", "127.0.0.1", "The address of /metrics.", ours=True),
    _int(
        "quorate.slow.step.ms",
        0,
        0,
        "For debugging: log every step of the event loop that takes so long or longer, with its task and "
        "place; 0: none, and no cost.",
        ours=True,
    ),
)


def _from_topics() -> Iterator[ConfigKey]:
    """The keys that set topics' defaults, as the controller knows them."""
    for name, (key, synonym) in BROKER_KEYS.items():
        yield ConfigKey(
            name=name,
            type=key.type,
            default=key.default if synonym.factor == 1 else "",
            check=key.check,
            doc=f"Default of topics' {key.name}. {key.doc}",
            effect=key.effect,
            why=key.why,
        )


CONFIG_KEYS: Final[Mapping[str, ConfigKey]] = MappingProxyType(
    {key.name: key for key in (*_OWN_KEYS, *_from_topics(), *KAFKA_KEYS)}
)
"""Every key by its name."""
