"""kafka-configs."""

from collections.abc import Mapping, Sequence

from tools import Tools


def configs(tools: Tools) -> None:
    tools.area = "configs"
    run = tools.run
    topic = ("--entity-type", "topics", "--entity-name", "t-set")
    broker = ("--entity-type", "brokers", "--entity-name", "1")
    brokers = ("--entity-type", "brokers", "--entity-default")
    group = ("--entity-type", "groups", "--entity-name", "configured")
    run(
        "kafka-configs --describe, topic",
        *("--describe", *topic),
        shows={
            "its settings": r"retention\.ms=3600000",
            "where they come from": r"synonyms=\{DYNAMIC_TOPIC_CONFIG:retention\.ms=3600000",
            "no others": r"!flush\.ms",
        },
    )
    run(
        "kafka-configs --describe --all, topic",
        *("--describe", "--all", *topic),
        shows={
            "defaults too": r"max\.message\.bytes=\d+",
            "where they come from": r"min\.insync\.replicas=2.*STATIC_BROKER_CONFIG:min\.insync\.replicas=2",
        },
    )
    run(
        "kafka-configs --alter --add-config, topic",
        *("--alter", *topic, "--add-config", "max.message.bytes=65536,cleanup.policy=[compact,delete]"),
        shows={"it is done": r"Completed updating config for topic t-set\."},
    )
    run(
        "kafka-configs --describe, topic, afterwards",
        *("--describe", *topic),
        soon=True,
        shows={"the new values": r"(?s)(?=.*max\.message\.bytes=65536)(?=.*cleanup\.policy=compact,delete)"},
    )
    run(
        "kafka-configs --alter --delete-config, topic",
        *("--alter", *topic, "--delete-config", "max.message.bytes,cleanup.policy"),
        shows={"it is done": r"Completed updating config for topic t-set\."},
    )
    run(
        "kafka-configs --describe, topic, without them",
        *("--describe", *topic),
        soon=True,
        shows={"only the first ones": r"!max\.message\.bytes|cleanup\.policy"},
    )
    run(
        "kafka-configs --alter with a bad value",
        *("--alter", *topic, "--add-config", "retention.ms=soon"),
        code=1,
        shows={"InvalidConfigurationException": r"InvalidConfigurationException|Invalid value soon"},
    )
    run(
        "kafka-configs --describe --all, broker",
        *("--describe", "--all", *broker),
        shows={
            "its id": r"node\.id=1 sensitive=false synonyms=\{STATIC_BROKER_CONFIG:node\.id=1",
            "its addresses": r"advertised\.listeners=PLAINTEXT://",
        },
    )
    retention, threads = "log.retention.ms=500000000", "log.cleaner.threads=2"
    session = "consumer.session.timeout.ms=50000"
    own = {"the value": f"{retention}.*DYNAMIC_BROKER_CONFIG:{retention}"}
    change(tools, "broker", broker, retention, r"config for broker 1\.", own)
    done = r"default config for brokers in the cluster\."
    change(tools, "all brokers", brokers, threads, done, {"the value": threads})
    done = r"config for group configured\."
    change(tools, "group", group, session, done, {"the value": session}, stays=True)
    run(
        "kafka-configs --describe, broker loggers",
        *("--describe", "--entity-type", "broker-loggers", "--entity-name", "1"),
        shows={"a level": r"=(INFO|DEBUG|WARN|ERROR)"},
    )
    quotas(tools)


def change(
    tools: Tools,
    whose: str,
    entity: Sequence[str],
    setting: str,
    done: str,
    shows: Mapping[str, str],
    *,
    stays: bool = False,
) -> None:
    """Set a setting of an entity, describe it, and delete it unless it `stays`."""
    changed = {"it is done": f"Completed updating {done}"}
    add = ("--alter", *entity, "--add-config", setting)
    tools.run(f"kafka-configs --alter, {whose}", *add, shows=changed)
    tools.run(f"kafka-configs --describe, {whose}", "--describe", *entity, soon=True, shows=shows)
    if not stays:
        delete = ("--alter", *entity, "--delete-config", setting.partition("=")[0])
        tools.run(f"kafka-configs --alter --delete-config, {whose}", *delete, shows=changed)


def quotas(tools: Tools) -> None:
    for whose, kind, name, quota in (
        ("a user", "users", ("--entity-name", "alice"), "producer_byte_rate=1000000"),
        ("the default user", "users", ("--entity-default",), "consumer_byte_rate=2000000"),
        ("a client id", "clients", ("--entity-name", "app"), "request_percentage=50"),
        ("an address", "ips", ("--entity-name", "127.0.0.9"), "connection_creation_rate=100"),
    ):
        entity = ("--entity-type", kind, *name)
        done = r"(default )?config for"
        change(tools, f"quota of {whose}", entity, quota, done, {"the quota": quota})
