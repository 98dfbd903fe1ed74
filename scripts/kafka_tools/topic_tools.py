"""kafka-topics, and what writes and reads a topic."""

import re

from stage import Stage
from tools import Tools


def topics(tools: Tools) -> None:
    tools.area = "topics"
    run, stage = tools.run, tools.stage
    run(
        "kafka-broker-api-versions",
        shows={
            "three brokers": r"(?s)(?=.*\(id: 1 )(?=.*\(id: 2 )(?=.*\(id: 3 )",
            "Fetch's versions": r"Fetch\(1\): 4 to \d+",
        },
    )
    run(
        "kafka-topics --create",
        *("--create", "--topic", "t", "--partitions", "3", "--replication-factor", "3"),
        shows={"the topic is made": r"Created topic t\."},
        then=lambda _: _partitions(stage, "t", 3),
    )
    run(
        "kafka-topics --create --config",
        *("--create", "--topic", "t-set", "--config", "retention.ms=3600000"),
        *("--config", "segment.bytes=1048576"),
        shows={"the topic is made": r"Created topic t-set\."},
    )
    run(
        "kafka-topics --create --replica-assignment",
        *("--create", "--topic", "t-manual", "--replica-assignment", "1:2,2:3"),
        shows={"replicas as given": r"Created topic t-manual\."},
        then=lambda _: _replicas(stage, "t-manual", [[1, 2], [2, 3]]),
    )
    run(
        "kafka-topics --create --if-not-exists",
        *("--create", "--topic", "t", "--if-not-exists"),
        shows={"no error": r"!Error"},
    )
    run(
        "kafka-topics --create of one that exists",
        *("--create", "--topic", "t"),
        code=1,
        shows={"it exists": "Topic 't' already exists"},
    )
    run("kafka-topics --list", "--list", shows={"the topics": r"(?s)^t$.*^t-manual$.*^t-set$"})
    run(
        "kafka-topics --describe",
        *("--describe", "--topic", "t-set"),
        shows={
            "topic id": r"TopicId: [\w-]{22}\b",
            "its settings": r"Configs: .*retention\.ms=3600000",
            "leader, replicas and ISR": r"Partition: 0\s+Leader: \d\s+Replicas: \d,\d,\d\s+Isr: \d,\d,\d",
        },
    )
    run(
        "kafka-topics --describe --topic-id",
        *("--describe", "--topic-id", stage.topic_id("t")),
        shows={"the topic": r"Topic: t\s", "its partitions": r"PartitionCount: 3"},
    )
    run(
        "kafka-topics --describe --under-replicated-partitions",
        *("--describe", "--under-replicated-partitions"),
        shows={"none": r"!Topic:"},
    )
    run(
        "kafka-topics --describe --topics-with-overrides",
        *("--describe", "--topics-with-overrides"),
        shows={"the topic with settings": r"Topic: t-set\s"},
    )
    run(
        "kafka-topics --alter --partitions",
        *("--alter", "--topic", "t", "--partitions", "6"),
        shows={"six partitions": r"!Error"},
        then=lambda _: _partitions(stage, "t", 6),
    )
    run(
        "kafka-topics --alter --partitions to fewer",
        *("--alter", "--topic", "t", "--partitions", "2"),
        code=1,
        shows={"the count that it has": r"currently has 6 partition\(s\)"},
    )
    run(
        "kafka-topics --alter --replica-assignment",
        *("--alter", "--topic", "t-manual", "--partitions", "3", "--replica-assignment", "1:2,2:3,3:1"),
        shows={"the new partition's replicas": r"!Error"},
        then=lambda _: _replicas(stage, "t-manual", [[1, 2], [2, 3], [3, 1]]),
    )
    run(
        "kafka-topics --delete",
        *("--delete", "--topic", "t-manual"),
        shows={"the topic is gone": r"!Error"},
    )
    run(
        "kafka-topics --delete of an unknown one",
        *("--delete", "--topic", "t-nobody"),
        code=1,
        shows={"it does not exist": r"Topic 't-nobody' does not exist"},
    )


def records(tools: Tools) -> None:
    tools.area = "records"
    run, stage = tools.run, tools.stage
    run(
        "kafka-console-producer",
        *("--topic", "t", "--property", "parse.key=true", "--property", "key.separator=:"),
        stdin="".join(f"key-{number}:value-{number}\n" for number in range(20)),
        shows={"no error": r"!ERROR|Exception"},
    )
    run(
        "kafka-console-consumer",
        *("--topic", "t", "--from-beginning", "--max-messages", "20", "--property", "print.key=true"),
        shows={
            "twenty records with keys": r"key-19\tvalue-19",
            "the count": r"Processed a total of 20 messages",
        },
    )
    run(
        "kafka-console-consumer --group",
        *("--topic", "t", "--from-beginning", "--max-messages", "20", "--group", "console"),
        shows={"twenty records": r"Processed a total of 20 messages"},
    )
    run(
        "kafka-console-consumer, read_committed",
        *("--topic", "t", "--from-beginning", "--max-messages", "20"),
        *("--isolation-level", "read_committed"),
        shows={"twenty records": r"Processed a total of 20 messages"},
    )
    for when, at in (("latest", "-1"), ("earliest", "-2"), ("max-timestamp", "-3"), ("a time", "1000")):
        run(
            f"kafka-get-offsets, {when}",
            *("--topic", "t", "--time", at),
            shows={"an offset for each partition": r"t:\d+:\d+"},
            then=_twenty if when == "latest" else None,
        )
    run(
        "kafka-get-offsets, earliest-local",
        *("--topic", "t", "--time", "earliest-local"),
        shows={"an offset for each partition": r"t:0:0"},
    )
    run(
        "kafka-get-offsets, latest-tiered",
        *("--topic", "t", "--time", "latest-tiered"),
        shows={"no error, and nothing in tiers": r"!Exception|t:0:[1-9]"},
    )
    run(
        "kafka-get-offsets, all topics",
        *("--exclude-internal-topics",),
        shows={"every topic": r"(?s)t:0:.*t-set:0:0"},
    )
    run(
        "kafka-delete-records",
        *("--offset-json-file", stage.file("delete.json", _first_records())),
        shows={"the low watermark": r"partition: t-0\s+low_watermark: [1-9]"},
    )
    run(
        "kafka-get-offsets after it",
        *("--topic", "t", "--time", "earliest", "--partitions", "0"),
        shows={"the earliest is the low watermark": r"t:0:[1-9]"},
    )
    run(
        "kafka-verifiable-producer",
        *("--topic", "t-set", "--max-messages", "50"),
        shows={"fifty acknowledged": r'"name":"tool_data".*"acked":50'},
    )
    run(
        "kafka-verifiable-consumer",
        *("--topic", "t-set", "--group-id", "verifiable", "--max-messages", "50"),
        *("--reset-policy", "earliest"),
        shows={"fifty records": r'"name":"records_consumed".*"count":\d+', "commits": r"offsets_committed"},
    )
    run(
        "kafka-producer-perf-test",
        *("--topic", "t-set", "--num-records", "500", "--record-size", "100", "--throughput", "-1"),
        server="--bootstrap-server",
        shows={"five hundred sent": r"500 records sent"},
    )
    run(
        "kafka-producer-perf-test, lz4",
        *("--topic", "t-set", "--num-records", "500", "--record-size", "100", "--throughput", "-1"),
        *("--command-property", "compression.type=lz4"),
        shows={"five hundred sent": r"500 records sent"},
    )
    run(
        "kafka-consumer-perf-test",
        *("--topic", "t-set", "--num-records", "1000", "--timeout", "20000"),
        shows={"a thousand records and more": r"(?m)^\d{4}.*, 1\d{3}, "},
    )
    run(
        "kafka-replica-verification",
        *("--topics-include", "t-set", "--broker-list", stage.bootstrap, "--report-interval-ms", "500"),
        server=None,
        seconds=4,
        endless=True,
        shows={"no lag": r"max lag is 0 for partition"},
    )


def _partitions(stage: Stage, topic: str, count: int) -> None:
    found = stage.describe(topic)
    assert len(found) == count, f"{topic} has {len(found)} partitions"


def _replicas(stage: Stage, topic: str, expected: list[list[int]]) -> None:
    found = [each["replicas"] for each in stage.describe(topic)]
    assert found == expected, f"{topic} is on {found}"


def _twenty(output: str) -> None:
    total = sum(map(int, re.findall(r"^t:\d+:(\d+)$", output, re.M)))
    assert total == 20, f"the offsets are {total} together"


def _first_records() -> object:
    return {"version": 1, "partitions": [{"topic": "t", "partition": 0, "offset": -1}]}
