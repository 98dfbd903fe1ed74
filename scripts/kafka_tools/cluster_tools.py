"""The quorum, features, brokers, replicas and their directories."""

import json
from typing import Any

from kafka import KafkaAdminClient, TopicPartition
from stage import ABSENT, Stage
from tools import Tools


def quorum(tools: Tools) -> None:
    """Change the voters of the quorum. They are 1 and 2 before and after it."""
    tools.area = "quorum"
    run, stage = tools.run, tools.stage
    run(
        "kafka-metadata-quorum describe --status",
        *("describe", "--status"),
        server="--bootstrap-server",
        shows={
            "cluster id": rf"ClusterId:\s+{stage.cluster_id}",
            "leader and epoch": r"LeaderId:\s+\d\nLeaderEpoch:\s+\d+\nHighWatermark:\s+\d+",
            "voters with directories": r'CurrentVoters:.*"id": 1, "directoryId": "[\w-]{22}"',
        },
    )
    _both_ways(
        tools, "kafka-metadata-quorum", "describe --replication", r"(?s)\d\s+[\w-]{22}\s+\d+\s+0.*Leader"
    )
    run(
        "kafka-metadata-quorum --bootstrap-controller describe --status",
        *("describe", "--status"),
        server="--bootstrap-controller",
        shows={"cluster id": rf"ClusterId:\s+{stage.cluster_id}", "voters": r"CurrentVoters:.*\"id\": 1"},
    )
    properties = str(stage.cluster.node(3).config_file)
    for option in ("--bootstrap-server", "--bootstrap-controller"):
        run(
            f"kafka-metadata-quorum {option} add-controller",
            *("--command-config", properties, "add-controller"),
            server=option,
            shows={
                "node 3 and its directory": rf"Added controller 3 with directory id {stage.directory_id(3)}"
            },
        )
        run(
            f"kafka-metadata-quorum {option} remove-controller",
            *("remove-controller", "--controller-id", "3"),
            *("--controller-directory-id", stage.directory_id(3)),
            server=option,
            shows={"node 3": r"Removed .*controller 3 with directory id"},
        )


def _both_ways(tools: Tools, tool: str, what: str, pattern: str) -> None:
    for option in ("--bootstrap-server", "--bootstrap-controller"):
        tools.run(
            f"{tool} {option} {what}",
            *what.split(),
            server=option,
            shows={"leader, followers and observers with their lag": pattern},
        )


def features(tools: Tools) -> None:
    tools.area = "features"
    run = tools.run
    run(
        "kafka-features describe",
        "describe",
        shows={
            "metadata.version and its level": r"Feature: metadata\.version.*FinalizedVersionLevel: \S+",
            "kraft.version and its level": r"Feature: kraft\.version.*FinalizedVersionLevel: 1",
        },
    )
    run(
        "kafka-features describe --node-id",
        *("describe", "--node-id", "2"),
        shows={"of one node": r"Feature: metadata\.version"},
    )
    run(
        "kafka-features upgrade --dry-run",
        *("upgrade", "--feature", "kraft.version=1", "--dry-run"),
        shows={"it can be": r"kraft\.version can be upgraded to 1|was upgraded|can be"},
    )
    run(
        "kafka-features upgrade of an unknown one",
        *("upgrade", "--feature", "no.such.version=1"),
        code=1,
        shows={"it could not": r"Could not upgrade no\.such\.version|not supported|unknown"},
    )


def replicas(tools: Tools) -> None:
    tools.area = "replicas"
    run, stage = tools.run, tools.stage
    run(
        "kafka-topics --create for this area",
        *("--create", "--topic", "moved", "--replica-assignment", "1:2:3,2:3:1"),
        shows={"the topic is made": r"Created topic moved\."},
    )
    run(
        "kafka-log-dirs --describe",
        *("--describe", "--topic-list", "moved", "--broker-list", "1,2"),
        soon=True,
        shows={"both directories of both brokers, no error": r'"brokers":'},
        then=lambda output: _two_directories(output, [1, 2]),
    )
    topics = stage.file("topics.json", {"topics": [{"topic": "moved"}], "version": 1})
    run(
        "kafka-reassign-partitions --generate",
        *("--generate", "--topics-to-move-json-file", topics, "--broker-list", "1,2"),
        code=1,
        shows={"too few brokers for the factor": r"InvalidReplicationFactorException"},
    )
    run(
        "kafka-reassign-partitions --generate, three brokers",
        *("--generate", "--topics-to-move-json-file", topics, "--broker-list", "1,2,3"),
        shows={
            "the assignment now, with directories": r'Current partition replica assignment\n\{.*"log_dirs"',
            "a proposal": r"Proposed partition reassignment configuration\n\{",
        },
    )
    plan = stage.file("plan.json", _plan({0: [3, 2], 1: [1, 2, 3]}))
    run(
        "kafka-reassign-partitions --execute",
        *("--execute", "--reassignment-json-file", plan),
        shows={"it began": r"Successfully started partition reassignments? for moved-0"},
        then=lambda _: _assigned(stage, {0: [3, 2], 1: [1, 2, 3]}),
    )
    run(
        "kafka-reassign-partitions --verify",
        *("--verify", "--reassignment-json-file", plan),
        soon=True,
        shows={
            "both are complete": r"(?s)partition moved-0 is completed.*partition moved-1 is completed",
            "throttles are cleared": r"Clearing broker-level throttles",
        },
    )
    throttled = stage.file("throttled.json", _plan({0: [1, 2, 3]}))
    run(
        "kafka-reassign-partitions --execute --throttle",
        *("--execute", "--reassignment-json-file", throttled, "--throttle", "50000000"),
        shows={
            "the limit is set": r"The inter-broker throttle limit was set to 50000000 B/s",
            "it began": r"Successfully started partition reassignments? for moved-0",
        },
        then=lambda _: _assigned(stage, {0: [1, 2, 3]}),
    )
    run(
        "kafka-reassign-partitions --verify, throttled",
        *("--verify", "--reassignment-json-file", throttled),
        soon=True,
        shows={
            "complete": r"partition moved-0 is completed",
            "throttles are cleared": r"Clearing topic-level",
        },
    )
    waiting = stage.file("waiting.json", _plan({0: [1, 2, ABSENT]}))
    # The tool itself sends nothing for a broker that is down.
    admin = KafkaAdminClient(bootstrap_servers=stage.bootstrap.split(","))
    admin.alter_partition_reassignments({TopicPartition("moved", 0): [1, 2, ABSENT]})
    admin.close()
    run(
        "kafka-reassign-partitions --list",
        "--list",
        shows={"what is added and removed": r"moved-0: replicas: [\d,]+\. adding: 4\. removing: 3\."},
    )
    run(
        "kafka-reassign-partitions --verify, not complete",
        *("--verify", "--reassignment-json-file", waiting, "--preserve-throttles"),
        shows={"still in progress": r"partition moved-0 is still in progress"},
    )
    run(
        "kafka-topics --describe in a reassignment",
        *("--describe", "--topic", "moved"),
        shows={"adding and removing": r"Adding Replicas: 4\s+Removing Replicas: 3"},
    )
    run(
        "kafka-reassign-partitions --cancel",
        # Broker 4's throttles can't be cleared while it is down.
        *("--cancel", "--reassignment-json-file", waiting, "--preserve-throttles"),
        shows={"it is cancelled": r"Successfully cancelled partition reassignments? for: moved-0"},
        then=lambda _: _assigned(stage, {0: [1, 2, 3]}),
    )
    run(
        "kafka-reassign-partitions --list, none",
        "--list",
        soon=True,
        shows={"none": r"No partition reassignments found"},
    )
    directory = str(stage.directories(1)[1])
    between = stage.file("between.json", _plan({1: [1, 2, 3]}, {1: [directory, "any", "any"]}))
    run(
        "kafka-reassign-partitions --execute between directories",
        *("--execute", "--reassignment-json-file", between),
        shows={"it began": r"Successfully started (log directory moves|partition reassignment)"},
    )
    run(
        "kafka-reassign-partitions --verify between directories",
        *("--verify", "--reassignment-json-file", between),
        soon=True,
        shows={"the replica has moved": r"replica moved-1-1 .*(completed|is already)"},
        then=lambda _: _in_directory(stage, "moved-1", directory),
    )
    elections(tools)


def elections(tools: Tools) -> None:
    run, stage = tools.run, tools.stage
    reordered = stage.file("reordered.json", _plan({1: [3, 2, 1]}))
    run(
        "kafka-reassign-partitions --execute, another order",
        *("--execute", "--reassignment-json-file", reordered),
        shows={"it is done": r"Successfully started"},
        then=lambda _: _assigned(stage, {1: [3, 2, 1]}),
    )
    run(
        "kafka-leader-election --election-type preferred",
        *("--election-type", "preferred", "--topic", "moved", "--partition", "1"),
        shows={"the leader is elected": r"Successfully completed leader election \(PREFERRED\) .*moved-1"},
        then=lambda _: _leads(stage, 1, 3),
    )
    run(
        "kafka-leader-election --election-type preferred, again",
        *("--election-type", "preferred", "--topic", "moved", "--partition", "1"),
        shows={"it leads already": r"Valid replica already elected for partitions moved-1"},
    )
    run(
        "kafka-leader-election --all-topic-partitions",
        *("--election-type", "preferred", "--all-topic-partitions"),
        shows={"no error": r"!Error|Exception"},
    )
    listed = stage.file("election.json", {"partitions": [{"topic": "moved", "partition": 0}]})
    run(
        "kafka-leader-election --election-type unclean",
        *("--election-type", "unclean", "--path-to-json-file", listed),
        shows={"a leader is there": r"Valid replica already elected for partitions moved-0"},
    )


def brokers(tools: Tools) -> None:
    """List and unregister brokers. It comes last: broker 4 is not registered afterwards."""
    tools.area = "brokers"
    run, stage = tools.run, tools.stage
    run("kafka-cluster cluster-id", "cluster-id", shows={"the id": rf"Cluster ID: {stage.cluster_id}"})
    run(
        "kafka-cluster --bootstrap-controller cluster-id",
        "cluster-id",
        server="--bootstrap-controller",
        shows={"the id": rf"Cluster ID: {stage.cluster_id}"},
    )
    run(
        "kafka-cluster list-endpoints",
        "list-endpoints",
        shows={"three brokers": r"(?s)^1\s+127\.0\.0\.1\s+\d+.*^2\s.*^3\s", "not the fenced one": r"!^4\s"},
    )
    run(
        "kafka-cluster list-endpoints --include-fenced-brokers",
        *("list-endpoints", "--include-fenced-brokers"),
        shows={"broker 4 is fenced": r"^4\s+127\.0\.0\.1\s+\d+\s+\S+\s+fenced"},
    )
    run(
        "kafka-cluster --bootstrap-controller list-endpoints",
        "list-endpoints",
        server="--bootstrap-controller",
        shows={"controllers": r"(?s)^1\s+127\.0\.0\.1\s+\d+\s+\S+\s+controller"},
    )
    run(
        "kafka-cluster unregister",
        *("unregister", "--id", str(ABSENT)),
        shows={"it is unregistered": rf"Broker {ABSENT} is no longer registered"},
    )
    run(
        "kafka-cluster list-endpoints afterwards",
        *("list-endpoints", "--include-fenced-brokers"),
        soon=True,
        shows={"broker 4 is gone": r"!^4\s"},
    )


def _plan(replicas: dict[int, list[int]], directories: dict[int, list[str]] | None = None) -> object:
    partitions = [
        {"topic": "moved", "partition": number, "replicas": on}
        | ({"log_dirs": directories[number]} if directories else {})
        for number, on in replicas.items()
    ]
    return {"version": 1, "partitions": partitions}


def _assigned(stage: Stage, expected: dict[int, list[int]]) -> None:
    found = {each["partition"]: each["replicas"] for each in stage.describe("moved")}
    assert {number: found[number] for number in expected} == expected, f"moved is on {found}"


def _leads(stage: Stage, partition: int, broker: int) -> None:
    leader = stage.describe("moved")[partition]["leader"]
    assert leader == broker, f"{leader} leads moved-{partition}"


def _two_directories(output: str, brokers: list[int]) -> None:
    found: Any = json.loads(next(line for line in output.splitlines() if line.startswith('{"')))
    assert sorted(each["broker"] for each in found["brokers"]) == brokers
    for each in found["brokers"]:
        assert len(each["logDirs"]) == 2
        assert all(directory["error"] is None for directory in each["logDirs"])
        partitions = [one["partition"] for directory in each["logDirs"] for one in directory["partitions"]]
        assert sorted(partitions) == ["moved-0", "moved-1"]


def _in_directory(stage: Stage, partition: str, directory: str) -> None:
    places = [str(each) for each in stage.directories(1) if (each / partition).is_dir()]
    assert places == [directory], f"{partition} is in {places}"
