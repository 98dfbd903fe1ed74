"""Is a cluster well? One catalogue of problems, and what finds them in an observation of a cluster.

`CATALOGUE` says of each problem what it threatens and what mends it. The command `quorate cluster health`,
the alert rules of Prometheus and the page of problems are made of it. `observe` learns of a cluster what can
be learnt in some seconds, `diagnose` names the problems in that.
"""

from typing import TYPE_CHECKING

from quorate.lazy_names import lazily

if TYPE_CHECKING:
    from quorate.health.catalogue import CATALOGUE, Alert, ProblemKind, Severity
    from quorate.health.diagnosis import Problem, diagnose
    from quorate.health.observation import Observation
    from quorate.health.observing import observe

_HOMES = {
    "CATALOGUE": "quorate.health.catalogue",
    "Alert": "quorate.health.catalogue",
    "ProblemKind": "quorate.health.catalogue",
    "Severity": "quorate.health.catalogue",
    "Problem": "quorate.health.diagnosis",
    "diagnose": "quorate.health.diagnosis",
    "Observation": "quorate.health.observation",
    "observe": "quorate.health.observing",
}

__getattr__ = lazily(__name__, _HOMES)

__all__ = [
    "CATALOGUE",
    "Alert",
    "Observation",
    "Problem",
    "ProblemKind",
    "Severity",
    "diagnose",
    "observe",
]
