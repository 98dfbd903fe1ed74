"""FindCoordinator: the brokers that coordinate groups. The offsets topic is created when it is first asked
for.

A coordinator that this broker has just lost may be dead: its members come here and would be sent back to it.
So the answer waits until that is settled, as Metadata does.

"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypedDict

from kio.schema.errors import ErrorCode as WireErrorCode

from quorate.broker.access.needs import DENIED, denied_message, of_each
from quorate.broker.apis import answers
from quorate.broker.apis.api_row import ApiRow
from quorate.broker.apis.context import Broker, respond, respond_in_slices
from quorate.broker.apis.named_leaders import wait_settled
from quorate.broker.apis.producers import TRANSACTIONS_REASON, TRANSACTIONS_REFUSAL
from quorate.broker.groups.offsets_topic import OFFSETS_TOPIC, partition_of
from quorate.broker.metadata.acls import AclOperation, ResourceType
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import NO_LEADER
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.exchanges import Answer, Deferred, Refusal, RequestContext, Response
from quorate.error_code import ErrorCode

if TYPE_CHECKING:
    from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest

_GROUP: Final = 0
_TRANSACTION: Final = 1
_RESOURCES: Final = MappingProxyType(
    {_GROUP: ResourceType.GROUP, _TRANSACTION: ResourceType.TRANSACTIONAL_ID}
)
_AT_ONCE: Final = 100
"""The groups that are answered in one piece."""
_NOT_AVAILABLE: Final = WireErrorCode.coordinator_not_available


class _Found(TypedDict):
    """The coordinator of a group, or why there is none."""

    error_code: WireErrorCode
    error_message: str | None
    node_id: int
    host: str
    port: int


def handle_find_coordinator(
    broker: Broker, context: RequestContext, request: "FindCoordinatorRequest"
) -> Answer:
    if (
        request.key_type == _GROUP
        and broker.image.topic(OFFSETS_TOPIC) is None
        and any(_may_find(broker, context, request, key, audited=False) for key in request.coordinator_keys)
    ):
        return broker.later(lambda: _after_creation(broker, context, request))
    if request.key_type == _GROUP and (doubted := _doubted(broker, request)):
        return broker.later(lambda: _once_settled(broker, context, request, doubted))
    return _answer(broker, context, request)


def _may_find(
    broker: Broker,
    context: RequestContext,
    request: "FindCoordinatorRequest",
    key: str,
    *,
    audited: bool = True,
) -> bool:
    resource = _RESOURCES.get(request.key_type)
    return resource is None or broker.may(context, AclOperation.DESCRIBE, resource, key, audited=audited)


async def _after_creation(
    broker: Broker, context: RequestContext, request: "FindCoordinatorRequest"
) -> Response:
    error = await broker.topics.create_offsets_topic()
    if error is not ErrorCode.NONE:
        message = f"{OFFSETS_TOPIC} could not be created yet: {error.name}"
        answer = _respond(broker, context, request, lambda key: _no_coordinator(_NOT_AVAILABLE, message))
    else:
        answer = _answer(broker, context, request)
    return await answer.result() if isinstance(answer, Deferred) else answer


def _doubted(broker: Broker, request: "FindCoordinatorRequest") -> list[int]:
    """Return the coordinators that the answer would name and that may just have died. Of many groups, all
    that coordinate any."""
    lost = list(broker.replicas.lost_leaders.recent())
    if not lost:
        return []
    keys = request.coordinator_keys if len(request.coordinator_keys) <= _AT_ONCE else ()
    return [leader for leader in lost if _coordinates(broker.image, leader, keys)]


async def _once_settled(
    broker: Broker, context: RequestContext, request: "FindCoordinatorRequest", doubted: Sequence[int]
) -> Response:
    keys = request.coordinator_keys if len(request.coordinator_keys) <= _AT_ONCE else ()
    await wait_settled(broker, doubted, lambda image, leader: not _coordinates(image, leader, keys))
    answer = _answer(broker, context, request)
    return await answer.result() if isinstance(answer, Deferred) else answer


def _coordinates(image: MetadataImage, leader: int, group_ids: Sequence[str]) -> bool:
    """Return whether the broker leads the partition of one of these groups; without groups, any partition of
    the offsets topic."""
    partitions = image.named_partitions(OFFSETS_TOPIC)
    if not group_ids:
        return any(each.leader == leader for each in partitions)
    return bool(partitions) and any(
        partitions[partition_of(group_id, len(partitions))].leader == leader for group_id in group_ids
    )


def _answer(
    broker: Broker, context: RequestContext, request: "FindCoordinatorRequest"
) -> Response | Deferred:
    if request.key_type not in (_GROUP, _TRANSACTION):
        # The coordinators of share groups (version 6) are of a kind that is not here.
        message = f"there are no coordinators of key type {request.key_type}"
        return _respond(
            broker, context, request, lambda key: _no_coordinator(WireErrorCode.invalid_request, message)
        )
    if request.key_type == _TRANSACTION:
        return _respond(
            broker, context, request, lambda key: _no_coordinator(TRANSACTIONS_REFUSAL, TRANSACTIONS_REASON)
        )
    listener = context.connection.listener
    return _respond(broker, context, request, lambda key: _coordinator(broker, key, listener))


def _respond(
    broker: Broker,
    context: RequestContext,
    request: "FindCoordinatorRequest",
    find: Callable[[str], _Found],
) -> Response | Deferred:
    """Answer for the groups; many in slices. The client is told of those that it may describe."""

    def found_for(key: str) -> _Found:
        if _may_find(broker, context, request, key):
            return find(key)
        code = DENIED[_RESOURCES[request.key_type]]
        return _no_coordinator(code, denied_message(code))

    # From version 4 on errors belong to the keys: kafka-python asks again 600 times a second otherwise.
    keys = request.coordinator_keys
    if context.version < 4:
        return respond(context, _alone(found_for(*keys)))
    found = (answers.FindCoordinatorCoordinator(key=key, **found_for(key)) for key in keys)
    if len(keys) <= _AT_ONCE:
        return respond(context, answers.FindCoordinatorResponse(coordinators=found))
    return respond_in_slices(context, answers.FindCoordinatorResponse(coordinators=found))


def _alone(found: _Found) -> answers.FindCoordinatorResponse:
    """Return the answer for one group, before version 4."""
    return {**found, "coordinators": (), "throttle_time": timedelta(0)}


def _coordinator(broker: Broker, group_id: str, listener: str) -> _Found:
    partitions = broker.image.named_partitions(OFFSETS_TOPIC)
    if not group_id:
        return _no_coordinator(WireErrorCode.invalid_group_id, "the group id is empty")
    if not partitions:
        return _no_coordinator(_NOT_AVAILABLE, f"{OFFSETS_TOPIC} is gone")
    partition = partition_of(group_id, len(partitions))
    leader = partitions[partition].leader
    if leader == broker.config.node_id and broker.replicas.lookups.sends_clients_away(
        OFFSETS_TOPIC, partition
    ):
        leader = NO_LEADER
    # The same address as in Metadata: librdkafka takes this one for the node otherwise.
    endpoint = None if leader == NO_LEADER else broker.endpoint(leader, listener)
    if endpoint is None:
        return _no_coordinator(_NOT_AVAILABLE, "the group's partition has no leader")
    return {
        "error_code": WireErrorCode.none,
        "error_message": None,
        "node_id": leader,
        "host": endpoint.host,
        "port": endpoint.port,
    }


def _no_coordinator(error: WireErrorCode, message: str | None) -> _Found:
    return {"error_code": error, "error_message": message, "node_id": -1, "host": "", "port": -1}


def _refuse(request: "FindCoordinatorRequest", refusal: Refusal) -> answers.FindCoordinatorResponse:
    missing = _no_coordinator(refusal.code, refusal.message)
    if refusal.version < 4:
        return _alone(missing)
    return {"coordinators": ({"key": key, **missing} for key in request.coordinator_keys)}


ROWS: Final = (
    ApiRow["FindCoordinatorRequest"](
        ApiKey.FIND_COORDINATOR.api,
        _refuse,
        needs=(
            of_each(AclOperation.DESCRIBE, ResourceType.GROUP),
            of_each(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
        ),
        brokers=handle_find_coordinator,
    ),
)
