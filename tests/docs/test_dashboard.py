"""The dashboards ask for metrics that there are."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from quorate.health.catalogue import CATALOGUE
from quorate.metrics.raft_metrics import RaftMetrics

ROOT = Path(__file__).parents[2]
DASHBOARDS = sorted(path.name for path in (ROOT / "dashboards").glob("*.json"))
PAGE = ROOT / "docs" / "reference" / "metrics.md"


def dashboard(name: str) -> Any:
    return json.loads((ROOT / "dashboards" / name).read_text())


def metrics_of_any_quorum() -> set[str]:
    registry = CollectorRegistry()
    RaftMetrics(registry, monotonic=lambda: 0.0)
    page = generate_latest(registry).decode()
    return {sample.name for family in text_string_to_metric_families(page) for sample in family.samples}


def metrics_of_nodes() -> set[str]:
    """The metrics of the reference, which another test compares with those that nodes serve."""
    return set(re.findall(r"`((?:raft_manager|kafka|quorate)_\w+)`", PAGE.read_text()))


def queries(shown: Any) -> list[str]:
    panels = [target["expr"] for panel in shown["panels"] for target in panel["targets"]]
    variables = [
        variable["query"]["query"] for variable in shown["templating"]["list"] if variable["type"] == "query"
    ]
    return panels + variables + [each["expr"] for each in shown["annotations"]["list"]]


def asked(name: str) -> set[str]:
    return {
        metric.removesuffix("_bucket")
        for query in queries(dashboard(name))
        for metric in re.findall(r"\b(?:raft_manager|kafka|quorate)_\w+", query)
    }


@pytest.mark.parametrize(("name", "least"), [("quorate.json", 11), ("controller-and-replication.json", 35)])
def test_every_metric_of_a_dashboard_is_served(name: str, least: int) -> None:
    served = metrics_of_any_quorum() if name == "quorate.json" else metrics_of_nodes()
    assert len(asked(name)) >= least
    assert asked(name) <= served, asked(name) - served


def test_the_dashboards_are_two_and_can_be_told_apart() -> None:
    assert DASHBOARDS == ["controller-and-replication.json", "quorate.json"]
    for key in ("uid", "title"):
        assert len({dashboard(name)[key] for name in DASHBOARDS}) == 2


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panels_do_not_lie_on_each_other(name: str) -> None:
    taken: dict[tuple[int, int], str] = {}
    panels = dashboard(name)["panels"]
    for panel in panels:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            assert x < 24
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, f"{panel['title']} and {taken[x, y]}"
                taken[x, y] = panel["title"]
    ids = [panel["id"] for panel in panels]
    assert len(ids) == len(set(ids))


def test_each_alert_is_in_the_panel_of_problems_of_one_dashboard() -> None:
    shown = [
        (target["legendFormat"], target["expr"])
        for name in DASHBOARDS
        for panel in dashboard(name)["panels"]
        if panel["title"] == "Problems"
        for target in panel["targets"]
    ]
    wanted = {
        kind.name: f"count({kind.alert.expression}) or vector(0)"
        for kind in CATALOGUE
        if kind.alert is not None
    }
    assert dict(shown) == wanted
    assert len(shown) == len(wanted)
