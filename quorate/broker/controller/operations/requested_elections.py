"""ElectLeaders: an administrator asks for preferred leaders, or for leaders at any price (KIP-460)."""

from collections.abc import Mapping

from quorate.broker.controller.operations.elections import NoLeader, as_change
from quorate.broker.controller.operations.leaderships import Elections
from quorate.broker.controller.operations.outcome import Outcome, decide_each
from quorate.broker.controller.rpc import (
    ElectionType,
    ElectLeadersItem,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersResult,
)
from quorate.broker.metadata.api_error import ApiError
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import NO_LEADER, ChangeReason, PartitionChange
from quorate.broker.metadata.states import PartitionKey, PartitionState
from quorate.error_code import ErrorCode


def elect_leaders(
    image: MetadataImage,
    request: ElectLeadersRequest,
    *,
    static: Mapping[str, str],
    seen: set[PartitionKey] | None = None,
) -> Outcome[ElectLeadersResponse]:
    """Elect the leader of each partition, or say why not. An unclean election takes a replica that has every
    committed record if there is one, and any other if there is none, whatever the topic's setting. `seen`:
    the partitions of the request's earlier portions, to which these are added; one that is named again has
    its leader by then."""
    elections = Elections(image, static)
    seen = set() if seen is None else seen

    def decide(item: ElectLeadersItem) -> tuple[PartitionChange]:
        key, state = _found(image, item)
        if key in seen:
            raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, f"{_named(item)} is named twice in the request")
        seen.add(key)
        return (_change(elections, request.election_type, item, key, state),)

    def answer(item: ElectLeadersItem, error: ErrorCode, message: str | None) -> ElectLeadersResult:
        return ElectLeadersResult(
            topic=item.topic, partition_id=item.partition_id, error=error, error_message=message
        )

    results, groups = decide_each(request.partitions, decide, answer)
    return Outcome(response=ElectLeadersResponse(results=results), groups=groups)


def _named(item: ElectLeadersItem) -> str:
    return f"{item.topic}-{item.partition_id}"


def _found(image: MetadataImage, item: ElectLeadersItem) -> tuple[PartitionKey, PartitionState]:
    topic = image.topic(item.topic)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {item.topic}")
    key = PartitionKey(topic.topic_id, item.partition_id)
    state = image.partition(*key)
    if state is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {_named(item)}")
    return key, state


def _change(
    elections: Elections,
    election_type: ElectionType,
    item: ElectLeadersItem,
    key: PartitionKey,
    state: PartitionState,
) -> PartitionChange:
    if election_type is ElectionType.PREFERRED:
        if state.leader == state.replicas[0]:
            raise ApiError(
                ErrorCode.ELECTION_NOT_NEEDED,
                f"Broker {state.leader} is the first replica of {_named(item)} and leads it.",
            )
        election = elections.preferred(key, state)
        if isinstance(election, NoLeader):
            raise ApiError(
                ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
                f"Broker {state.replicas[0]} can't lead {_named(item)}: {election.value}.",
            )
        reason = ChangeReason.PREFERRED_LEADER
    else:
        if state.leader != NO_LEADER:
            raise ApiError(
                ErrorCode.ELECTION_NOT_NEEDED, f"Broker {state.leader} leads {_named(item)} already."
            )
        election = elections.offline(key, state, unclean=True)
        if election.none is not None:
            raise ApiError(
                ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                f"No broker can lead {_named(item)}: {election.none.value}.",
            )
        reason = ChangeReason.ELECTION_ASKED_FOR
    change = as_change(key, state, election, cause=reason)
    if change is None:
        # The checks above leave no election that changes nothing.
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, f"{_named(item)} has that leader already.")
    return change
