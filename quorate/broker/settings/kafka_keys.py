"""Keys of Kafka's `server.properties` that do nothing here, or that are refused.

The first are taken so that Kafka's own sample files work, each with the reason why nothing is missed. The
second ask for what quorate hasn't got: a node that ignored them would be another than its owner believes.
"""

from typing import Final

from quorate.broker.metadata import INT_MAX, ConfigKey, Effect, ValueType, never, number, only, true_or_false

_ONE_LOOP: Final = "a node has one event loop, and one thread per disk."
_SOCKETS: Final = "the operating system sizes the buffers."
_COMPACTION: Final = "quorate does not compact yet."
_NO_TRANSACTIONS: Final = "there are no transactions."
_NO_SHARE: Final = "there are no share groups."
_NO_TLS: Final = "PLAINTEXT is the only protocol; put a proxy before the listener for TLS"


def _number(name: str, default: int, low: int, doc: str, why: str) -> ConfigKey:
    return ConfigKey(
        name=name,
        type=ValueType.INT,
        default=str(default),
        check=number(low, INT_MAX),
        doc=doc,
        effect=Effect.NONE,
        why=why,
    )


def _flag(name: str, default: bool, doc: str, why: str) -> ConfigKey:
    return ConfigKey(
        name=name,
        type=ValueType.BOOLEAN,
        default=str(default).lower(),
        check=true_or_false,
        doc=doc,
        effect=Effect.NONE,
        why=why,
    )


def _only(name: str, kind: ValueType, value: str, doc: str, why: str) -> ConfigKey:
    """A key with one value, the one that holds anyway."""
    return ConfigKey(
        name=name,
        type=kind,
        default=value,
        check=only(value, why),
        doc=doc,
        effect=Effect.NONE,
        why=f"{why}.",
    )


def _refused(name: str, kind: ValueType, doc: str, why: str) -> ConfigKey:
    return ConfigKey(name=name, type=kind, default="", check=never, doc=doc, effect=Effect.REFUSED, why=why)


KAFKA_KEYS: Final = (
    # Taken
    _number("num.network.threads", 3, 1, "Threads that read and write sockets.", _ONE_LOOP),
    _number("num.io.threads", 8, 1, "Threads that work on requests.", _ONE_LOOP),
    _number("background.threads", 10, 1, "Threads for what is done from time to time.", _ONE_LOOP),
    _number("num.recovery.threads.per.data.dir", 2, 1, "Threads that open logs.", _ONE_LOOP),
    _number("queued.max.requests", 500, 1, "The most requests that wait for a thread.", _ONE_LOOP),
    _number("socket.send.buffer.bytes", 102400, -1, "The socket's send buffer.", _SOCKETS),
    _number("socket.receive.buffer.bytes", 102400, -1, "The socket's receive buffer.", _SOCKETS),
    _number("socket.listen.backlog.size", 50, 1, "Connections that wait to be accepted.", "it is 512."),
    _number(
        "controller.quorum.append.linger.ms",
        25,
        0,
        "How long an append to the metadata log waits for others to join it.",
        "an append waits for nothing.",
    ),
    _number(
        "leader.imbalance.per.broker.percentage",
        10,
        0,
        "The share of a broker's partitions that may be led elsewhere.",
        "every partition whose first replica can lead goes back to it.",
    ),
    _flag("log.cleaner.enable", True, "Whether compacted topics are compacted.", _COMPACTION),
    _number("log.cleaner.threads", 1, 0, "Threads that compact.", _COMPACTION),
    _number(
        "transaction.state.log.replication.factor",
        3,
        1,
        "Replicas of __transaction_state.",
        _NO_TRANSACTIONS,
    ),
    _number(
        "transaction.state.log.min.isr", 2, 1, "min.insync.replicas of __transaction_state.", _NO_TRANSACTIONS
    ),
    _number(
        "transaction.state.log.num.partitions", 50, 1, "Partitions of __transaction_state.", _NO_TRANSACTIONS
    ),
    _number(
        "share.coordinator.state.topic.replication.factor",
        3,
        1,
        "Replicas of __share_group_state.",
        _NO_SHARE,
    ),
    _number(
        "share.coordinator.state.topic.min.isr",
        2,
        1,
        "min.insync.replicas of __share_group_state.",
        _NO_SHARE,
    ),
    _only(
        "num.replica.fetchers",
        ValueType.INT,
        "1",
        "Fetchers per leader.",
        "one fetcher per leader follows all of its partitions; leave the key out",
    ),
    _only(
        "security.inter.broker.protocol",
        ValueType.STRING,
        "PLAINTEXT",
        "How brokers talk to each other.",
        _NO_TLS,
    ),
    _only(
        "remote.log.storage.system.enable",
        ValueType.BOOLEAN,
        "false",
        "Whether there is tiered storage.",
        "there is no tiered storage; leave the key out",
    ),
    _only(
        "offsets.topic.compression.codec",
        ValueType.INT,
        "0",
        "How offset commits are compressed.",
        "offset commits are not compressed; leave the key out",
    ),
    # Refused
    _refused(
        "authorizer.class.name",
        ValueType.CLASS,
        "The rules by which clients are let in.",
        "quorate has no ACLs, and every client may do everything; remove the line, and keep others off the "
        "listeners.",
    ),
    _refused(
        "ssl.keystore.location",
        ValueType.STRING,
        "The key of a TLS listener.",
        f"{_NO_TLS}; remove the line.",
    ),
    _refused(
        "sasl.enabled.mechanisms",
        ValueType.LIST,
        "How clients prove their names.",
        "quorate has no SASL; remove the line, and keep others off the listeners.",
    ),
    _refused(
        "zookeeper.connect",
        ValueType.STRING,
        "The address of ZooKeeper.",
        "there is no ZooKeeper; remove the line, and set process.roles and "
        "controller.quorum.bootstrap.servers.",
    ),
    _refused(
        "offsets.retention.minutes",
        ValueType.INT,
        "How long an empty group keeps its offsets.",
        "offsets of groups are kept for ever; remove the line.",
    ),
    _refused(
        "transactional.id.expiration.ms",
        ValueType.INT,
        "How long a transactional id is kept.",
        "there are no transactions; remove the line.",
    ),
)
