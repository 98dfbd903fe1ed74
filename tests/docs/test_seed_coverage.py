"""docs/seed-coverage.md names code and tests that are there, and says of every row whether it works."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "seed-coverage.md"
_ROW = re.compile(r"^\| (?!what |---)(.*) \| (.*) \| (.*) \| (.*) \|$", re.M)
_LINK = re.compile(r"\[`([^`]+)`\]\(\.\./([^)]+)\)")
ALGORITHMS = (
    "brokerStartup", "leaderElection", "startReplica", "closeReplica", "becomeFollower", "becomeLeader",
    "createTopic", "deleteTopic", "addPartition", "deletePartition", "produceRequestHandler", "commit",
    "ISR shrink", "onPartitionsReassigned", "checkLoadBalancing", "replicaFetch", "ReplicaFetcherThread",
)  # fmt: skip

SECTIONS = (
    # The description of the ISR.
    "Replica:", "Only the leader", "getOrCreateReplica", "OffsetCheckpoint", "ReplicaManager.allPartitions",
    "appendMessages", "delayedRequestRequired", "DelayedProduce", "DelayedOperationPurgatory", "Trigger A.1",
    "Trigger A.2", "Trigger B.1", "Trigger B.2", "Trigger C.1", "Trigger C.2",
    # Of the controller.
    "KafkaController", "ControllerContext", "ControllerChannelManager", "ControllerBrokerRequestBatch",
    "onBrokerStartup", "onBrokerFailure", "PartitionStateMachine", "PartitionLeaderSelector",
    "ReplicaStateMachine", "Failover of a broker", "Failover of a leader", "Failover of the controller",
    "Split brain: two leaders", "ReplicationUtils.updateLeaderAndIsr",
    # KIP-595.
    "Log structure", "Quorum state", "fsync", "Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "Fetch",
    "Leader progress timeout", "Observers", "DescribeQuorum", "Metrics",
)  # fmt: skip


def rows() -> list[tuple[str, str, str, str]]:
    return _ROW.findall(PAGE.read_text())


def names_in(file: Path) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_every_named_test_is_in_its_file_and_every_module_in_the_tree() -> None:
    found = rows()
    assert len(found) > 40
    missing = []
    for what, code, tests, _ in found:
        missing += [
            (what, name)
            for name, path in _LINK.findall(code)
            if path != f"quorate/{name}" or not (ROOT / path).is_file()
        ]
        missing += [
            (what, name)
            for name, path in _LINK.findall(tests)
            if not (ROOT / path).is_file() or name not in names_in(ROOT / path)
        ]
    assert missing == []


def test_every_row_works_and_is_shown_or_names_an_issue() -> None:
    for what, code, tests, state in rows():
        assert state.startswith("working") or re.search(r"\bissue \d+", state), what
        if state.startswith("working"):
            assert _LINK.search(code), f"{what}: no code"
            assert _LINK.search(tests), f"{what}: no test"


def test_no_algorithm_and_no_section_of_the_seeds_is_left_out() -> None:
    subjects = [what for what, *_ in rows()]
    assert [
        each for each in (*ALGORITHMS, *SECTIONS) if not any(what.startswith(each) for what in subjects)
    ] == []
    assert [
        number for number in range(1, 8) if not any(what.startswith(f"{number}.") for what in subjects)
    ] == []
