"""What was tried of Kafka's tools and clients, one row each, and how it ended."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path


class Result(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    NOT_SERVED = "not served"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One command or call."""

    group: str
    """The table of the row: a client, or the command line."""
    area: str
    call: str
    checked: str
    """The claim that had to hold. For requests that are not served, the reason."""
    result: Result
    detail: str = ""
    """The difference that was found."""
    ms: int = 0


def write(rows: Iterable[Row], path: Path) -> None:
    path.write_text(json.dumps([asdict(row) for row in rows], indent=1, ensure_ascii=False) + "\n")
