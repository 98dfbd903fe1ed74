"""The health of a cluster: one catalogue of problems, and what finds them in an observation of a cluster.

`CATALOGUE` says of each problem what it threatens and what mends it. The command `quorate cluster health`,
the page of a node, the alert rules of Prometheus and the reference of problems are made of it. `observe`
learns of a cluster what can be learnt in some seconds, `diagnose` names the problems in that.
"""

from typing import TYPE_CHECKING

from quorate.lazy_names import lazily

if TYPE_CHECKING:
    from quorate.health.catalogue import CATALOGUE, Alert, ProblemKind, Severity
    from quorate.health.diagnosis import Problem, diagnose
    from quorate.health.observation import MetadataFacts, Observation
    from quorate.health.observing import RecentChangesReader, metadata_facts, observe
    from quorate.health.page_health import PageDiagnosis

_HOMES = {
    "CATALOGUE": "quorate.health.catalogue",
    "Alert": "quorate.health.catalogue",
    "ProblemKind": "quorate.health.catalogue",
    "Severity": "quorate.health.catalogue",
    "Problem": "quorate.health.diagnosis",
    "diagnose": "quorate.health.diagnosis",
    "MetadataFacts": "quorate.health.observation",
    "Observation": "quorate.health.observation",
    "PageDiagnosis": "quorate.health.page_health",
    "RecentChangesReader": "quorate.health.observing",
    "metadata_facts": "quorate.health.observing",
    "observe": "quorate.health.observing",
}

__getattr__ = lazily(__name__, _HOMES)

__all__ = [
    "CATALOGUE",
    "Alert",
    "MetadataFacts",
    "Observation",
    "PageDiagnosis",
    "Problem",
    "ProblemKind",
    "RecentChangesReader",
    "Severity",
    "diagnose",
    "metadata_facts",
    "observe",
]
