"""The keys of `server.properties`: Kafka's, with its names and defaults, and our own."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from quorate.broker.metadata import (
    DYNAMIC_KEYS,
    INT_MAX,
    LONG_MAX,
    MAX_REGISTERED_NAME,
    TOPIC_DEFAULTS,
    ConfigKey,
    ValueType,
    anything,
    not_empty,
    number,
    true_or_false,
)
from quorate.broker.settings.kafka_keys import KAFKA_KEYS

REQUIRED: Final = None
"""The default of a key that the file must set."""


def _roles(value: str) -> None:
    roles = [role.strip() for role in value.split(",")]
    if any(role not in ("broker", "controller") for role in roles) or len(set(roles)) != len(roles):
        raise ValueError("it must be broker, controller or broker,controller")


RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_LEADER: Final = "org.apache.kafka.common.replica.LeaderSelector"


def _selector(value: str) -> None:
    if value not in ("", _LEADER, RACK_AWARE):
        raise ValueError(f"there are {RACK_AWARE} and {_LEADER}; code of others can't be loaded")


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
    """`kafkas`: Kafka's default, if it differs. `ours`: Kafka has no such key."""
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


def _flag(name: str, default: bool, doc: str, *, ours: bool = False) -> ConfigKey:
    return _key(ValueType.BOOLEAN, name, str(default).lower(), doc, true_or_false, ours=ours)


def _rack(value: str) -> None:
    if len(value) > MAX_REGISTERED_NAME:
        raise ValueError(f"it must have {MAX_REGISTERED_NAME} characters at most")


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


# fmt: off
_OWN_KEYS: Final = (
    # Who this node is
    _list("process.roles", REQUIRED,
        "The roles of this node: broker, controller, or both separated by a comma.", _roles),
    _key(ValueType.INT, "node.id", REQUIRED,
        "The id of this node. It is unique in the cluster.", number(0, INT_MAX)),
    _int("broker.id", -1, -1, "The older name of node.id. -1: not set. If both are set, they must be equal."),
    _string("broker.rack", "", "The rack of this broker. Clients see it in Metadata.", _rack),
    _string("replica.selector.class", "",
        "How a leader chooses the replica that a consumer reads from (KIP-392), as the name of a class of "
        f"Kafka's: {RACK_AWARE} sends a consumer with a client.rack to a replica in its rack. Empty, and "
        f"{_LEADER}: consumers read from the leader.", _selector),
    # Where it listens
    _list("listeners", "PLAINTEXT://:9092",
        "The addresses that this node listens on: NAME://host:port, separated by commas. An empty host is "
        "every interface."),
    _list("advertised.listeners", "",
        "The addresses that clients, brokers and controllers use to reach this node: NAME://host:port, "
        "separated by commas. A listener without an entry is advertised as it stands in listeners, with "
        "localhost for an empty host."),
    _list("controller.listener.names", REQUIRED, "The name of the listener that the quorum uses."),
    _string("inter.broker.listener.name", "",
        "The name of the listener that other brokers fetch through. Empty: the first of "
        "advertised.listeners."),
    _list("listener.security.protocol.map", "",
        "The protocol of each listener, as NAME:PROTOCOL pairs separated by commas. Only PLAINTEXT is "
        "supported. A listener without an entry uses it.", kafkas="PLAINTEXT:PLAINTEXT,SSL:SSL,..."),
    # The quorum
    _list("controller.quorum.voters", "",
        "The voters of a static quorum: id@host:port, separated by commas. The node ignores this key as soon "
        "as its log contains a voter set. Either this key or controller.quorum.bootstrap.servers is "
        "required."),
    _list("controller.quorum.bootstrap.servers", "",
        "The controllers that this node asks for the leader: host:port, separated by commas. Such a quorum "
        "keeps its voter set in the log."),
    _flag("controller.quorum.auto.join.enable", False,
        "true: this controller becomes a voter as soon as it has caught up. If it is removed from the voters "
        "while it runs, it joins again."),
    _int("controller.quorum.election.timeout.ms", 1000, 1,
        "The minimum time that a candidate waits for votes, and a node without a leader waits for one, "
        "before the next election. The actual time is random, up to twice this value."),
    _int("controller.quorum.fetch.timeout.ms", 2000, 1,
        "The time without a successful fetch from the leader after which a voter starts an election."),
    _int("controller.quorum.election.backoff.max.ms", 1000, 0,
        "The maximum wait before an election after the leader resigned or its connection broke."),
    _int("controller.quorum.request.timeout.ms", 2000, 1,
        "The time after which a request to another node of the quorum counts as failed."),
    _int("controller.quorum.retry.backoff.ms", 20, 1,
        "The pause after a failed request before the next request to the same node."),
    _int("controller.quorum.fetch.max.bytes", 8 << 20, 1,
        "The maximum size of the records in one answer to a fetch of the metadata log.", kafkas="1048576"),
    _int("metadata.log.segment.bytes", 1 << 30, 1024, "The maximum size of a segment of the metadata log."),
    _long("metadata.log.max.record.bytes.between.snapshots", 20 << 20, 1,
        "The size of new metadata records after which a node takes a snapshot."),
    _long("metadata.log.max.snapshot.interval.ms", 3_600_000, 0,
        "The maximum time between two snapshots while there are new records. 0: only the size of the records "
        "counts."),
    _long("metadata.max.retention.bytes", 100 << 20, -1,
        "The maximum size of the metadata log and its snapshots together. Above it the oldest snapshots are "
        "deleted, and the log that a later snapshot covers. -1: no limit."),
    _long("metadata.max.retention.ms", 604_800_000, -1,
        "The maximum age of a snapshot. Older ones are deleted, except the latest, with the log that a later "
        "snapshot covers. -1: no limit."),
    # Storage
    _string("log.dir", "/tmp/kafka-logs", "The data directory, if log.dirs is empty."),
    _list("log.dirs", "",
        "The data directories, separated by commas. Empty: log.dir. If a directory fails, other brokers lead "
        "its partitions. If all have failed, or the one with the metadata log, the broker stops."),
    _string("metadata.log.dir", "", "The directory of the metadata log. Empty: the first of log.dirs."),
    _long("log.close.timeout.ms", 60_000, 1,
        "The maximum time that a stopping broker waits for its disks to sync.", ours=True),
    _long("log.dir.failure.timeout.ms", 30_000, 1,
        "The time after which a broker stops if it leads partitions in a failed directory and can't report "
        "the failure to the active controller. Also the time after which a broker gives up the leadership of "
        "a partition that it can't open for lack of file descriptors, if another replica is in sync."),
    _long("log.retention.check.interval.ms", 300_000, 1,
        "The time between two checks for segments that retention deletes."),
    _long("log.flush.offset.checkpoint.interval.ms", 60_000, 0,
        "The time between two syncs of all partitions. Each ends with a checkpoint of the recovery points."),
    _long("quorate.log.scrub.interval.ms", 604_800_000, 0,
        "The time within which a broker reads each closed segment once and checks it for damage. 0: it "
        "checks a segment only when a read meets damage.", ours=True),
    _long("quorate.log.scrub.io.max.bytes.per.second", 8 << 20, 1024,
        "The maximum rate, per data directory, at which a broker reads segments to check them.", ours=True),
    _flag("log.cleaner.enable", True, "true: topics with cleanup.policy=compact are compacted."),
    DYNAMIC_KEYS["log.cleaner.threads"],
    DYNAMIC_KEYS["log.cleaner.io.max.bytes.per.second"],
    DYNAMIC_KEYS["log.cleaner.dedupe.buffer.size"],
    DYNAMIC_KEYS["log.cleaner.backoff.ms"],
    DYNAMIC_KEYS["log.cleaner.io.buffer.size"],
    DYNAMIC_KEYS["log.cleaner.io.buffer.load.factor"],
    _int("quorate.log.dir.free.warn.percent", 10, 0,
        "A broker warns once when the file system of a data directory has less than this share free, in "
        "percent. 0: it does not.", 100, ours=True),
    _long("quorate.log.dir.free.warn.bytes", 0, 0,
        "A broker warns once when the file system of a data directory has fewer bytes free. 0: it does not.",
        ours=True),
    _flag("quorate.replica.refetch.damaged", False,
        "true: a broker sets the log of a replica that is found damaged aside, and fetches it anew, as soon "
        "as enough others are in sync. false: it waits for quorate log-dirs refetch.", ours=True),
    # The brokers
    _int("num.partitions", 1, 1, "The number of partitions of a new topic, if the request gives none."),
    _int("default.replication.factor", 1, 1,
        "The number of replicas of a new topic, if the request gives none.", 32767),
    _flag("auto.create.topics.enable", True, "true: a Metadata request for an unknown topic may create it."),
    _flag("delete.topic.enable", True, "true: clients may delete topics."),
    _int("broker.heartbeat.interval.ms", 2000, 1,
        "The time between two heartbeats of a broker to the active controller."),
    _int("broker.session.timeout.ms", 9000, 1,
        "The time without a heartbeat after which the active controller fences a broker."),
    _int("initial.broker.registration.timeout.ms", 60_000, 1,
        "The time within which a starting broker must register. Otherwise it stops."),
    _int("quorate.controller.partitions.per.step", 128, 1,
        "The maximum number of partitions that the active controller changes in one step. A higher number is "
        "less work in total. A lower number delays the messages of the quorum less.", 10_000, ours=True),
    _int("quorate.controller.refusal.confirm.ms", 150, 0,
        "The time for which the address of a broker must refuse connections, after one was lost, before the "
        "active controller fences the broker as dead without waiting for its session. 0: it always waits for "
        "the session.", ours=True),
    _flag("controlled.shutdown.enable", True,
        "true: a broker transfers the leadership of its partitions before it stops."),
    _int("controlled.shutdown.timeout.ms", 10_000, 1, "The maximum time of that transfer.", ours=True),
    _flag("auto.leader.rebalance.enable", True,
        "true: the active controller elects preferred leaders (first replicas) on each broker that leads too "
        "few of the partitions that prefer it."),
    _long("leader.imbalance.check.interval.seconds", 300, 1,
        "The time between two checks for such brokers, in seconds."),
    _int("leader.imbalance.per.broker.percentage", 10, 0,
        "The percentage of the partitions that prefer a broker that others may lead. Above it the controller "
        "elects the preferred leaders. 0: others may lead none."),
    DYNAMIC_KEYS["producer.id.expiration.ms"],
    # Replication
    _long("replica.lag.time.max.ms", 30_000, 1,
        "The maximum time that a follower in the ISR may stay behind the end of the leader's log. After it, "
        "the leader removes the follower from the ISR."),
    _int("replica.fetch.wait.max.ms", 500, 0,
        "The maximum time that the leader holds the fetch of a follower if there are no new records."),
    _int("replica.fetch.min.bytes", 1, 0,
        "The minimum size of the records in the answer to a follower. The leader waits for them up to "
        "replica.fetch.wait.max.ms."),
    _int("replica.fetch.max.bytes", 1 << 20, 0,
        "The maximum size of the records of one partition in the answer to a follower. A first batch that is "
        "larger is sent whole."),
    _int("replica.fetch.response.max.bytes", 10 << 20, 0,
        "The maximum size of the records of all partitions in the answer to a follower."),
    _int("replica.fetch.backoff.ms", 1000, 0, "The maximum pause of a follower after a failed fetch."),
    _int("replica.socket.timeout.ms", 30_000, 1,
        "The time, beyond replica.fetch.wait.max.ms, after which a follower gives up an unanswered fetch."),
    _long("replica.high.watermark.checkpoint.interval.ms", 5000, 1,
        "The time between two checkpoints of the high watermarks."),
    _int("replica.fetch.backoff.min.ms", 20, 1,
        "The first pause of a follower after a failed fetch. Each failure in a row doubles it, up to "
        "replica.fetch.backoff.ms.", ours=True),
    _int("alter.partition.retry.ms", 50, 1,
        "The pause before a leader repeats a change of the ISR that did not reach the active controller.",
        ours=True),
    # Clients
    _int("socket.request.max.bytes", 100 << 20, 1,
        "The maximum size of a request, and of a produced batch after decompression."),
    DYNAMIC_KEYS["max.connections"],
    DYNAMIC_KEYS["max.connections.per.ip"],
    DYNAMIC_KEYS["max.connections.per.ip.overrides"],
    DYNAMIC_KEYS["max.connection.creation.rate"],
    _long("connections.max.idle.ms", 600_000, 1, "The time after which an idle connection is closed."),
    _long("queued.max.request.bytes", 256 << 20, 1,
        "The maximum size of all requests of a listener in memory, and of what is unpacked to check their "
        "batches. A connection waits while there is no room. Requests above 2 MiB have three quarters of it.",
        kafkas="-1"),
    _int("fetch.max.bytes", 55 << 20, 1024, "The maximum size of an answer to the fetch of a consumer."),
    _int("max.incremental.fetch.session.cache.slots", 1000, 0,
        "The maximum number of fetch sessions (KIP-227). A client without one names all its partitions in "
        "each fetch."),
    # Groups
    _int("group.min.session.timeout.ms", 6000, 1,
        "The minimum session timeout that a group member may request."),
    _int("group.max.session.timeout.ms", 1_800_000, 1,
        "The maximum session timeout that a group member may request."),
    _int("group.initial.rebalance.delay.ms", 3000, 0,
        "The time that an empty group waits for further members before its first rebalance."),
    _int("group.max.size", INT_MAX, 1, "The maximum number of members of a group."),
    _int("offset.metadata.max.bytes", 4096, 0, "The maximum size of the metadata of a committed offset."),
    _int("offsets.retention.minutes", 10_080, 1,
        "The time after which an empty group, or one that only commits, loses its committed offsets; so do "
        "the offsets of topics that no consumer of a group subscribes to any more."),
    _int("offsets.retention.check.interval.ms", 600_000, 1,
        "The time between two searches for committed offsets that have expired."),
    _int("offsets.topic.num.partitions", 50, 1, "The number of partitions of __consumer_offsets."),
    _int("offsets.topic.replication.factor", 3, 1,
        "The number of replicas of __consumer_offsets. If there are fewer brokers when it is created, each "
        "gets a replica.", 32767),
    _int("offsets.topic.segment.bytes", 100 << 20, 1, "The maximum size of a segment of __consumer_offsets."),
    _int("offsets.commit.timeout.ms", 5000, 1,
        "The maximum time that an offset commit waits for the replicas of __consumer_offsets."),
    # Ours
    _int("metrics.http.port", -1, -1,
        "The port of the metrics endpoint. -1: no endpoint. 0: any free port.", 65535, ours=True),
    _string("metrics.http.host", "127.0.0.1", "The address of the metrics endpoint.", ours=True),
    _int("quorate.slow.step.ms", 0, 0,
        "For debugging: the node logs each step of the event loop that takes at least this time, with its "
        "task and the line of code. 0: off.", ours=True),
)
# fmt: on


CONFIG_KEYS: Final[Mapping[str, ConfigKey]] = MappingProxyType(
    {key.name: key for key in (*_OWN_KEYS, *TOPIC_DEFAULTS, *KAFKA_KEYS)}
)
"""Every key by its name."""
