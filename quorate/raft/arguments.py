"""Arguments of the quorum's calls, checked before anything is done."""

from collections.abc import Sequence
from typing import Final

from quorate.raft.quorum_errors import InvalidAppendError, InvalidArgumentError
from quorate.types import Voter


def check_duration(name: str, milliseconds: int | None) -> None:
    """Raises `InvalidArgumentError`."""
    if milliseconds is not None and not milliseconds >= 0:
        raise InvalidArgumentError(f"{name} is {milliseconds}; it must be 0 or more, in ms")


def check_offset(name: str, offset: int | None) -> None:
    """Raises `InvalidArgumentError`."""
    if offset is not None and not offset >= 0:
        raise InvalidArgumentError(f"{name} is {offset}; it must be 0 or more, and 0 is the log's beginning")


def check_records(records: Sequence[bytes]) -> None:
    """Raises `InvalidAppendError`."""
    if not records:
        raise InvalidAppendError("an append needs at least one record")
    for record in records:
        if not isinstance(record, bytes):
            raise InvalidAppendError(f"records must be bytes, not {type(record).__name__}")


_MOST_HOST_CHARACTERS: Final = 255
"""The limit of a DNS name. All nodes keep the host, and send it in many of their messages."""


def check_endpoint(voter: Voter) -> None:
    """Raises `InvalidArgumentError`."""
    size = len(voter.endpoint.host)
    if size > _MOST_HOST_CHARACTERS:
        raise InvalidArgumentError(
            f"voter.endpoint.host of node {voter.key.id} has {size} characters; a host has at most "
            f"{_MOST_HOST_CHARACTERS}"
        )


def check_new_voter(voter: Voter) -> None:
    """Raises `InvalidArgumentError`."""
    check_endpoint(voter)
    if voter.key.directory_id is None:
        raise InvalidArgumentError(
            f"voter.key.directory_id of node {voter.key.id} is None; a voter in the log is a node and its "
            "disk. The node's meta.properties has its directory.id, and so have the observers of "
            "ask_description() while the node runs"
        )
