"""The errors for which a node refuses to start with its directory.

None of these is ever answered with a reset: a node that forgets its vote may vote twice in one epoch.
"""

REPLACE = (
    "Restore the file from this node's disk if you can. Otherwise the node's vote is lost: move the "
    "directory away, format an empty one (`quorate storage format`) and let the node come back as a new "
    "replica; docs/how-to/replace-a-disk.md says when that is safe."
)


_SHOWN_MAX = 300
"""The most characters of a problem, which may quote the file."""


class QuorumStateError(Exception):
    """The durable identity or vote can't be used. `path` names the file."""

    def __init__(self, path: str, problem: str, remedy: str) -> None:
        super().__init__(f"{path}: {_shown(problem)}. {remedy}")
        self.path = path


def _shown(problem: str) -> str:
    """Return the problem as one line without control characters."""
    shown = problem if len(problem) <= _SHOWN_MAX else f"{problem[:_SHOWN_MAX]}..."
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in shown)


class MissingStateError(QuorumStateError):
    """A required file does not exist."""


class ForeignStateError(QuorumStateError):
    """The file belongs to another cluster or node."""


class UnknownVersionError(QuorumStateError):
    """A version of quorate that this one does not know wrote the file."""


class UnreadableStateError(QuorumStateError):
    """The file is truncated, damaged or contradicts itself."""
