"""The names of parameters in messages, for readers of server.properties and for embedders."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterNames:
    """The names of parameters in messages: keys of server.properties for a broker, fields of `QuorumConfig`
    for an embedded quorum."""

    node_id: str
    folder: str
    voters: str
    bootstrap: str
    format_command: str
    change_voters: str
    tls_use: str


EMBEDDED: Final = ParameterNames(
    node_id="node_id",
    folder="folder",
    voters="voters",
    bootstrap="bootstrap",
    format_command="format_folder()",
    change_voters="Quorum.add_voter() and remove_voter()",
    tls_use="tls_use",
)
"""The fields of `QuorumConfig`, and the functions of `quorate.raft`."""

SERVER: Final = ParameterNames(
    node_id="node.id",
    folder="log.dirs",
    voters="controller.quorum.voters",
    bootstrap="controller.quorum.bootstrap.servers",
    format_command="`quorate storage format`",
    change_voters="`quorate quorum add-voter` and `remove-voter`",
    tls_use="controller.tls.use",
)
"""The keys of server.properties, and the commands of `quorate`."""
