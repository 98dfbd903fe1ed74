"""The moves of replicas as the command line plans, begins and watches them."""

from quorate.cli.reassigning.assignment_files import (
    Assignments,
    Directories,
    Replica,
    dump_assignments,
    load_assignments,
    load_directories,
    load_topics,
)
from quorate.cli.reassigning.cluster_view import BrokerView, ClusterView, Move, read_cluster
from quorate.cli.reassigning.draining import Drain
from quorate.cli.reassigning.moves import (
    POLL_SECONDS,
    begin_moves,
    check_moves,
    end_throttles,
    summary,
)
from quorate.cli.reassigning.progress import Progress, progress_of
from quorate.cli.reassigning.reassignment_requests import alter_reassignments
from quorate.cli.reassigning.replica_plan import PlanError, drained, spread
from quorate.cli.reassigning.stuck_moves import StuckWatch, stuck_moves

__all__ = [
    "POLL_SECONDS",
    "Assignments",
    "BrokerView",
    "ClusterView",
    "Directories",
    "Drain",
    "Move",
    "PlanError",
    "Progress",
    "Replica",
    "StuckWatch",
    "alter_reassignments",
    "begin_moves",
    "check_moves",
    "drained",
    "dump_assignments",
    "end_throttles",
    "load_assignments",
    "load_directories",
    "load_topics",
    "progress_of",
    "read_cluster",
    "spread",
    "stuck_moves",
    "summary",
]
