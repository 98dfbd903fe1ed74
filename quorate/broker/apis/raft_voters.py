"""The common parts of the three requests for changes of voters (KIP-853)."""

import uuid
from collections.abc import Awaitable, Iterable
from typing import Final, Protocol

from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import ServingNode
from quorate.broker.wire import KafkaError, wire_code
from quorate.raft import InvalidArgumentError, NotLeaderError, OutcomeUnknownError, RequestRefusedError
from quorate.runtime import uuid_text
from quorate.types import Endpoint, NodeId, ReplicaKey

DEFAULT_TIMEOUT_MS: Final = 30_000
"""The time-out of requests without one."""


class NamedListener(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...


def check_cluster(node: ServingNode, cluster_id: str | None) -> None:
    """Check the cluster id, which may be missing. Raises `KafkaError`."""
    if cluster_id is not None and cluster_id != node.cluster_id:
        raise KafkaError(
            ErrorCode.inconsistent_cluster_id,
            f"the request is for cluster {cluster_id}, this is {node.cluster_id}",
        )


def voter_key(voter_id: int, directory_id: uuid.UUID | None) -> ReplicaKey:
    """Return the voter's key. Raises `KafkaError` for a key without the directory, which says which disk is
    meant."""
    if voter_id < 0:
        raise KafkaError(ErrorCode.invalid_request, f"the voter's id is {voter_id}; it must be 0 or more")
    if directory_id is None:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"voter {voter_id} is named without its directory id; it is in the node's meta.properties",
        )
    return ReplicaKey(NodeId(voter_id), uuid_text(directory_id))


def default_endpoint(node: ServingNode, listeners: Iterable[NamedListener]) -> Endpoint:
    """Return the endpoint of the listener that the quorum uses. Raises `KafkaError` if it is missing."""
    wanted = node.config.controller_listener_name
    for listener in listeners:
        if listener.name == wanted:
            if not listener.host or not listener.port:
                raise KafkaError(
                    ErrorCode.invalid_request, f"listener {wanted} names no host and port to reach"
                )
            return Endpoint(listener.host, listener.port)
    raise KafkaError(
        ErrorCode.invalid_request,
        f"the endpoint of the default listener {wanted} is missing; the quorum's nodes use no other",
    )


async def changed(change: Awaitable[None]) -> None:
    """Return when the change is committed. Raises `KafkaError` with the matching code."""
    try:
        await change
    except InvalidArgumentError as error:
        raise KafkaError(ErrorCode.invalid_request, str(error)) from error
    except RequestRefusedError as error:
        raise KafkaError(wire_code(error.code), str(error)) from error
    except NotLeaderError as error:
        # Nothing happened, so a client may repeat it.
        raise KafkaError(ErrorCode.not_leader_or_follower, str(error)) from error
    except OutcomeUnknownError as error:
        raise KafkaError(
            ErrorCode.request_timed_out,
            f"it is not known whether the voters changed ({error}); describe the quorum before repeating it",
        ) from error
