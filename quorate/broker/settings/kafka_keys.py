"""Keys of Kafka's `server.properties` that have no effect here, or that are refused.

Keys without effect are accepted so that Kafka's own sample files work. Each states why nothing is lost.
Refused keys request a feature that quorate lacks: a node that ignored them would not do what its operator
expects.
"""

from typing import Final

from quorate.broker.settings.config_key import (
    ConfigKey,
    ValueType,
    fixed_key,
    int_key,
    long_key,
    refused_key,
    text_key,
)

_ONE_LOOP: Final = "a node has one event loop, and starts threads for its disks as it needs them."
_SOCKETS: Final = "the operating system sizes the buffers."
_NO_TRANSACTIONS: Final = "there are no transactions."
_NO_SHARE: Final = "there are no share groups."
_TOKEN_FILE: Final = (
    "the keys of tokens are in a file, which is looked at for a login, once a second at most."
)
_NAMED: Final = "name the listener of brokers in inter.broker.listener.name, and leave the key out"

# fmt: off
THREADS: Final[tuple[ConfigKey, ...]] = (
    int_key("num.network.threads", 3,
        "The number of threads that read and write sockets.", low=1, dynamic=True, no_effect=_ONE_LOOP),
    int_key("num.io.threads", 8,
        "The number of threads that process requests.", low=1, dynamic=True, no_effect=_ONE_LOOP),
    int_key("background.threads", 10,
        "The number of threads for background tasks.", low=1, dynamic=True, no_effect=_ONE_LOOP),
    int_key("num.recovery.threads.per.data.dir", 2,
        "The number of threads that recover the logs of a directory.",
        low=1, dynamic=True, no_effect=_ONE_LOOP),
)
"""Keys that may change while brokers run, as Kafka's do, so that a tool that tunes them meets no error."""

KAFKA_KEYS: Final[tuple[ConfigKey, ...]] = (
    int_key("queued.max.requests", 500,
        "The maximum number of requests that wait for a thread.", low=1, no_effect=_ONE_LOOP),
    int_key("socket.send.buffer.bytes", 102_400,
        "The size of the send buffer of a socket.", low=-1, no_effect=_SOCKETS),
    int_key("socket.receive.buffer.bytes", 102_400,
        "The size of the receive buffer of a socket.", low=-1, no_effect=_SOCKETS),
    int_key("socket.listen.backlog.size", 50,
        "The maximum number of connections that wait to be accepted.",
        low=1, no_effect="the backlog is always 512."),
    int_key("controller.quorum.append.linger.ms", 25,
        "The time that an append to the metadata log waits for others to join its batch.",
        low=0, no_effect="an append never waits for others."),
    int_key("transaction.state.log.replication.factor", 3,
        "The number of replicas of __transaction_state.", low=1, no_effect=_NO_TRANSACTIONS),
    int_key("transaction.state.log.min.isr", 2,
        "min.insync.replicas of __transaction_state.", low=1, no_effect=_NO_TRANSACTIONS),
    int_key("transaction.state.log.num.partitions", 50,
        "The number of partitions of __transaction_state.", low=1, no_effect=_NO_TRANSACTIONS),
    int_key("share.coordinator.state.topic.replication.factor", 3,
        "The number of replicas of __share_group_state.", low=1, no_effect=_NO_SHARE),
    int_key("share.coordinator.state.topic.min.isr", 2,
        "min.insync.replicas of __share_group_state.", low=1, no_effect=_NO_SHARE),
    long_key("sasl.oauthbearer.jwks.endpoint.refresh.ms", 3_600_000,
        "The time between two looks at the keys of tokens.", low=0, no_effect=_TOKEN_FILE),
    long_key("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", 100,
        "The time before another attempt to fetch the keys of tokens.", low=0, no_effect=_TOKEN_FILE),
    long_key("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", 10_000,
        "The longest time before another attempt to fetch the keys of tokens.", low=0, no_effect=_TOKEN_FILE),
    text_key("sasl.oauthbearer.scope.claim.name", "scope",
        "The claim of a token with its scopes.", no_effect="ACLs say what a user may do."),
    fixed_key(ValueType.INT, "num.replica.fetchers", "1", "The number of fetchers per leader.",
        "one fetcher per leader follows all of its partitions; leave the key out"),
    fixed_key(ValueType.STRING, "security.inter.broker.protocol", "PLAINTEXT",
        "The protocol between brokers.", _NAMED),
    fixed_key(ValueType.BOOLEAN, "remote.log.storage.system.enable", "false",
        "true: the cluster has tiered storage.",
        "there is no tiered storage; leave the key out"),
    fixed_key(ValueType.INT, "offsets.topic.compression.codec", "0", "The compression of committed offsets.",
        "offset commits are not compressed; leave the key out"),
    refused_key(ValueType.STRING, "zookeeper.connect",
        "The address of ZooKeeper.",
        "there is no ZooKeeper; remove the line, and set process.roles and "
        "controller.quorum.bootstrap.servers."),
    refused_key(ValueType.INT, "transactional.id.expiration.ms",
        "The time that an unused transactional id is kept.",
        "there are no transactions; remove the line."),
)
# fmt: on
