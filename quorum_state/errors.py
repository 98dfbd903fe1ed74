"""Why a node refuses to start on what its directory says about itself.

None of these is ever answered with a reset: a node that forgets its vote may vote twice in one epoch.
"""

REPLACE = (
    "Restore the file from this node's disk if you can. Otherwise the node's vote is lost: move the "
    "directory away, format an empty one (`quorate storage format`) and let the node come back as a new "
    "replica; docs/how-to/replace-a-disk.md says when that is safe."
)


class QuorumStateError(Exception):
    """The durable identity or vote can't be used. `path` names the file."""

    def __init__(self, path: str, problem: str, remedy: str) -> None:
        super().__init__(f"{path}: {problem}. {remedy}")
        self.path = path


class MissingStateError(QuorumStateError):
    """The file does not exist, but must."""


class ForeignStateError(QuorumStateError):
    """The file belongs to another cluster or node."""


class UnknownVersionError(QuorumStateError):
    """A version of quorate that this one does not know wrote the file."""


class UnreadableStateError(QuorumStateError):
    """The file is truncated, damaged or contradicts itself."""
