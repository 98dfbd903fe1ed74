"""kafka-consumer-groups and what else knows groups."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer
from stage import Stage
from tools import Tools

TOPIC = "t"


def groups(tools: Tools) -> None:
    tools.area = "groups"
    run, stage = tools.run, tools.stage
    with _member(stage, "live"):
        run(
            "kafka-consumer-groups --list",
            "--list",
            soon=True,
            shows={"a group with members and one without": r"(?s)(^live$.*^console$|^console$.*^live$)"},
        )
        run(
            "kafka-consumer-groups --list --state",
            *("--list", "--state", "Stable"),
            soon=True,
            shows={"the group with members": r"live\s+Stable", "not the one without": r"!console"},
        )
        run(
            "kafka-consumer-groups --list --type",
            *("--list", "--type", "classic"),
            shows={"both are classic": r"(?s)(live\s+.*console\s+|console\s+.*live\s+)"},
        )
        run(
            "kafka-consumer-groups --describe",
            *("--describe", "--group", "live"),
            soon=True,
            shows={
                "offset, end offset and lag of a partition": r"live\s+t\s+\d\s+\d+\s+\d+\s+\d+\s",
                "the member that has it": r"member-1\S*\s+/127\.0\.0\.1\s+member-1",
            },
        )
        run(
            "kafka-consumer-groups --describe --members",
            *("--describe", "--group", "live", "--members", "--verbose"),
            soon=True,
            shows={"the member and its partitions": r"live\s+member-1\S*\s+/127\.0\.0\.1\s+member-1\s+6\s"},
        )
        run(
            "kafka-consumer-groups --describe --state",
            *("--describe", "--group", "live", "--state"),
            soon=True,
            shows={"coordinator, assignor, state, members": r"live\s+127\.0\.0\.1:\d+ .*range\s+Stable\s+1"},
        )
        run(
            "kafka-consumer-groups --reset-offsets of a group with members",
            *("--reset-offsets", "--group", "live", "--topic", TOPIC, "--to-earliest", "--execute"),
            shows={"it is refused": r"current state is Stable|only if the group .* is inactive"},
        )
        run(
            "kafka-consumer-groups --delete of a group with members",
            *("--delete", "--group", "live"),
            shows={"GroupNotEmptyException": r"GroupNotEmptyException|not empty"},
        )
    run(
        "kafka-consumer-groups --describe --all-groups",
        *("--describe", "--all-groups"),
        soon=True,
        shows={"both groups": r"(?s)(^live\s.*^console\s|^console\s.*^live\s)"},
    )
    for name, how in (
        ("--to-earliest", ("--to-earliest",)),
        ("--to-offset", ("--to-offset", "1")),
        ("--shift-by", ("--shift-by", "1")),
        ("--to-datetime", ("--to-datetime", "2020-01-01T00:00:00.000")),
        ("--to-latest", ("--to-latest",)),
    ):
        run(
            f"kafka-consumer-groups --reset-offsets {name}",
            *("--reset-offsets", "--group", "console", "--topic", f"{TOPIC}:1", *how, "--execute"),
            soon=True,
            shows={"the new offset": r"console\s+t\s+1\s+\d+"},
        )
    run(
        "kafka-consumer-groups --reset-offsets --dry-run",
        *("--reset-offsets", "--group", "console", "--all-topics", "--to-earliest", "--dry-run"),
        shows={"the offsets that it would have": r"console\s+t\s+1\s+\d+"},
    )
    run(
        "kafka-consumer-groups --reset-offsets --export",
        *("--reset-offsets", "--group", "console", "--all-topics", "--to-current", "--export", "--dry-run"),
        shows={"a line for each partition": r'^"?t"?,1,\d+'},
    )
    run(
        "kafka-consumer-groups --reset-offsets --from-file",
        *("--reset-offsets", "--group", "console", "--execute"),
        *("--from-file", stage.file("offsets.csv", "t,1,1\n")),
        shows={"the file's offset": r"console\s+t\s+1\s+1\b"},
    )
    run(
        "kafka-consumer-groups --delete-offsets",
        *("--delete-offsets", "--group", "console", "--topic", f"{TOPIC}:1"),
        shows={"successful for the partition": r"t\s+1\s+Successful"},
    )
    run(
        "kafka-groups --list",
        "--list",
        shows={"the groups, type and protocol": r"console\s+Classic\s+consumer"},
    )
    run(
        "kafka-consumer-groups --delete",
        *("--delete", "--group", "console"),
        shows={"the group is deleted": r"Deletion of requested consumer groups \('console'\) was successful"},
    )
    run(
        "kafka-consumer-groups --describe of a deleted one",
        *("--describe", "--group", "console"),
        shows={"it does not exist": r"GroupIdNotFoundException"},
    )
    run(
        "kafka-streams-application-reset",
        *("--application-id", "live", "--input-topics", TOPIC, "--force"),
        shows={"the topic is reset": r"Following input topics offsets will be reset to.*\n.*Topic: t"},
    )


@contextmanager
def _member(stage: Stage, group: str) -> Iterator[None]:
    """Run the only member of a group, which has read and committed. librdkafka sends heartbeats from a thread
    of its own."""
    consumer = Consumer(
        {
            "bootstrap.servers": stage.bootstrap,
            "group.id": group,
            "client.id": "member-1",
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": "range",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([TOPIC])
        message = consumer.poll(30)
        assert message is not None and message.error() is None, "the member gets nothing"
        consumer.commit(message, asynchronous=False)
        yield
    finally:
        consumer.close()
