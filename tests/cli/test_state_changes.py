"""`quorate state-changes` and `quorate topics states`, against clusters and against made-up answers."""

import signal
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from quorate.broker.wire.codecs.entities import build
from quorate.broker.wire.own_messages import DescribeStateChangesResponse
from quorate.cli.console.cli_errors import ExitCode
from quorate.cli.node.local_cluster import LocalCluster
from quorate.cli.state_changes.change_requests import ChangeRequest
from quorate.cli.state_changes.cluster_reports import BrokerJournal, ClusterReports
from quorate.cli.state_changes.lives import Life, join, narrow
from tests.cli.command import Quorate
from tests.kit.waiting import wait_until

TOPIC = uuid.UUID(int=7)


def parts(lives: list[dict[str, Any]]) -> list[tuple[str, str | None, int, str | None, str]]:
    """Return (request, reason, broker, change, outcome) of each part."""
    return [
        (life["requested"], life["reason"], part["broker"], part["change"], part["outcome"])
        for life in lives
        for part in life["brokers"]
        if part["change"] != "directory"
    ]


def changes_of(ask: Quorate, topic: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ask.json("state-changes", "-t", topic)
    return found


def wait_told(ask: Quorate, *words: str, holds: Callable[[Any], object]) -> Any:
    """Return the answer to `words` for which `holds` does: on a busy machine nodes that work may take longer
    than the command waits, and count as silent."""
    told: list[Any] = []

    def reached() -> object:
        told[:] = [ask.json(*words)]
        return holds(told[0])

    wait_until(reached, f"the expected answer to {words}")
    return told[0]


def wait_completed(ask: Quorate, topic: str) -> None:
    def completed(lives: list[dict[str, Any]]) -> bool:
        return {each[-1] for each in parts(lives)} == {"completed"}

    wait_told(ask, "state-changes", "-t", topic, holds=completed)


@pytest.mark.slow
def test_controllers_alone_say_what_happened_and_which_broker_does_not_answer(
    quorate: Quorate, make_cluster: Callable[..., LocalCluster]
) -> None:
    # The session outlasts the pause: fencing would change more.
    cluster = make_cluster(3, broker_session_timeout_ms="30000")
    ask = quorate.at(cluster)
    ask.output("topics", "create", "-t", "t", "--replica-assignment", "3:1:2")
    paused = next(each for each in (2, 3) if each != cluster.describe_quorum()["leaderId"])
    controllers = ",".join(
        f"{cluster.host}:{cluster.node(each).controller_port}" for each in (1, 2, 3) if each != paused
    )
    at_controllers = Quorate(("-C", controllers, "--timeout-ms", "1000"))
    wait_completed(at_controllers, "t")
    assert changes_of(at_controllers, "t") == changes_of(ask, "t"), (
        "what the brokers are asked for says the same"
    )
    cluster.signal(paused, signal.SIGSTOP)
    try:
        outcomes = {(each, "no answer" if each == paused else "completed") for each in (1, 2, 3)}
        lives = wait_told(
            at_controllers,
            *("state-changes", "-t", "t"),
            holds=lambda lives: (
                {(part["broker"], part["outcome"]) for life in lives for part in life["brokers"]} == outcomes
            ),
        )
        assert lives[0]["requested"] == "created: leader 3, replicas 3,1,2"
    finally:
        cluster.signal(paused, signal.SIGCONT)
    assert "not both" in ask.error("state-changes", "-C", controllers, code=ExitCode.USAGE)


@pytest.mark.slow
def test_a_topic_is_created_paused_elected_and_deleted_and_its_brokers_say_so(
    quorate: Quorate, make_cluster: Callable[..., LocalCluster]
) -> None:
    # The session outlasts the pause: the leader has to change for the reason of the kill.
    cluster = make_cluster(3, quorate_controller_refusal_confirm_ms="100", broker_session_timeout_ms="30000")
    ask = quorate.at(cluster)
    # The first broker of the bootstrap servers is not paused: the command asks it. Neither is the active
    # controller: its successor would fence it for its silence.
    slow = 3
    if cluster.describe_quorum()["leaderId"] == slow:
        ask.output("quorum", "transfer", "1")
    ask.output("topics", "create", "-t", "t", "--replica-assignment", "3:1:2")
    wait_completed(ask, "t")
    lives = changes_of(ask, "t")
    created = "created: leader 3, replicas 3,1,2"
    assert sorted(parts(lives)[:3]) == [
        (created, None, 1, "follow", "completed"),
        (created, None, 2, "follow", "completed"),
        (created, None, 3, "lead", "completed"),
    ]
    first = lives[0]
    quorum = cluster.describe_quorum()
    assert (first["controller"], first["controllerEpoch"]) == (quorum["leaderId"], quorum["leaderEpoch"])
    assert abs(first["timeMs"] - time.time() * 1000) < 60_000
    assert all(0 < part["durationMs"] < 10_000 for part in first["brokers"])
    assert [each["state"] for each in ask.json("topics", "states", "-t", "t")] == ["OnlinePartition"]

    # No metadata reaches a paused broker.
    hasty = Quorate((*ask.reach, "--timeout-ms", "500"))
    cluster.signal(slow, signal.SIGSTOP)
    try:
        ask.output("topics", "create", "-t", "u", "--replica-assignment", "1:3")
        of_u = ("state-changes", "-t", "u", "--pending")

        def only_the_paused_one_is_silent(lives: list[dict[str, Any]]) -> bool:
            return [(each[2], each[-1]) for each in parts(lives)] == [(slow, "no answer")]

        pending, again = (wait_told(hasty, *of_u, holds=only_the_paused_one_is_silent) for _ in range(2))
        waits = pending[0]["brokers"][0]["durationMs"]
        assert again[0]["brokers"][0]["durationMs"] > waits or again[0]["offset"] > pending[0]["offset"]
        wait_told(hasty, *of_u, "--broker", "1", holds=lambda lives: lives == [])
        problems = [True, True, False]
        wait_told(
            hasty,
            *("state-changes", "--brokers"),
            holds=lambda rows: [row["problem"] is None for row in rows] == problems,
        )
    finally:
        cluster.signal(slow, signal.SIGCONT)
    wait_until(lambda: not ask.json("state-changes", "-t", "u", "--pending"), "nothing is pending")
    cluster.wait_ready()

    # A broker that is killed is fenced, and its successor is told why it leads.
    cluster.kill(slow)
    wait_until(
        lambda: any(
            life["requested"].startswith("leader 1") and life["reason"] == "broker gone"
            for life in hasty.json("state-changes", "-t", "t")
        ),
        "broker 1 leads for the reason that broker 3 is gone",
    )
    replicas = ask.json("topics", "states", "-t", "t")[0]["replicas"]
    assert replicas == {"1": "OnlineReplica", "2": "OnlineReplica", "3": "OfflineReplica"}
    fenced = [each["requested"] for each in ask.json("state-changes") if each["reason"] == "broker gone"]
    assert any(each.startswith("broker 3 fenced, last heard") for each in fenced), fenced

    ask.output("topics", "delete", "-t", "t")
    wait_until(
        lambda: (
            {part[2:] for part in parts(changes_of(ask, "t")) if part[0] == "topic deleted"}
            == {(1, "delete", "completed"), (2, "delete", "completed")}
        ),
        "both brokers have deleted their replicas",
    )
    text = ask("state-changes", "-t", "t").stdout
    assert "topic deleted" in text and "broker gone" in text and "…" not in text, "whole names in a pipe"


def test_states_of_a_topic_that_is_not_there(ask: Quorate) -> None:
    assert ask.error("topics", "states", "-t", "nope") == "quorate: There is no topic 'nope'.\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--since", "yesterday"), "--since: 'yesterday' is no time"),
        (("--since", "0s"), "--since: '0s' is no time"),
        (("--partition", "1"), "--partition needs --topic"),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong(
    quorate: Quorate, words: tuple[str, ...], message: str
) -> None:
    assert message in quorate.at("127.0.0.1:1").error("state-changes", *words, code=ExitCode.USAGE)


# Requests and the brokers' parts, joined


def request(offset: int, *, partition: int | None = 0, what: str = "leader 1", **other: Any) -> ChangeRequest:
    found = None if partition is None else range(partition, partition + 1)
    return ChangeRequest(
        offset=offset,
        time_ms=1000 * offset,
        epoch=1,
        controller=1,
        topic_id=TOPIC,
        partitions=other.pop("partitions", found),
        what=what,
        reason=None,
        **other,
    )


def change(
    offset: int, *, partition: int = 0, kind: str = "lead", outcome: str = "completed"
) -> dict[str, object]:
    return {
        "topic_name": "t",
        "topic_id": TOPIC,
        "partition_index": partition,
        "change": kind,
        "outcome": outcome,
        "problem": None,
        "leader_epoch": 0,
        "metadata_offset": offset,
        "received_ms": offset,
        "duration_us": 1000,
    }


def journal(broker: int, *changes: dict[str, object], received: int = 1000) -> BrokerJournal:
    answer = build(DescribeStateChangesResponse, received_offset=received, changes=changes)
    return BrokerJournal(broker_id=broker, answer=answer, problem=None)


def reports(
    *journals: BrokerJournal, replicas: tuple[int, ...] = (1, 2), partitions: int = 1
) -> ClusterReports:
    return ClusterReports(
        names={TOPIC: "t"},
        replicas={(TOPIC, each): replicas for each in range(partitions)},
        journals={each.broker_id: each for each in journals},
    )


def joined(requests: list[ChangeRequest], cluster: ClusterReports, **wanted: Any) -> list[tuple[Any, ...]]:
    """Return (offset, known request, broker, partition, outcome) of each part."""
    lives = join(requests, cluster, names={}, now_ms=100_000)
    asked: dict[str, Any] = {"topic": None, "partition": None, "broker": None, "pending": False}
    return [of(life, part) for life in narrow(lives, **{**asked, **wanted}) for part in life.parts]


def of(life: Life, part: Any) -> tuple[Any, ...]:
    return (life.offset, life.request is not None, part.broker, part.partition, part.outcome)


def test_a_change_belongs_to_the_newest_request_that_it_came_with() -> None:
    requests = [request(10), request(11), request(20)]
    # Brokers got 10 and 11 in one batch that ends at 13, and broker 2 not the last one yet.
    cluster = reports(
        journal(1, change(13), change(20)), journal(2, change(13, outcome="pending"), received=15)
    )
    assert joined(requests, cluster) == [
        (11, True, 1, 0, "completed"),
        (11, True, 2, 0, "pending"),
        (20, True, 1, 0, "completed"),
        (20, True, 2, 0, "not received"),
    ]
    assert joined(requests, cluster, pending=True) == [
        (11, True, 2, 0, "pending"),
        (20, True, 2, 0, "not received"),
    ]
    assert joined(requests, cluster, broker=1) == [
        (11, True, 1, 0, "completed"),
        (20, True, 1, 0, "completed"),
    ]


def test_a_change_whose_request_is_older_than_what_was_read_is_shown_all_the_same() -> None:
    cluster = reports(journal(1, change(5, outcome="pending")), journal(2))
    assert joined([], cluster, pending=True) == [(5, False, 1, 0, "pending")]


def test_a_broker_without_an_answer_is_named_for_the_last_request_alone() -> None:
    mute = BrokerJournal(broker_id=2, answer=None, problem="no answer within 5 s")
    requests = [request(10), request(20)]
    assert joined(requests, reports(journal(1, change(10), change(20)), mute)) == [
        (10, True, 1, 0, "completed"),
        (20, True, 1, 0, "completed"),
        (20, True, 2, 0, "no answer"),
    ]
    assert joined(requests, reports(journal(1, change(20))))[-1] == (20, True, 2, 0, "no answer"), "not live"


def test_deletions_belong_to_the_topic_or_to_the_number_of_its_partitions() -> None:
    shrunk = request(10, partitions=range(1, 1 << 31), what="shrunk to 1 partitions")
    removed = request(20, partition=None, what="topic deleted")
    cluster = reports(
        journal(1, change(10, partition=1, kind="delete"), change(20, kind="delete")), partitions=0
    )
    assert joined([shrunk, removed], cluster) == [
        (10, True, 1, 1, "completed"),
        (20, True, 1, 0, "completed"),
    ]
    lives = join([shrunk, removed], cluster, names={}, now_ms=0)
    assert [len(narrow(lives, topic="t", partition=each, broker=None, pending=False)) for each in (0, 1)] == [
        1,
        2,
    ]
    assert narrow(lives, topic="other", partition=None, broker=None, pending=False) == []
