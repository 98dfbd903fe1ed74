"""The page of a report, from facts, without Spark."""

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from quorate.pipelines.report.facts import Facts
from quorate.pipelines.report.page import render, write_page
from quorate.pipelines.report.story import duration_text, incident_story, summary

T0 = 1_795_316_498_082  # 2026-11-22 03:01:38.082


def incident(**changes: Any) -> dict[str, Any]:
    return {
        "broker_id": 3,
        "reason": "BROKER_GONE",
        "from_offset": 812,
        "valid_from": T0 + 3307,
        "to_offset": 930,
        "valid_to": T0 + 17_142,
        "ended_by": "change",
        "last_heard": T0,
        "duration_ms": 17_142,
        "same_process": False,
        "led_quorum": False,
        "partitions": 20,
        "topics": ["orders"],
        "replicated_at": T0 + 17_308,
        "led": 17,
        "outage_ms": 3310,
        "longest_outage_ms": 3312,
        **changes,
    }


@pytest.fixture
def facts() -> Facts:
    return Facts(
        first_ms=T0 - 60_000,
        last_ms=T0 + 60_000,
        first_offset=0,
        last_offset=1000,
        brokers=3,
        partitions=40,
        incidents=[incident()],
        under_replicated=[{"bucket_ms": T0, "change": 20}, {"bucket_ms": T0 + 17_000, "change": -20}],
        leaderless=[],
        new_leaders=[
            {
                "reason": "BROKER_GONE",
                "elections": 17,
                "p50_ms": 3310,
                "p95_ms": 3312,
                "p99_ms": 3312,
                "max_ms": 3312,
            }
        ],
        outages=[{"reason": "BROKER_GONE", "outage_ms": 3300, "elections": 17}],
        leaders=[{"broker": 1, "bucket_ms": T0, "leaders": 20}, {"broker": 3, "bucket_ms": T0, "leaders": 0}],
        topics=[
            {
                "topic": "<script>",
                "kind": "under_replicated",
                "intervals": 20,
                "total_ms": 340_000,
                "longest_ms": 17_308,
                "open": 0,
            }
        ],
        reassignments=[],
        controller_failovers=[
            {"offset": 800, "timestamp": T0, "leader": 1, "leader_epoch": 2, "old_leader": 3}
        ],
        slowest_changes=[],
        leadership_churn=[],
    )


def test_the_story_of_a_kill_names_what_it_caused() -> None:
    assert incident_story(incident()) == [
        "Last heard at 2026-11-22 03:01:38.082, fenced at 2026-11-22 03:01:41.389 (offset 812, BROKER_GONE), "
        "3.31 s later.",
        "It led 17 partitions, which had another leader after 3.31 s.",
        "20 partitions of orders became under-replicated, the last until 2026-11-22 03:01:55.390.",
        "Another process was back in service at 2026-11-22 03:01:55.224 (offset 930), 17.14 s later.",
    ]


def test_the_story_has_the_partition_that_waited_longest() -> None:
    story = incident_story(incident(longest_outage_ms=9000))
    assert story[1].endswith("after 3.31 s (median), the last after 9.00 s.")


@pytest.mark.parametrize(
    ("changes", "end"),
    [
        ({"valid_to": None, "to_offset": None, "ended_by": None}, "It is still out of service."),
        ({"same_process": True}, "The same process was back in service at"),
        ({"ended_by": "delete"}, "It was unregistered at 2026-11-22 03:01:55.224."),
        ({"ended_by": "restart"}, "What follows until the snapshot of offset 930 is not in the log."),
    ],
)
def test_the_story_ends_as_the_outage_did(changes: dict[str, Any], end: str) -> None:
    assert incident_story(incident(**changes))[-1].startswith(end)


def test_a_controller_has_no_time_that_nobody_knew() -> None:
    story = incident_story(incident(last_heard=None, led_quorum=True))
    assert story[0] == "Out of service at 2026-11-22 03:01:41.389 (offset 812, BROKER_GONE)."
    assert story[1] == "It was the active controller: its successor does not know when it was last heard."
    assert incident_story(incident(led_quorum=True))[1] == "It was the active controller."


def test_a_quiet_log_says_so(facts: Facts) -> None:
    assert "No broker was out of service." in summary(replace(facts, incidents=[]))


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [(None, ""), (0, "0.00 s"), (3307, "3.31 s"), (125_000, "2 min 5 s"), (7_500_000, "2 h 5 min")],
)
def test_durations_have_the_unit_that_fits(duration_ms: int | None, text: str) -> None:
    assert duration_text(duration_ms) == text


@pytest.mark.slow
def test_the_page_needs_no_other_file(facts: Facts, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    write_page(file, facts, title="What happened & why")
    page = file.read_text()
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]
    assert not re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=", page)
    assert "<title>What happened &amp; why</title>" in page
    assert page.count('class="plotly-graph-div"') == 3
    # Once for all plots.
    assert page.count("plotly.js v") == 1


def test_names_are_no_markup(facts: Facts) -> None:
    assert "<td>&lt;script&gt;</td>" in render(facts, title="")


def test_a_log_without_incidents_has_a_page(facts: Facts) -> None:
    lists = {each.name: [] for each in fields(Facts) if isinstance(getattr(facts, each.name), list)}
    assert '<h2>Incidents</h2>\n<p class="none">None.</p>' in render(replace(facts, **lists), title="Nothing")
