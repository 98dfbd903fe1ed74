"""The page of problems, the table of alerts, Prometheus' rules and the dashboards' panels of problems."""

import json
import re
import string
from collections.abc import Iterator
from pathlib import Path

from page_parts import table

from quorate.health.catalogue import CATALOGUE, Alert, ProblemKind

_WHERE = "{{ $labels.job }} {{ $labels.instance }}: "
_REACH = "-b HOST:PORT"
_WORDS = {
    "brokers": _REACH,
    "reach": _REACH,
    "candidates": "the brokers of its ISR or ELR",
    "missing": "the brokers that are missing in the ISR",
    "begin": "Start the brokers for which it waits, or cancel",
    "moves": "the move",
    "cancel": "echo 'MOVES' > cancel.json; quorate reassign-partitions cancel "
    "--reassignment-json-file cancel.json",
}
"""The words for placeholders that are not a name in capitals."""


def _remedy(kind: ProblemKind) -> str:
    """Return the remedy with words in capitals where a cluster has its names."""
    names = {name for _, name, _, _ in string.Formatter().parse(kind.remedy) if name}
    return kind.remedy.format(**{name: _WORDS.get(name, name.upper()) for name in names})


def _alerts() -> Iterator[tuple[ProblemKind, Alert]]:
    return ((kind, kind.alert) for kind in CATALOGUE if kind.alert is not None)


def problems() -> str:
    """Return a section for each problem."""
    return "\n\n".join(_section(kind) for kind in CATALOGUE)


def _section(kind: ProblemKind) -> str:
    more = "" if kind.page == kind.section else f" [More](../{kind.page.removeprefix('docs/')})."
    alert = "No metric tells, so there is no alert."
    if kind.alert is not None:
        alert = f"Alert: {kind.alert.words}."
    return (
        f"## {kind.name}\n\n*{kind.severity.word}:* ... {kind.title}. {kind.meaning}\n\n"
        f"It threatens: {kind.threatens}\n\nRemedy: {_remedy(kind)}.{more}\n\n{alert}"
    )


def alerts() -> str:
    """Return the table of alerts."""
    return table(
        ("alert", "severity", "expression", "for"),
        (
            (
                f"[{kind.name}](../{kind.section.removeprefix('docs/')})",
                kind.severity.word,
                f"`{alert.expression}`",
                f"{alert.for_s} s" if alert.for_s else "",
            )
            for kind, alert in _alerts()
        ),
    )


def rules() -> str:
    """Return the file of Prometheus' rules. A JSON string is one in YAML."""
    lines = ["# Written by scripts/generate_docs.py from quorate/health/catalogue.py.", "groups:"]
    lines += ["  - name: quorate", "    rules:"]
    for kind, alert in _alerts():
        lines += [
            f"      - alert: {kind.name}",
            f"        expr: {json.dumps(alert.expression)}",
            *([f"        for: {alert.for_s}s"] if alert.for_s else []),
            f"        labels: {{severity: {kind.severity.word}}}",
            "        annotations:",
            f"          summary: {json.dumps(_WHERE + kind.title)}",
            f"          description: {json.dumps(kind.meaning)}",
            f"          threatens: {json.dumps(kind.threatens)}",
            f"          remedy: {json.dumps(_remedy(kind))}",
            f"          page: {kind.section}",
        ]
    return "\n".join(lines) + "\n"


_PANEL = 1000
"""The id of the panel that is written here. The others are written by hand."""


def dashboard(path: Path, *, of_any_quorum: bool) -> str:
    """Return a dashboard with its panel of problems: those that metrics of any quorum show, or the rest."""
    shown = json.loads(path.read_text())
    panels = [each for each in shown["panels"] if each["id"] != _PANEL]
    kinds = [
        (kind, alert)
        for kind, alert in _alerts()
        if all(name.startswith("raft_manager_") for name in _metrics(alert)) == of_any_quorum
    ]
    end = max(each["gridPos"]["y"] + each["gridPos"]["h"] for each in panels)
    panels.append(
        {
            "id": _PANEL,
            "type": "state-timeline",
            "title": "Problems",
            "description": "0: no. The alerts of dashboards/alerts.yml without their times. What mends "
            "them: docs/reference/problems.md.",
            "datasource": {"type": "prometheus", "uid": "${datasource}"},
            "gridPos": {"x": 0, "y": end, "w": 24, "h": 2 + len(kinds)},
            "fieldConfig": {
                "defaults": {
                    "unit": "short",
                    "thresholds": {
                        "mode": "absolute",
                        "steps": [{"color": "green", "value": None}, {"color": "red", "value": 1}],
                    },
                    "color": {"mode": "thresholds"},
                },
                "overrides": [],
            },
            "targets": [
                {
                    "refId": f"P{number}",
                    "expr": f"count({alert.expression}) or vector(0)",
                    "legendFormat": kind.name,
                }
                for number, (kind, alert) in enumerate(kinds)
            ],
        }
    )
    return json.dumps(shown | {"panels": panels}, indent=2) + "\n"


def _metrics(alert: Alert) -> list[str]:
    return re.findall(r"\b(?:raft_manager|kafka|quorate)_\w+", alert.expression)
