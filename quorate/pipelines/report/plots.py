"""The plots of a report."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from quorate.pipelines.report.facts import BUCKET_MS, Facts, Rows
from quorate.pipelines.report.story import incident_title


def timeline(facts: Facts) -> "go.Figure":
    """Return the outages of brokers above the number of partitions that they concerned."""
    figure = make_subplots(
        rows=2,
        shared_xaxes=True,
        vertical_spacing=0.08,
        subplot_titles=("brokers out of service", "partitions under-replicated, and without a leader"),
    )
    for incident in facts.incidents:
        begin = incident["last_heard"] or incident["valid_from"]
        end = incident["valid_to"] or facts.last_ms
        figure.add_trace(
            go.Bar(
                base=[_time(begin)],
                x=[end - begin],
                y=[f"broker {incident['broker_id']}"],
                orientation="h",
                hovertext=incident_title(incident),
                showlegend=False,
            ),
            row=1,
            col=1,
        )
    for name, changes in (("under-replicated", facts.under_replicated), ("leaderless", facts.leaderless)):
        figure.add_trace(
            go.Scatter(
                x=[_time(each["bucket_ms"]) for each in changes],
                y=list(accumulate(each["change"] for each in changes)),
                name=name,
                line_shape="hv",
            ),
            row=2,
            col=1,
        )
    figure.update_xaxes(type="date", range=[_time(facts.first_ms), _time(facts.last_ms)])
    return figure.update_layout(barmode="overlay")


def outage_distribution(facts: Facts) -> "go.Figure":
    """Return how long partitions had to wait for another leader."""
    figure = go.Figure(
        [
            go.Bar(
                x=[each["outage_ms"] / 1000 for each in rows],
                y=[each["elections"] for each in rows],
                name=reason or "no reason recorded",
                width=BUCKET_MS / 1000,
                offset=0,
            )
            for reason, rows in _by(facts.outages, lambda each: each["reason"])
        ]
    )
    return figure.update_layout(
        barmode="stack",
        xaxis={"title": "seconds without a leader", "minallowed": 0},
        yaxis_title="elections",
    )


def leaders_over_time(facts: Facts) -> "go.Figure":
    """Return the number of partitions that each broker led."""
    figure = go.Figure(
        [
            go.Scatter(
                x=[_time(each["bucket_ms"]) for each in rows],
                y=[each["leaders"] for each in rows],
                name=f"broker {broker}",
                line_shape="hv",
            )
            for broker, rows in _by(facts.leaders, lambda each: each["broker"])
        ]
    )
    return figure.update_layout(yaxis_title="partitions led")


def _time(timestamp_ms: int) -> datetime:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC)


def _by(rows: Rows, key: Callable[[dict[str, Any]], Any]) -> Iterable[tuple[Any, Rows]]:
    """Return the rows by key, in the order of their first rows."""
    found: dict[Any, Rows] = {}
    for each in rows:
        found.setdefault(key(each), []).append(each)
    return found.items()
