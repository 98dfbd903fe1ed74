"""Voters in text: id@host:port:directory-id, as in Kafka's --initial-controllers."""

from typing import TYPE_CHECKING

from quorate.cli.console.cli_errors import UsageError

if TYPE_CHECKING:
    from quorate.broker.node_config.server_config import ServerConfig
    from quorate.types import Voter, VoterSet


def parse_voter(text: str) -> "Voter":
    """Parse a voter. Raises `UsageError`."""
    from quorate.runtime import Address
    from quorate.types import Endpoint, NodeId, ReplicaKey, Voter

    node, _, rest = text.strip().partition("@")
    address_text, _, directory = rest.rpartition(":")
    try:
        if not node.isdecimal():
            raise ValueError("the part before '@' must be a node id")
        address = Address.parse(address_text)
        directory = parse_directory(directory)
    except ValueError as error:
        raise UsageError(f"{text!r}: {error}; write id@host:port:directory-id") from None
    return Voter(ReplicaKey(NodeId(int(node)), directory), Endpoint(address.host, address.port))


def parse_directory(text: str) -> str:
    """Parse a directory id, as `quorate storage info` shows it. Raises `ValueError`."""
    from quorate.runtime import parse_uuid, uuid_text

    try:
        return uuid_text(parse_uuid(text))
    except ValueError:
        raise ValueError(f"{text!r} is no directory id; `quorate storage info` shows a node's") from None


def parse_voters_with_directories(text: str) -> "VoterSet":
    """Parse voters separated by commas. Raises `UsageError`."""
    from quorate.types import VoterSet

    voters = [parse_voter(part) for part in text.split(",") if part.strip()]
    if not voters:
        raise UsageError("no controller is named; write id@host:port:directory-id, separated by commas")
    try:
        return VoterSet(tuple(sorted(voters, key=lambda voter: voter.key.id)))
    except ValueError as error:
        raise UsageError(str(error)) from None


def voter_of_folder(config: "ServerConfig") -> "Voter":
    """Return the node of this configuration on this machine, with the directory id of its folder. Raises
    `UsageError` for a node that is no controller, and `QuorumStateError`."""
    from quorate.quorum_state import load_meta_properties
    from quorate.runtime import uuid_text
    from quorate.runtime.real import SyncStrategy, real_runtime
    from quorate.types import ReplicaKey, Voter

    endpoint = config.quorum(cluster_id="any").own_endpoint
    if not config.is_controller or endpoint is None:
        raise UsageError(
            f"node {config.node_id} is no controller; add controller to its process.roles and start it again"
        )
    folder = config.metadata_log_dir
    meta = load_meta_properties(real_runtime(sync=SyncStrategy.INLINE).disk, folder)
    meta.check(folder, node_id=config.node_id)
    return Voter(ReplicaKey(config.node_id, uuid_text(meta.directory_id)), endpoint)
