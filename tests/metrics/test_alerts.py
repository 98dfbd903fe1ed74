"""Each alert of the catalogue fires when its problem is there, and resolves after it."""

import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from quorate.health.catalogue import CATALOGUE

ROOT = Path(__file__).parents[2]
RULES = ROOT / "dashboards" / "alerts.yml"
PAGE = ROOT / "docs" / "reference" / "metrics.md"

STATE: Final = "raft_manager_current_state"
UP: Final = "1x200"
"""A node that is there all the time."""
GONE: Final = "1x9 stale _x9 1x180"
"""One that is not scraped from minute 10 to 19."""


@dataclass(frozen=True)
class Case:
    series: dict[str, str]
    """By series without `job`: a value a minute, in promtool's notation."""
    fires: int
    """The minute in which the alert fires. In the first minutes it does not."""
    resolved: int


def nodes(metric: str, *values: str, **labels: str) -> dict[str, str]:
    more = "".join(f', {name}="{value}"' for name, value in labels.items())
    return {f'{metric}{{job="q", instance="n{index}"{more}}}': each for index, each in enumerate(values)}


def voters(*values: str) -> dict[str, str]:
    return nodes(STATE, *values, raft_manager_current_state="follower")


CASES: Final = {
    "quorum-without-leader": Case(nodes("quorate_controller_active", "1x9 0x9 1x99", "0x200"), 15, 25),
    "majority-at-risk": Case(voters(UP, UP, GONE), 15, 25),
    "voter-silent": Case(voters(UP, UP, UP, UP, GONE), 15, 25),
    "voter-lagging": Case(nodes("raft_manager_log_end_offset", "5000x99", "5000x9 9x9 5000x99"), 15, 25),
    "repeated-elections": Case(nodes("raft_manager_current_epoch", "1x9 2 3 4 5 6 6x99"), 15, 40),
    "broker-fenced": Case(nodes("quorate_controller_fenced_brokers", "0x9 1x9 0x99", "0x200"), 17, 25),
    "broker-flapping": Case(
        nodes("quorate_controller_timed_out_broker_heartbeats_total", "0x9 1 2 3 3x99"), 15, 40
    ),
    "offline-partitions": Case(nodes("quorate_controller_offline_partitions", "0x9 1x9 0x99"), 15, 25),
    "under-min-isr": Case(
        nodes("kafka_server_replicamanager_underminisrpartitioncount", "0x9 1x9 0x99"), 15, 25
    ),
    "under-replicated": Case(
        nodes("kafka_server_replicamanager_underreplicatedpartitions", "0x9 1x9 0x99"), 17, 25
    ),
    "unclean-election": Case(
        nodes("quorate_controller_unclean_leader_elections_total", "0x9 1x1500"), 15, 1480
    ),
    "directory-failed": Case(
        nodes("kafka_server_replicamanager_offlinereplicacount", "0x9 1x9 0x99"), 15, 25
    ),
    "disk-full": Case(
        nodes("quorate_log_dir_usable_bytes", "9000000000x9 900000000x9 9000000000x99", directory="/d"),
        15,
        25,
    ),
    "disk-nearly-full": Case(
        nodes("quorate_log_dir_usable_bytes", "9000000000x9 4000000000x9 900000000x99", directory="/d"),
        15,
        25,
    ),
    "damaged-replica": Case(nodes("quorate_damaged_replicas", "0x9 1x9 0x99"), 15, 25),
    "slow-state-change": Case(
        nodes("quorate_controller_broker_oldest_change_seconds", "0x9 11x9 10x99", broker="2"), 15, 25
    ),
    "reassignment-stuck": Case(nodes("quorate_controller_reassigning_partitions", "0x9 1x80 0x99"), 75, 95),
    "certificate-ends": Case(
        nodes("quorate_certificate_seconds_left", "1300000x9 1200000x9 9000000x99", file="a"), 15, 25
    ),
}


def test_every_metric_of_an_alert_is_one_of_the_reference() -> None:
    documented = set(re.findall(r"`((?:raft_manager|kafka|quorate)_\w+)`", PAGE.read_text()))
    for kind in CATALOGUE:
        if kind.alert is not None:
            asked = set(re.findall(r"\b(?:raft_manager|kafka|quorate)_\w+", kind.alert.expression))
            assert asked and asked <= documented, kind.name


def test_every_alert_of_the_catalogue_has_its_rule_and_its_case() -> None:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    rules = {each["alert"]: each for each in group["rules"]}
    wanted = {each.name: each for each in CATALOGUE if each.alert is not None}
    assert rules.keys() == wanted.keys() == CASES.keys()
    for name, rule in rules.items():
        alert = wanted[name].alert
        assert alert is not None
        assert rule["expr"] == alert.expression
        assert rule["labels"]["severity"] == wanted[name].severity.word
        assert rule.get("for", "0s") == f"{alert.for_s}s"


@pytest.mark.slow
def test_each_alert_fires_and_resolves(tmp_path: Path, need: Callable[[str], str]) -> None:
    promtool = need("promtool")

    def firing(name: str, minute: int, count: int) -> dict[str, Any]:
        expression = f'count(ALERTS{{alertname="{name}", alertstate="firing"}}) > 0 or vector(0)'
        return {
            "expr": expression,
            "eval_time": f"{minute}m",
            "exp_samples": [{"labels": "{}", "value": count}],
        }

    written = tmp_path / "alerts_test.yml"
    written.write_text(
        yaml.safe_dump(
            {
                "rule_files": [str(RULES)],
                "evaluation_interval": "1m",
                "tests": [
                    {
                        "name": name,
                        "interval": "1m",
                        "input_series": [
                            {"series": series, "values": values} for series, values in case.series.items()
                        ],
                        "promql_expr_test": [
                            firing(name, 8, 0),
                            firing(name, case.fires, 1),
                            firing(name, case.resolved, 0),
                        ],
                    }
                    for name, case in CASES.items()
                ],
            }
        )
    )
    done = subprocess.run([promtool, "test", "rules", str(written)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
