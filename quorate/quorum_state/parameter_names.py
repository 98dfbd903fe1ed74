"""What the parameters are called that a message asks its reader to change."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterNames:
    """A broker's reader has a file of Kafka's keys, an embedder a `QuorumConfig`."""

    node_id: str
    folder: str
    voters: str
    bootstrap: str
    format_command: str
    change_voters: str


EMBEDDED: Final = ParameterNames(
    node_id="node_id",
    folder="folder",
    voters="voters",
    bootstrap="bootstrap",
    format_command="format_folder()",
    change_voters="Quorum.add_voter() and remove_voter()",
)
"""Fields of `QuorumConfig`, and functions of `quorate.raft`."""

SERVER: Final = ParameterNames(
    node_id="node.id",
    folder="log.dirs",
    voters="controller.quorum.voters",
    bootstrap="controller.quorum.bootstrap.servers",
    format_command="`quorate storage format`",
    change_voters="`quorate quorum add-voter` and `remove-voter`",
)
"""Keys of server.properties, and commands."""
