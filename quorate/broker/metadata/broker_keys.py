"""The keys of brokers that the metadata knows: those that set defaults of topics, and those that may change
while brokers run (KIP-226)."""

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from quorate.broker.metadata.config_key import (
    INT_MAX,
    LONG_MAX,
    ConfigKey,
    Effect,
    UpdateMode,
    ValueType,
    number,
    ratio,
    real_number,
    split_list,
)
from quorate.broker.metadata.topic_keys import BROKER_KEYS

_UNITS: Final = {60_000: ", in minutes", 3_600_000: ", in hours"}


def _from_topics() -> Iterator[ConfigKey]:
    for name, (key, synonym) in BROKER_KEYS.items():
        # Of the keys of one default, Kafka's brokers reload the one that counts most: the hours are static.
        dynamic = synonym is key.synonyms[0]
        yield ConfigKey(
            name=name,
            type=key.type,
            default=key.default if synonym.factor == 1 else str(int(key.initial) // synonym.factor),
            check=key.check,
            doc=f"The default of topics' {key.name}{_UNITS.get(synonym.factor, '')}. {key.doc}",
            effect=key.effect,
            why=key.why,
            update=UpdateMode.CLUSTER_WIDE if dynamic else UpdateMode.READ_ONLY,
        )


TOPIC_DEFAULTS: Final = tuple(_from_topics())
"""The keys that set topics' defaults."""


def overrides_of(text: str) -> Mapping[str, int]:
    """Parse `address:count,address:count`. Raises `ValueError` that says what is wrong."""
    found: dict[str, int] = {}
    for item in split_list(text):
        host, _, count = item.rpartition(":")
        try:
            address = str(ipaddress.ip_address(host.strip().removeprefix("[").removesuffix("]")))
        except ValueError:
            raise ValueError(f"{item!r:.60} is not address:count, with an IP address") from None
        number(0, INT_MAX)(count)
        if address in found:
            raise ValueError(f"it names {address} twice; name each address once")
        found[address] = int(count)
    return MappingProxyType(found)


def _check_overrides(text: str) -> None:
    overrides_of(text)


_ABOUT_BROKERS: Final = (
    ConfigKey(
        name="max.connections",
        type=ValueType.INT,
        default="10000",
        check=number(1, INT_MAX),
        doc="The maximum number of connections of a broker, over its listeners. At it, clients wait. A "
        "broker that connects to a listener of its own takes the place of the client that was silent for "
        "longest.",
        kafkas_default="2147483647",
        update=UpdateMode.CLUSTER_WIDE,
    ),
    ConfigKey(
        name="max.connections.per.ip",
        type=ValueType.INT,
        default=str(INT_MAX),
        check=number(1, INT_MAX),
        doc="The maximum number of connections from one address.",
        update=UpdateMode.CLUSTER_WIDE,
    ),
    ConfigKey(
        name="max.connections.per.ip.overrides",
        type=ValueType.STRING,
        default="",
        check=_check_overrides,
        doc="Other maximums for some addresses: address:count, separated by commas.",
        why="Kafka takes names of hosts too, and looks them up.",
        update=UpdateMode.CLUSTER_WIDE,
    ),
    ConfigKey(
        name="max.connection.creation.rate",
        type=ValueType.INT,
        default=str(INT_MAX),
        check=number(1, INT_MAX),
        doc="The maximum number of connections that a broker accepts per second, after a burst of ten "
        "seconds' worth. Above it, clients wait. It does not apply to a listener of brokers alone.",
        update=UpdateMode.CLUSTER_WIDE,
    ),
    ConfigKey(
        name="producer.id.expiration.ms",
        type=ValueType.INT,
        default="86400000",
        check=number(1, INT_MAX),
        doc="The time without a batch after which a partition forgets a producer.",
        update=UpdateMode.CLUSTER_WIDE,
    ),
)


def _rate(name: str, doc: str) -> ConfigKey:
    return ConfigKey(
        name=name,
        type=ValueType.LONG,
        default=str(LONG_MAX),
        check=number(0, LONG_MAX),
        doc=doc,
        update=UpdateMode.CLUSTER_WIDE,
    )


_THROTTLES: Final = (
    _rate(
        "leader.replication.throttled.rate",
        "The maximum rate of bytes that a broker, as leader, sends to the replicas that its topics list in "
        "leader.replication.throttled.replicas, while they are outside the ISR.",
    ),
    _rate(
        "follower.replication.throttled.rate",
        "The maximum rate of bytes that a broker, as follower, fetches for the replicas that its topics list "
        "in follower.replication.throttled.replicas, while they are outside the ISR.",
    ),
    _rate(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "The maximum rate of bytes that a broker copies to move replicas from one of its directories to "
        "another.",
    ),
)
"""Set while a move runs and removed after it, so no file has them, as in Kafka."""


def _rate_of_compaction(value: str) -> None:
    if not real_number(value) >= 1:
        raise ValueError("it must be at least 1")


def _cleaner(
    name: str,
    kind: ValueType,
    default: str,
    check: Callable[[str], None],
    doc: str,
    *,
    why: str = "",
    no_effect: str = "",
) -> ConfigKey:
    return ConfigKey(
        name=name,
        type=kind,
        default=default,
        check=check,
        doc=doc,
        effect=Effect.NONE if no_effect else Effect.EFFECTIVE,
        why=no_effect or why,
        update=UpdateMode.CLUSTER_WIDE,
    )


_CLEANER: Final = (
    _cleaner(
        "log.cleaner.threads",
        ValueType.INT,
        "1",
        number(0, INT_MAX),
        "The maximum number of logs that a broker compacts at once. 0: none. Each takes a part of "
        "log.cleaner.dedupe.buffer.size, of at least 1 MiB: with less, fewer are compacted at once.",
        why="Each is a task of the one event loop. Kafka refuses less than 1 MiB each, and at most doubles "
        "or halves the number in one change.",
    ),
    _cleaner(
        "log.cleaner.io.max.bytes.per.second",
        ValueType.DOUBLE,
        "1.7976931348623157E308",
        _rate_of_compaction,
        "The maximum rate of bytes that a broker reads and writes to compact logs, in all directories "
        "together.",
    ),
    _cleaner(
        "log.cleaner.dedupe.buffer.size",
        ValueType.LONG,
        "134217728",
        number(1 << 20, LONG_MAX),
        "The maximum size of the keys' table over all compactions at once. A log with more keys is compacted "
        "in several passes.",
    ),
    _cleaner(
        "log.cleaner.backoff.ms",
        ValueType.LONG,
        "15000",
        number(0, LONG_MAX),
        "The pause after no log was found to be compacted.",
    ),
    _cleaner(
        "log.cleaner.io.buffer.size",
        ValueType.INT,
        "524288",
        number(0, INT_MAX),
        "The size of the buffers for reads and writes of compaction.",
        no_effect="reads and writes of compaction have one size, and grow with a batch that is larger.",
    ),
    _cleaner(
        "log.cleaner.io.buffer.load.factor",
        ValueType.DOUBLE,
        "0.9",
        ratio,
        "The share of the keys' table that may be filled.",
        no_effect="the table grows with its keys, up to log.cleaner.dedupe.buffer.size.",
    ),
)


def _threads(name: str, default: int, low: int, doc: str, why: str) -> ConfigKey:
    return ConfigKey(
        name=name,
        type=ValueType.INT,
        default=str(default),
        check=number(low, INT_MAX),
        doc=doc,
        effect=Effect.NONE,
        why=why,
        update=UpdateMode.CLUSTER_WIDE,
    )


_ONE_LOOP: Final = "a node has one event loop, and starts threads for its disks as it needs them."
_THREADS: Final = (
    _threads("num.network.threads", 3, 1, "The number of threads that read and write sockets.", _ONE_LOOP),
    _threads("num.io.threads", 8, 1, "The number of threads that process requests.", _ONE_LOOP),
    _threads("background.threads", 10, 1, "The number of threads for background tasks.", _ONE_LOOP),
    _threads(
        "num.recovery.threads.per.data.dir",
        2,
        1,
        "The number of threads that recover the logs of a directory.",
        _ONE_LOOP,
    ),
)
"""Without effect, and changed while brokers run as Kafka's: a tool that tunes them need not know that."""

BROKER_VALUES: Final[Mapping[str, ConfigKey]] = MappingProxyType(
    {key.name: key for key in (*TOPIC_DEFAULTS, *_ABOUT_BROKERS, *_THROTTLES, *_CLEANER, *_THREADS)}
)
"""Every key of this module by its name."""
DYNAMIC_KEYS: Final[Mapping[str, ConfigKey]] = MappingProxyType(
    {name: key for name, key in BROKER_VALUES.items() if key.update is not UpdateMode.READ_ONLY}
)
"""The keys that may change while brokers run, by name."""
