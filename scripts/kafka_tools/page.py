"""docs/compatibility.md: what Kafka's tools and clients can do, as the last `--write` found it."""

import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from rows import Result, Row

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from page_parts import filled, split, table  # noqa: E402

PAGE = ROOT / "docs" / "compatibility.md"
GROUPS = ("command line", "AdminClient", "confluent-kafka", "kafka-python", "aiokafka")
BY = "scripts/kafka_tools --write"
_CELLS = re.compile(r"(?<!\\)\|")


def write(rows: Sequence[Row]) -> None:
    parts: dict[str, Callable[[], str]] = {name: partial(_tried, rows, name) for name in GROUPS}
    PAGE.write_text(filled(PAGE.read_text(), {"summary": partial(_summary, rows), **parts}, by=BY))


def told() -> Mapping[tuple[str, str, str], str]:
    """Return the result of each row of the page, by group, area, and command or call."""
    text = PAGE.read_text()
    found = {}
    for group in GROUPS:
        _, part, _ = split(text, group, by=BY)
        for line in part.strip().splitlines()[2:]:
            area, call, _, result = (
                cell.strip().replace("\\|", "|") for cell in _CELLS.split(line.strip()[1:-1])
            )
            found[group, area, call.strip("`")] = result.partition(":")[0]
    return found


def _summary(rows: Sequence[Row]) -> str:
    counts = Counter((row.group, row.result) for row in rows)
    return table(
        ("client", *Result), ((group, *(counts[group, each] for each in Result)) for group in GROUPS)
    )


def _tried(rows: Sequence[Row], group: str) -> str:
    return table(
        ("area", "command or call", "checked", "result"),
        (
            (
                row.area,
                f"`{row.call}`",
                "" if row.result is Result.NOT_SERVED else row.checked,
                f"not served: {row.checked}" if row.result is Result.NOT_SERVED else row.result,
            )
            for row in rows
            if row.group == group
        ),
    )
