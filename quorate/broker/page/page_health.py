"""The health that the page shows. The catalogue of problems stands above the broker: who starts a node hands
in what knows it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from quorate.broker.page.node_view import NodeView
from quorate.broker.page.page_state import Json, Seen
from quorate.broker.page.replayed import PageLog

PROBLEMS_MAX: Final = 50
"""Problems that are told; more are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemView:
    """A problem of the cluster, in words."""

    name: str
    """Its id in the catalogue."""
    severity: str
    where: str
    title: str
    why: str
    """Empty: nothing tells."""
    since_ms: int | None
    """None: longer than is known."""
    until_ms: int | None
    """It is over, and named until then. None: as long as its cause lasts."""
    meaning: str
    """When a problem of this kind is there."""
    threatens: str
    remedy: str
    """Commands are between backticks."""
    alert: str | None
    """What Prometheus says of it, the expression between backticks. None: no metric tells."""
    pages: tuple[str, ...]
    """Where there is more in the documentation: paths, from the root of the repository."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceView:
    """Where a part of what is known of the cluster is from."""

    source: str
    at_ms: int | None
    """When it was learnt. None: nothing is known of it."""
    problem: str | None = None
    """Why nothing is known."""
    is_elsewhere: bool = False
    """True: this page never knows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthView:
    """The problems of a cluster at one moment, the worst first, and what they were found in."""

    offset: int
    problems: Sequence[ProblemView]
    """At most `PROBLEMS_MAX`."""
    total: int
    """The number of all."""
    sources: Sequence[SourceView]
    changes_since_ms: int | None
    """The times and reasons of changes are known from then on. None: from the first record on."""

    def as_dict(self) -> dict[str, Json]:
        """Return it for JSON."""
        return {
            "offset": self.offset,
            "total": self.total,
            "problems": [
                {
                    "name": each.name,
                    "severity": each.severity,
                    "where": each.where,
                    "title": each.title,
                    "why": each.why,
                    "since_ms": each.since_ms,
                    "until_ms": each.until_ms,
                    "meaning": each.meaning,
                    "threatens": each.threatens,
                    "remedy": each.remedy,
                    "alert": each.alert,
                    "pages": list(each.pages),
                }
                for each in self.problems
            ],
            "sources": [
                {
                    "source": each.source,
                    "at_ms": each.at_ms,
                    "problem": each.problem,
                    "elsewhere": each.is_elsewhere,
                }
                for each in self.sources
            ],
            "changes_since_ms": self.changes_since_ms,
        }


class PageHealth(Protocol):
    """Finds the problems of a cluster."""

    async def of_past(self, seen: Seen, log: PageLog) -> HealthView:
        """Return what the metadata alone said at an offset of the past."""
        ...

    async def of_present(self, live: NodeView, log: PageLog) -> HealthView:
        """Return what the metadata say, this node's own disks, and what the quorum's leader described
        last."""
        ...
