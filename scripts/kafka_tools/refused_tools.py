"""What is not served, and has to say so and end."""

from tools import Tools

UNSUPPORTED = r"UnsupportedVersionException|not support|not served"
WITHOUT = r"SecurityDisabledException|No Authorizer is configured"


def refused(tools: Tools) -> None:
    tools.area = "not served"
    no, stage = tools.refused, tools.stage
    consumer = ("--topic", "t", "--from-beginning", "--max-messages", "1", "--timeout-ms", "10000")
    no(
        "kafka-console-consumer, group.protocol=consumer",
        *(*consumer, "--command-property", "group.protocol=consumer"),
        reason="KIP-848",
        says=UNSUPPORTED,
    )
    no(
        "kafka-verifiable-consumer, group.protocol=consumer",
        *("--topic", "t", "--group-id", "new", "--group-protocol", "consumer", "--max-messages", "1"),
        reason="KIP-848",
        says=UNSUPPORTED,
    )
    no(
        "kafka-console-share-consumer",
        *("--topic", "t", "--max-messages", "1", "--timeout-ms", "10000"),
        reason="share groups",
        says=UNSUPPORTED,
    )
    no(
        "kafka-share-groups --describe",
        *("--describe", "--group", "s"),
        reason="share groups",
        says=UNSUPPORTED,
    )
    no(
        "kafka-streams-groups --describe",
        *("--describe", "--group", "s"),
        reason="streams groups (KIP-1071)",
        says=UNSUPPORTED,
    )
    no("kafka-transactions list", "list", reason="transactions", says=UNSUPPORTED)
    no(
        "kafka-producer-perf-test --transactional-id",
        *("--topic", "t-set", "--num-records", "10", "--record-size", "10", "--throughput", "-1"),
        *("--transactional-id", "x"),
        reason="transactions",
        says=r"transactions are not served|TransactionalIdAuthorization",
    )
    no("kafka-acls --list", "--list", reason="ACLs, without an authorizer", says=WITHOUT)
    no(
        "kafka-acls --add",
        *("--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "t"),
        reason="ACLs, without an authorizer",
        says=WITHOUT,
    )
    empty = stage.file("client.properties", "")
    no(
        "kafka-delegation-tokens --describe",
        *("--describe", "--command-config", empty),
        reason="delegation tokens",
        says=UNSUPPORTED,
    )
    tools.run(
        "kafka-configs --alter, SCRAM",
        *("--alter", "--entity-type", "users", "--entity-name", "carol"),
        *("--add-config", "SCRAM-SHA-256=[password=secret]"),
        shows={"a user has a password": r"Completed updating config for user carol"},
    )
    no(
        "kafka-client-metrics --alter",
        *("--alter", "--name", "m", "--metrics", "org.apache.kafka.", "--interval", "1000"),
        reason="client metrics",
        says=rf"{UNSUPPORTED}|InvalidRequest",
    )
    no(
        "kafka-configs --describe, client metrics",
        *("--describe", "--entity-type", "client-metrics", "--entity-name", "m"),
        reason="client metrics",
        says=rf"{UNSUPPORTED}|InvalidRequest|does ?n.t exist|does not exist",
    )
    tools.run(
        "kafka-transactions describe-producers",
        *("describe-producers", "--topic", "t-set", "--partition", "0"),
        shows={"the idempotent producer": r"^\d+\s+0\s+-1\s+\d+\s+\d+\s+None"},
    )
    tools.run(
        "kafka-transactions find-hanging",
        *("find-hanging", "--broker-id", "1"),
        shows={"none hangs": r"!^\S+\t\d"},
    )
