"""What scripts/kafka_tools has found, as rows for docs/compatibility.md."""

import json
from collections import Counter
from pathlib import Path

FOUND = Path(__file__).parent / "kafka_tools" / "results.json"
GROUPS = ("command line", "AdminClient", "confluent-kafka", "kafka-python", "aiokafka")
RESULTS = ("pass", "fail", "not served")


def _rows(group: str) -> list[dict[str, str]]:
    return [row for row in json.loads(FOUND.read_text()) if row["group"] == group]


def summary() -> list[tuple[object, ...]]:
    """By client: how many of each result."""
    found = []
    for group in GROUPS:
        counts = Counter(row["result"] for row in _rows(group))
        found.append((group, *(counts[result] for result in RESULTS)))
    return found


def tried(group: str) -> list[tuple[str, ...]]:
    """Area, command or call, what was checked, result. What is not served has its reason there."""
    return [
        (
            row["area"],
            f"`{row['call']}`",
            "" if row["result"] == "not served" else row["checked"],
            f"not served: {row['checked']}" if row["result"] == "not served" else row["result"],
        )
        for row in _rows(group)
    ]
