"""The moves of replicas as the command line plans, begins and watches them."""

from quorate.cli.reassigning.assignment_files import (
    dump_assignments,
    load_assignments,
    load_directories,
    load_topics,
)
from quorate.cli.reassigning.draining import Drain
from quorate.cli.reassigning.moves import (
    POLL_SECONDS,
    begin_moves,
    check_moves,
    end_throttles,
    progress_of,
)
from quorate.cli.reassigning.replica_plan import spread

__all__ = [
    "POLL_SECONDS",
    "Drain",
    "begin_moves",
    "check_moves",
    "dump_assignments",
    "end_throttles",
    "load_assignments",
    "load_directories",
    "load_topics",
    "progress_of",
    "spread",
]
