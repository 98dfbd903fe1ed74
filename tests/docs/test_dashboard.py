"""The dashboard asks for metrics that there are."""

import json
import re
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from quorate.metrics.raft_metrics import RaftMetrics

DASHBOARD: Any = json.loads((Path(__file__).parents[2] / "dashboards" / "quorate.json").read_text())


def shown_names() -> set[str]:
    registry = CollectorRegistry()
    RaftMetrics(registry, monotonic=lambda: 0.0)
    page = generate_latest(registry).decode()
    return {sample.name for family in text_string_to_metric_families(page) for sample in family.samples}


def queries() -> list[str]:
    panels = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    variables = [
        variable["query"]["query"]
        for variable in DASHBOARD["templating"]["list"]
        if variable["type"] == "query"
    ]
    return panels + variables + [each["expr"] for each in DASHBOARD["annotations"]["list"]]


def test_every_metric_of_the_dashboard_is_served() -> None:
    served = shown_names()
    asked = {name for query in queries() for name in re.findall(r"\b(?:raft_manager|kafka)_\w+", query)}
    assert len(asked) > 10
    assert asked <= served, asked - served


def test_panels_do_not_lie_on_each_other() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            assert x < 24
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, f"{panel['title']} and {taken[x, y]}"
                taken[x, y] = panel["title"]
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
