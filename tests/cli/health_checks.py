"""What `quorate cluster health` says of real nodes, and its remedies, followed as they are printed."""

import json
import re
import shlex
import time
from typing import Any

from quorate.cli.console.cli_errors import ExitCode
from quorate.cli.node.local_cluster import LocalCluster
from tests.cli.command import Quorate
from tests.kit.waiting import wait_until

BUDGET_S = 3.0
"""The time that the command may take, and the time after which a fault is named."""

MEMORIES = {"broker-flapping", "repeated-elections"}
"""Problems that are named for ten minutes."""


def controllers_of(cluster: LocalCluster) -> str:
    return ",".join(f"{cluster.host}:{node.controller_port}" for node in cluster.nodes)


def health(cluster: LocalCluster, *reach: str) -> dict[str, Any]:
    """Return the answer, which came in time."""
    began = time.monotonic()
    result = Quorate()("cluster", "health", *(reach or ("-b", cluster.bootstrap)), "--json")
    took = time.monotonic() - began
    assert result.exit_code in (ExitCode.OK, ExitCode.FAILED), result.output
    found: dict[str, Any] = json.loads(result.stdout)
    assert (result.exit_code == ExitCode.OK) == found["well"] == (not found["problems"])
    assert found["tookMs"] / 1000 < BUDGET_S
    assert took < BUDGET_S + 1, "imports and the end of the event loop take little"
    return found


def named(cluster: LocalCluster, *reach: str) -> dict[str, str]:
    """Return the names of the problems, and where they are."""
    return {each["name"]: each["where"] for each in health(cluster, *reach)["problems"]}


def wait_well(cluster: LocalCluster) -> None:
    """Return when nothing is wrong but what earlier tests did within ten minutes, and all is known."""

    found: dict[str, Any] = {}

    def is_well() -> bool:
        found.update(health(cluster))
        return not found["unknown"] and {each["name"] for each in found["problems"]} <= MEMORIES

    wait_until(is_well, lambda: f"the cluster is well: {found}", seconds=60)


def wait_named(
    cluster: LocalCluster, name: str, *reach: str, seconds: float = 30, where: str | None = None
) -> dict[str, Any]:
    """Return the problem of this name as soon as it is there."""
    found: list[dict[str, Any]] = []
    others: list[str] = []

    def is_named() -> bool:
        problems = health(cluster, *reach)["problems"]
        others[:] = [f"{each['name']} of {each['where']}" for each in problems]
        found[:] = [each for each in problems if each["name"] == name and where in (None, each["where"])]
        return bool(found)

    wait_until(is_named, lambda: f"{name} is named, in place of {others}", seconds=seconds)
    return found[0]


def commands_in(remedy: str) -> list[list[str]]:
    """Return the words of the commands between backticks."""
    return [shlex.split(each) for each in re.findall(r"`quorate ([^`]*)`", remedy)]


def follow(problem: dict[str, Any], containing: str) -> str:
    """Run the command of the remedy as it is printed, and return its output."""
    (words,) = [each for each in commands_in(problem["remedy"]) if containing in each]
    return Quorate().output(*words)
