"""The page of a report: one file of HTML that needs no other."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

from quorate.pipelines.report.facts import Facts, Rows
from quorate.pipelines.report.plots import leaders_over_time, outage_distribution, timeline
from quorate.pipelines.report.story import duration_text, incident_story, incident_title, summary, time_text

_PAGE: Final = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; color: #222; }}
section {{ margin: 2.5rem 0; }}
article {{ border-left: 4px solid #c0392b; padding-left: 1rem; margin: 1.2rem 0; }}
article h3 {{ margin: 0; }}
table {{ border-collapse: collapse; font-size: 13px; display: block; overflow-x: auto; }}
th, td {{ text-align: left; padding: 0.2rem 0.7rem; border-bottom: 1px solid #ddd; }}
td.number {{ text-align: right; font-variant-numeric: tabular-nums; }}
.none {{ color: #777; }}
</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""


def render(facts: Facts, *, title: str) -> str:
    """Return the report."""
    figures = (
        ("When it was", timeline),
        ("Time to a new leader", outage_distribution),
        ("Who led", leaders_over_time),
    )
    plots = [
        _section(
            heading,
            # The first brings the library for all.
            plot(facts)
            .update_layout(margin={"t": 50, "b": 50})
            .to_html(full_html=False, include_plotlyjs=number == 0, default_height=380),
        )
        for number, (heading, plot) in enumerate(figures)
    ]
    plots[1] += _table(facts.new_leaders)
    tables = {
        "Topics": facts.topics,
        "Reassignments": facts.reassignments,
        "Elections of the active controller": facts.controller_failovers,
        "What took longest": facts.slowest_changes,
        "Where leaders changed most": facts.leadership_churn,
    }
    parts = [
        *(f"<p>{escape(sentence)}</p>" for sentence in summary(facts)),
        _section("Incidents", "".join(map(_incident, facts.incidents)) or _none()),
        *plots,
        *(_section(heading, _table(rows)) for heading, rows in tables.items()),
    ]
    return _PAGE.format(title=escape(title), body="\n".join(parts))


def write_page(file: Path, facts: Facts, *, title: str) -> None:
    """Write the report into a file, which it replaces as a whole."""
    temporary = file.with_name(f".{file.name}.new")
    temporary.write_text(render(facts, title=title), encoding="utf-8")
    temporary.replace(file)


def _section(heading: str, content: str) -> str:
    return f"<section><h2>{escape(heading)}</h2>\n{content}</section>"


def _none() -> str:
    return '<p class="none">None.</p>'


def _incident(incident: dict[str, Any]) -> str:
    sentences = " ".join(escape(sentence) for sentence in incident_story(incident))
    return f"<article><h3>{escape(incident_title(incident))}</h3><p>{sentences}</p></article>"


_LEFT_OUT: Final = {"topic_id", "from_row", "to_row", "last_row", "last_offset", "record_type"}


def _table(rows: Rows) -> str:
    if not rows:
        return _none()
    columns = [name for name in rows[0] if name not in _LEFT_OUT]
    head = "".join(f"<th>{escape(_heading(name))}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(_cell(name, row[name]) for name in columns)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _heading(name: str) -> str:
    return name.removesuffix("_ms").replace("_", " ")


_TIMES: Final = ("valid_from", "valid_to", "last_change", "first_change", "timestamp", "last_heard")


def _cell(name: str, value: Any) -> str:
    if name in _TIMES:
        return f"<td>{time_text(value)}</td>"
    if name.endswith("_ms"):
        return f'<td class="number">{duration_text(value)}</td>'
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"<td>{escape(', '.join(map(str, value)))}</td>"
    if isinstance(value, int) and not isinstance(value, bool):
        return f'<td class="number">{value}</td>'
    return f"<td>{'' if value is None else escape(str(value))}</td>"
