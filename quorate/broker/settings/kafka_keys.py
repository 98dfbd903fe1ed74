"""Keys of Kafka's `server.properties` that have no effect here, or that are refused.

Keys without effect are accepted so that Kafka's own sample files work. Each states why nothing is lost.
Refused keys request a feature that quorate lacks: a node that ignored them would not do what its operator
expects.
"""

from typing import Final

from quorate.broker.metadata import (
    DYNAMIC_KEYS,
    INT_MAX,
    ConfigKey,
    Effect,
    ValueType,
    never,
    number,
    only,
    true_or_false,
)

_ONE_LOOP: Final = "a node has one event loop, and starts threads for its disks as it needs them."
_SOCKETS: Final = "the operating system sizes the buffers."
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
    """A key that accepts only the value that already holds."""
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
    # Without effect
    DYNAMIC_KEYS["num.network.threads"],
    DYNAMIC_KEYS["num.io.threads"],
    DYNAMIC_KEYS["background.threads"],
    DYNAMIC_KEYS["num.recovery.threads.per.data.dir"],
    _number(
        "queued.max.requests", 500, 1, "The maximum number of requests that wait for a thread.", _ONE_LOOP
    ),
    _number("socket.send.buffer.bytes", 102400, -1, "The size of the send buffer of a socket.", _SOCKETS),
    _number(
        "socket.receive.buffer.bytes", 102400, -1, "The size of the receive buffer of a socket.", _SOCKETS
    ),
    _number(
        "socket.listen.backlog.size",
        50,
        1,
        "The maximum number of connections that wait to be accepted.",
        "the backlog is always 512.",
    ),
    _number(
        "controller.quorum.append.linger.ms",
        25,
        0,
        "The time that an append to the metadata log waits for others to join its batch.",
        "an append never waits for others.",
    ),
    _number(
        "transaction.state.log.replication.factor",
        3,
        1,
        "The number of replicas of __transaction_state.",
        _NO_TRANSACTIONS,
    ),
    _number(
        "transaction.state.log.min.isr", 2, 1, "min.insync.replicas of __transaction_state.", _NO_TRANSACTIONS
    ),
    _number(
        "transaction.state.log.num.partitions",
        50,
        1,
        "The number of partitions of __transaction_state.",
        _NO_TRANSACTIONS,
    ),
    _number(
        "share.coordinator.state.topic.replication.factor",
        3,
        1,
        "The number of replicas of __share_group_state.",
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
        "The number of fetchers per leader.",
        "one fetcher per leader follows all of its partitions; leave the key out",
    ),
    _only(
        "security.inter.broker.protocol",
        ValueType.STRING,
        "PLAINTEXT",
        "The protocol between brokers.",
        _NO_TLS,
    ),
    _only(
        "remote.log.storage.system.enable",
        ValueType.BOOLEAN,
        "false",
        "true: the cluster has tiered storage.",
        "there is no tiered storage; leave the key out",
    ),
    _only(
        "offsets.topic.compression.codec",
        ValueType.INT,
        "0",
        "The compression of committed offsets.",
        "offset commits are not compressed; leave the key out",
    ),
    # Refused
    _refused(
        "authorizer.class.name",
        ValueType.CLASS,
        "The class that authorizes requests.",
        "quorate has no ACLs, and every client may do everything; remove the line, and keep others off the "
        "listeners.",
    ),
    _refused(
        "ssl.keystore.location",
        ValueType.STRING,
        "The keystore of TLS listeners.",
        f"{_NO_TLS}; remove the line.",
    ),
    _refused(
        "sasl.enabled.mechanisms",
        ValueType.LIST,
        "The SASL mechanisms that clients may use.",
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
        "transactional.id.expiration.ms",
        ValueType.INT,
        "The time that an unused transactional id is kept.",
        "there are no transactions; remove the line.",
    ),
)
