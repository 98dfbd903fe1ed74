"""kafka-configs."""

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
    run(
        "kafka-configs --alter, broker",
        *("--alter", *broker, "--add-config", "log.retention.ms=500000000"),
        shows={"it is done": r"Completed updating config for broker 1\."},
    )
    run(
        "kafka-configs --describe, broker",
        *("--describe", *broker),
        soon=True,
        shows={
            "the value": r"log\.retention\.ms=500000000.*DYNAMIC_BROKER_CONFIG:log\.retention\.ms=500000000"
        },
    )
    run(
        "kafka-configs --alter --delete-config, broker",
        *("--alter", *broker, "--delete-config", "log.retention.ms"),
        shows={"it is done": r"Completed updating config for broker 1\."},
    )
    run(
        "kafka-configs --alter, all brokers",
        *("--alter", *brokers, "--add-config", "log.cleaner.threads=2"),
        shows={"it is done": r"Completed updating default config for brokers in the cluster\."},
    )
    run(
        "kafka-configs --describe, all brokers",
        *("--describe", *brokers),
        soon=True,
        shows={"the value": r"log\.cleaner\.threads=2"},
    )
    run(
        "kafka-configs --alter --delete-config, all brokers",
        *("--alter", *brokers, "--delete-config", "log.cleaner.threads"),
        shows={"it is done": r"Completed updating default config for brokers in the cluster\."},
    )
    run(
        "kafka-configs --alter, group",
        *("--alter", *group, "--add-config", "consumer.session.timeout.ms=50000"),
        shows={"it is done": r"Completed updating config for group configured\."},
    )
    run(
        "kafka-configs --describe, group",
        *("--describe", *group),
        soon=True,
        shows={"the value": r"consumer\.session\.timeout\.ms=50000"},
    )
    run(
        "kafka-configs --describe, broker loggers",
        *("--describe", "--entity-type", "broker-loggers", "--entity-name", "1"),
        shows={"a level": r"=(INFO|DEBUG|WARN|ERROR)"},
    )
    quotas(tools)


def quotas(tools: Tools) -> None:
    run = tools.run
    alice = ("--entity-type", "users", "--entity-name", "alice")
    everybody = ("--entity-type", "users", "--entity-default")
    client = ("--entity-type", "clients", "--entity-name", "app")
    address = ("--entity-type", "ips", "--entity-name", "127.0.0.9")
    for whose, entity, quota in (
        ("a user", alice, "producer_byte_rate=1000000"),
        ("the default user", everybody, "consumer_byte_rate=2000000"),
        ("a client id", client, "request_percentage=50"),
        ("an address", address, "connection_creation_rate=100"),
    ):
        run(
            f"kafka-configs --alter, quota of {whose}",
            *("--alter", *entity, "--add-config", quota),
            shows={"it is done": r"Completed updating (default )?config for"},
        )
        key, _, value = quota.partition("=")
        run(
            f"kafka-configs --describe, quota of {whose}",
            *("--describe", *entity),
            soon=True,
            shows={"the quota": rf"{key}={value}"},
        )
        run(
            f"kafka-configs --alter --delete-config, quota of {whose}",
            *("--alter", *entity, "--delete-config", key),
            shows={"it is done": r"Completed updating (default )?config for"},
        )
