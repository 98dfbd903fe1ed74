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
    """The table that it belongs to: a client or the command line."""
    area: str
    call: str
    checked: str
    """What had to hold; for what is not served the reason."""
    result: Result
    detail: str = ""
    """What was found instead."""
    ms: int = 0

    @property
    def key(self) -> tuple[str, str, str]:
        return self.group, self.area, self.call


def write(rows: Iterable[Row], path: Path, *, whole: bool = False) -> None:
    """Without what differs from run to run, so that the file can be kept, if not `whole`."""
    left_out = () if whole else ("ms", "detail")
    kept = [{key: value for key, value in asdict(row).items() if key not in left_out} for row in rows]
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


def read(path: Path) -> list[Row]:
    return [Row(**{**each, "result": Result(each["result"])}) for each in json.loads(path.read_text())]
