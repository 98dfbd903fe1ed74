"""Arguments of the quorum's calls, checked before anything is done."""

from quorate.raft.quorum_errors import InvalidArgumentError
from quorate.types import Voter


def check_duration(name: str, milliseconds: int | None) -> None:
    """Raises `InvalidArgumentError`."""
    if milliseconds is not None and not milliseconds >= 0:
        raise InvalidArgumentError(f"{name} is {milliseconds}; it must be 0 or more, in ms")


def check_new_voter(voter: Voter) -> None:
    """Raises `InvalidArgumentError`."""
    if voter.key.directory_id is None:
        raise InvalidArgumentError(
            f"voter.key.directory_id of node {voter.key.id} is None; a voter in the log is a node and its "
            "disk. The node's meta.properties has its directory.id, and so have the observers of "
            "ask_description() while the node runs"
        )
