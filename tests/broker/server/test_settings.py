"""Every key does what its row says: effective ones are read, and those without effect are not.

A key that is added to the tables and wired to nothing fails here.
"""

import ast
import dataclasses
import functools
import importlib
import pkgutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import quorate
from quorate.broker import settings
from quorate.broker.metadata.configs import effective, unclean_elections
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import Config, ConfigType
from quorate.broker.node_config.properties_file import ServerConfigError
from quorate.broker.node_config.server_config import ServerConfig
from quorate.broker.settings.all_keys import BROKER_KEYS, CONFIG_KEYS, TOPIC_KEYS
from quorate.broker.settings.config_key import INT_MAX, LONG_MAX, ConfigKey, Effect, ValueType
from quorate.broker.settings.node_keys import RACK_AWARE
from quorate.broker.settings.topic_config import TopicConfig

SOURCE = Path(str(quorate.__file__)).parent
"""The package that is imported: a planted fault is in a copy."""
NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://localhost:9093",
    "log.dirs": "/data/a",
}
OWN = [key for key in CONFIG_KEYS.values() if key.name not in BROKER_KEYS]
"""The keys that belong to a node alone."""


def parse(**changed: str) -> ServerConfig:
    values = NODE | {name.replace("__", "."): value for name, value in changed.items()}
    return ServerConfig.parse("\n".join(f"{key}={value}" for key, value in values.items()))


WITH_TOKENS = {
    "listeners": "BROKERS://:9091,CLIENTS://:9092,CONTROLLER://localhost:9093",
    "inter.broker.listener.name": "BROKERS",
    "listener.security.protocol.map": "BROKERS:PLAINTEXT,CLIENTS:SASL_SSL,CONTROLLER:PLAINTEXT",
    "ssl.keystore.location": "/secrets/node.pem",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url": "/etc/jwks.json",
    "sasl.oauthbearer.expected.issuer": "issuer",
    "sasl.oauthbearer.expected.audience": "quorate",
}
AROUND = {"sasl.oauthbearer.clock.skew.seconds": WITH_TOKENS}
"""The other keys without which a key has no part to reach."""


def config_with(name: str, value: str) -> ServerConfig:
    values = NODE | AROUND.get(name, {}) | {name: value}
    return ServerConfig.parse("\n".join(f"{key}={held}" for key, held in values.items()))


@functools.cache
def attributes_read() -> set[str]:
    """The attributes that code outside of the declarations asks for."""
    return {
        node.attr
        for path in (*sorted((SOURCE / "broker").rglob("*.py")), SOURCE / "cli" / "node" / "node_process.py")
        if path.parent.name != "settings"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }


@functools.cache
def declared() -> dict[str, set[str]]:
    """The attributes and fields of the classes of settings that have a key's value, by the key."""
    found: dict[str, set[str]] = defaultdict(set)
    for module in pkgutil.iter_modules(settings.__path__, f"{settings.__name__}."):
        for each in vars(importlib.import_module(module.name)).values():
            if not isinstance(each, type):
                continue
            for name, key in vars(each).items():
                if isinstance(key, ConfigKey):
                    found[key.name].add(name)
            for field in dataclasses.fields(each) if dataclasses.is_dataclass(each) else ():
                if "key" in field.metadata:
                    found[field.metadata["key"].name].add(field.name)
    return found


@pytest.mark.parametrize("name", [key.name for key in OWN if key.effect is Effect.EFFECTIVE])
def test_an_effective_key_of_a_node_is_read(name: str) -> None:
    assert declared()[name] & attributes_read(), (
        f"nothing reads {name}: wire it, or say in its row that it has no effect"
    )


@pytest.mark.parametrize("name", [key.name for key in OWN if key.effect is not Effect.EFFECTIVE])
def test_a_key_without_effect_has_no_field_and_states_the_reason(name: str) -> None:
    assert name not in declared(), f"{name} has a field: its row should say that it is effective"
    assert CONFIG_KEYS[name].why.endswith("."), name


FIELDS = {
    "cleanup.policy": ("cleanup_compact", "cleanup_delete"),
    "message.timestamp.type": ("log_append_time",),
    # Controllers ask `configs.unclean_elections`; brokers don't ask at all.
    "unclean.leader.election.enable": (),
}
"""By a topic's key: the fields of `TopicConfig`, where they are not of its name."""
ANOTHER = {
    "min.cleanable.dirty.ratio": "0.25",
    ValueType.BOOLEAN: "true",
    "cleanup.policy": "compact",
    "compression.gzip.level": "9",
    "compression.lz4.level": "12",
    "compression.type": "lz4",
    "compression.zstd.level": "19",
    "message.timestamp.type": "LogAppendTime",
    "follower.replication.throttled.replicas": "0:1",
    "leader.replication.throttled.replicas": "*",
}


def fields_of(key: str) -> tuple[str, ...]:
    return FIELDS.get(key, (key.replace(".", "_"),))


def test_every_effective_key_of_a_topic_is_a_field_that_is_read() -> None:
    wanted = {
        field
        for key in TOPIC_KEYS.values()
        if key.effect is Effect.EFFECTIVE
        for field in fields_of(key.name)
    }
    assert {field.name for field in dataclasses.fields(TopicConfig)} == wanted
    unread = wanted - attributes_read()
    assert not unread, f"nothing reads {sorted(unread)} of TopicConfig"


def test_unclean_elections_are_read_by_controllers() -> None:
    image = MetadataImage()
    assert not unclean_elections(image, "t", static={})
    assert unclean_elections(image, "t", static={"unclean.leader.election.enable": "true"})


@pytest.mark.parametrize("name", [key.name for key in TOPIC_KEYS.values() if key.effect is Effect.EFFECTIVE])
def test_setting_an_effective_key_of_a_topic_changes_its_fields(name: str) -> None:
    key = TOPIC_KEYS[name]
    value = ANOTHER.get(name) or ANOTHER.get(key.type) or str(int(key.initial) // 2 + 77)
    key.check(value)
    before = effective(MetadataImage(), "t", static={})
    image = MetadataImage()
    static = {each.name: value for each in key.synonyms[:1]}
    if not static:
        # A setting of topics alone.
        own = Config(resource_type=ConfigType.TOPIC, resource_name="t", name=name, value=value)
        image.apply(own, offset=0, epoch=1)
    after = effective(image, "t", static=static)
    changed = {
        field.name
        for field in dataclasses.fields(TopicConfig)
        if getattr(before, field.name) != getattr(after, field.name)
    }
    assert changed == set(fields_of(name))


def parts(config: ServerConfig) -> dict[str, Any]:
    """Return the configurations of a node's parts, by name."""
    nested = {
        field.name: getattr(config, field.name)
        for field in dataclasses.fields(config)
        if dataclasses.is_dataclass(getattr(config, field.name)) and field.name != "controller_listener"
    }
    return nested | {"quorum": config.quorum(cluster_id="c"), "listeners": dict(config.listener_security)}


def another(name: str) -> str:
    """A value that is legal and not the default."""
    key = CONFIG_KEYS[name]
    if key.type is ValueType.BOOLEAN:
        return "false" if key.initial == "true" else "true"
    return str(int(key.initial) + (7 if int(key.initial) < INT_MAX else -7))


NUMBERS = [
    key.name
    for key in OWN
    if key.effect is Effect.EFFECTIVE and key.type in (ValueType.BOOLEAN, ValueType.INT, ValueType.LONG)
    if key.name not in ("broker.id", "node.id")
]


@pytest.mark.parametrize("name", NUMBERS)
def test_setting_a_number_or_a_flag_reaches_a_part_of_the_node(name: str) -> None:
    usual = config_with(name, CONFIG_KEYS[name].initial)
    assert parts(config_with(name, another(name))) != parts(usual), f"{name} changes no part of a node"


NOT_SET = {
    "balance": set(),
    "controller": set(),
    "debug": set(),
    "groups": set(),
    "lifecycle": set(),
    "metrics": set(),
    "raft": set(),
    "replication": set(),
    "shutdown": set(),
    "topics": set(),
    "wire": {
        # Not in Kafka: the unsent bytes of a connection and the patience of the listener are tuned together.
        "frame_timeout_s",
        "max_pending_response_bytes",
        "max_pending_responses",
        "queued_max_response_bytes",
        "relief_interval_s",
        "send_timeout_s",
        "sweep_interval_s",
    },
}
"""Fields that no key of a node sets."""


@pytest.mark.parametrize("part", sorted(NOT_SET))
def test_every_field_of_a_part_can_be_set(part: str) -> None:
    changed = {name: another(name) for name in NUMBERS}
    changed["replica.selector.class"] = RACK_AWARE
    changed["metrics.http.host"] = "::1"
    changed["metrics.http.ssl.keystore.location"] = "/k.pem"
    changed["metrics.http.ssl.truststore.location"] = "/ca.pem"
    changed["metrics.http.token.location"] = "/token"
    changed["metrics.http.open"] = "true"
    changed["metrics.http.page.peers"] = "http://other:7071"
    changed["log.cleaner.io.max.bytes.per.second"] = "1000000.5"
    text = "\n".join(f"{key}={value}" for key, value in (NODE | changed).items())
    before, after = parts(parse())[part], parts(ServerConfig.parse(text))[part]
    same = {
        field.name
        for field in dataclasses.fields(before)
        if getattr(before, field.name) == getattr(after, field.name)
    }
    assert same == NOT_SET[part], f"of {part}: no key of server.properties sets these"


KAFKAS_SAMPLE = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""
"""The keys and values of Kafka 4's config/server.properties."""


def test_kafkas_sample_server_properties_works_unchanged() -> None:
    config = ServerConfig.parse(KAFKAS_SAMPLE)
    assert config.is_broker and config.is_controller
    assert config.log_dirs == ("/tmp/kraft-combined-logs",)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("authorizer.class.name=org.apache.kafka.X", "code of others can't be loaded"),
        ("zookeeper.connect=h:2181", "set process.roles"),
        ("num.replica.fetchers=4", "only 1 can be had: one fetcher per leader"),
        ("security.inter.broker.protocol=SSL", "only PLAINTEXT can be had"),
        ("remote.log.storage.system.enable=true", "there is no tiered storage"),
        ("log.flush.interval.messages=1", "acks=all counts replicas, not syncs"),
    ],
)
def test_a_key_of_a_missing_feature_is_refused_with_the_remedy(line: str, says: str) -> None:
    key, _, value = line.partition("=")
    with pytest.raises(ServerConfigError, match=r"line \d+: ") as caught:
        config_with(key, value)
    assert says in str(caught.value)


def test_producers_are_forgotten_and_leaders_brought_back_as_kafkas_keys_say() -> None:
    config = parse(
        producer__id__expiration__ms="60000",
        auto__leader__rebalance__enable="false",
        leader__imbalance__check__interval__seconds="9",
        leader__imbalance__per__broker__percentage="25",
    )
    assert config.replication.producer_id_expiration_ms == 60_000
    assert not config.balance.auto_leader_rebalance_enable
    assert config.balance.leader_imbalance_check_interval_seconds == 9
    assert config.balance.leader_imbalance_per_broker_percentage == 25


A_NUMBER, A_WHOLE_NUMBER = "it must be a number", "it must be a whole number"
BETWEEN = "it must be between {} and {}"
LONG, INT = BETWEEN.format(0, LONG_MAX), BETWEEN.format(0, INT_MAX)
NO_CLEANING: dict[str, dict[str, str]] = {
    "log.cleaner.enable": dict.fromkeys(["", "yes", "1", "True;"], "it must be true or false"),
    "log.cleaner.threads": {"-1": INT, "2147483648": INT, "1.0": A_WHOLE_NUMBER, "": A_WHOLE_NUMBER},
    "log.cleaner.io.max.bytes.per.second": {
        "0": "it must be at least 1",
        "-1": "it must be at least 1",
        "NaN": "it must be at least 1",
        "10MB": A_NUMBER,
        "1_000": A_NUMBER,
        "\u0661": A_NUMBER,
    },
    "log.cleaner.dedupe.buffer.size": {
        "1048575": BETWEEN.format(1 << 20, LONG_MAX),
        "-1": BETWEEN.format(1 << 20, LONG_MAX),
        "128MB": A_WHOLE_NUMBER,
    },
    "log.cleaner.backoff.ms": {"-1": LONG, "9223372036854775808": LONG, "15s": A_WHOLE_NUMBER},
    "log.cleaner.io.buffer.size": {"-1": INT, "2147483648": INT},
    "log.cleaner.io.buffer.load.factor": {"1.1": BETWEEN.format(0, 1), "nan": BETWEEN.format(0, 1)},
    "log.cleaner.delete.retention.ms": {"-1": LONG, "1d": A_WHOLE_NUMBER, "0x10": A_WHOLE_NUMBER},
    "log.cleaner.min.cleanable.ratio": {
        "-0.1": BETWEEN.format(0, 1),
        "50%": A_NUMBER,
        "inf": "between 0 and",
    },
    "log.cleaner.min.compaction.lag.ms": {"-1": LONG, "1e3": A_WHOLE_NUMBER},
    "log.cleaner.max.compaction.lag.ms": {"0": BETWEEN.format(1, LONG_MAX), "": A_WHOLE_NUMBER},
    "log.cleanup.policy": dict.fromkeys(
        ["", "compress", "compact;delete"], "one or more of: compact, delete"
    ),
}
"""By key: the values that are refused, and the part of the error that says which are allowed."""


def test_every_key_of_the_cleaner_has_its_bad_values() -> None:
    assert {name for name in CONFIG_KEYS if name.startswith("log.clean")} == set(NO_CLEANING)


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [(name, value, remedy) for name, values in NO_CLEANING.items() for value, remedy in values.items()],
)
def test_a_bad_value_of_the_cleaner_stops_the_start_with_its_line_and_what_may_stand_there(
    name: str, value: str, remedy: str
) -> None:
    with pytest.raises(ServerConfigError) as caught:
        config_with(name, value)
    said = str(caught.value)
    assert said.startswith(f"line {len(NODE) + 1}: {name} is {value!r}; ")
    assert remedy in said


GREATEST = {
    "log.cleaner.threads": "2147483647",
    "log.cleaner.io.max.bytes.per.second": "Infinity",
    "log.cleaner.dedupe.buffer.size": str(LONG_MAX),
    "log.cleaner.backoff.ms": str(LONG_MAX),
    "log.cleaner.delete.retention.ms": str(LONG_MAX),
    "log.cleaner.min.cleanable.ratio": "1",
    "log.cleaner.min.compaction.lag.ms": str(LONG_MAX),
    "log.cleaner.max.compaction.lag.ms": "1",
}


@pytest.mark.parametrize("name", GREATEST)
def test_the_extremes_of_the_cleaners_keys_are_taken(name: str) -> None:
    config = config_with(name, GREATEST[name])
    assert config.replication.log_cleaner_enable
    assert effective(MetadataImage(), "t", static=config.static)
