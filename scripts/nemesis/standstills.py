"""How long stock clients stood still by each fault: kept from run to run, and as a table."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One fault. Gaps are the longest of any partition, from the fault until all worked again."""

    fault: str
    held_s: float
    """The time from the fault until it was healed."""
    back_s: float
    """The time from then until all replicas were in sync and everything was read."""
    producers_s: dict[str, float]
    """The time between two acknowledgements, by client."""
    group_s: float
    """The time between two records of a partition that the group read for the first time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """The results of one run."""

    date: str
    seed: int
    seconds: float
    acknowledged: int
    read: int
    problems: list[str]
    rounds: list[Round]


def load_pieces(file: Path) -> list[Piece]:
    if not file.exists():
        return []
    return [
        Piece(**{**each, "rounds": [Round(**of) for of in each["rounds"]]})
        for each in json.loads(file.read_text())
    ]


def add_piece(file: Path, piece: Piece) -> None:
    pieces = [asdict(each) for each in (*load_pieces(file), piece)]
    file.write_text(json.dumps(pieces, indent=1) + "\n")


def table_of(pieces: Sequence[Piece]) -> str:
    """Return a table in Markdown, with seconds as "median, longest"."""
    rounds: dict[str, list[Round]] = {}
    for each in (of for piece in pieces for of in piece.rounds):
        rounds.setdefault(each.fault, []).append(each)
    clients = list(dict.fromkeys(kind for of in rounds.values() for each in of for kind in each.producers_s))
    columns = [
        "fault",
        "rounds",
        "held",
        *(f"producer, {kind}" for kind in clients),
        "group",
        "all in sync after",
    ]
    lines = [f"| {' | '.join(columns)} |", "|---|" + "---:|" * (len(columns) - 1)]
    for fault, of in sorted(rounds.items()):
        cells = [
            fault,
            str(len(of)),
            _seconds([each.held_s for each in of]),
            *(_seconds([each.producers_s[kind] for each in of]) for kind in clients),
            _seconds([each.group_s for each in of]),
            _seconds([each.back_s for each in of]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _seconds(of: Sequence[float]) -> str:
    return f"{statistics.median(of):.1f}, {max(of):.1f}"
