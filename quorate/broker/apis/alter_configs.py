"""AlterConfigs and IncrementalAlterConfigs: the checks of a broker, which come before those of the
controller, and the way there and back.

IncrementalAlterConfigs sets, deletes, appends to or subtracts from some keys of resources. AlterConfigs sets
keys and deletes those that it does not name; today's clients send the other.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import trio
from kio.schema.errors import ErrorCode as WireErrorCode

from quorate.broker.access.needs import denied_message
from quorate.broker.apis import answers
from quorate.broker.apis.api_row import ApiRow
from quorate.broker.apis.context import Broker, answer_later, encoded_in_slices
from quorate.broker.apis.loggers import Change, alter_loggers
from quorate.broker.controller.operations.alter_configs import MAX_VALUE_LENGTH
from quorate.broker.controller.permits import NEEDS
from quorate.broker.controller.rpc import (
    AlterConfigsItem,
    AlterConfigsRequest,
    AlterConfigsResponse,
    ConfigAlteration,
    ConfigOperation,
)
from quorate.broker.controller_channel import ControllerTimedOutError
from quorate.broker.metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from quorate.broker.metadata.api_error import ApiError
from quorate.broker.metadata.metadata_records import ConfigType
from quorate.broker.settings.all_keys import CONFIG_KEYS, DYNAMIC_KEYS
from quorate.broker.settings.config_key import ValueType
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.exchanges import Refusal, RequestContext, Response
from quorate.broker.wire.wire_errors import KafkaError, wire_code
from quorate.error_code import ErrorCode
from quorate.runtime import Steps, in_slices

if TYPE_CHECKING:
    from kio.schema.alter_configs.v2.request import AlterConfigsRequest as WireReplacement
    from kio.schema.incremental_alter_configs.v1.request import IncrementalAlterConfigsRequest

LOGGER: Final = 8
CLIENT_METRICS: Final = 16
MAX_CHANGES: Final = 10_000
"""The greatest number of keys in one request, and of resources. As in Kafka, whose controller writes no more
records in one operation."""
_MAX_CHANGES_OF_ONE: Final = 1000
"""Keys of one resource, which is altered in one step. None has a tenth as many."""
_TIMEOUT_SECONDS: Final = 30.0
_APPLIED_SECONDS: Final = 5.0
"""How long an answer waits for this broker's own metadata."""
_PORTION: Final = 1000
_PORTION_CHARACTERS: Final = 1 << 20
_NAME_CHARACTERS: Final = 1 << 12
_OPERATIONS: Final[Mapping[int, ConfigOperation]] = MappingProxyType(
    {int(each): each for each in ConfigOperation}
)


class AlteredResource(Protocol):
    """A resource of either request."""

    @property
    def resource_type(self) -> int: ...

    @property
    def resource_name(self) -> str: ...

    @property
    def configs(self) -> Sequence[object]: ...


Resource = TypeVar("Resource", bound=AlteredResource)


@dataclass(slots=True)
class AlteredConfig:
    """A resource with its answer, which is success until something is wrong."""

    type: int
    name: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None

    def refuse(self, error: ErrorCode, message: str | None) -> None:
        self.error, self.message = error, message


async def alter_resources(
    broker: Broker,
    context: RequestContext,
    resources: Sequence[Resource],
    changes_of: Callable[[Resource], list[Change]],
    *,
    validate_only: bool,
    replace_all: bool,
) -> Response:
    """Answer with a result for each resource, in the order of the request."""
    results, forwarded = await in_slices(
        checked(
            broker.config.node_id,
            resources,
            changes_of,
            lambda kind, name: check_may(broker, context, AclOperation.ALTER_CONFIGS, kind, name),
            validate_only=validate_only,
            replace_all=replace_all,
        )
    )
    offset = -1
    for portion in _portions(forwarded):
        request = AlterConfigsRequest(
            resources=tuple(item for _, item in portion), validate_only=validate_only, replace_all=replace_all
        )
        try:
            answer = await broker.ask_controller(context, request, timeout_seconds=_TIMEOUT_SECONDS)
        except ControllerTimedOutError as error:
            answer = AlterConfigsResponse(error=ErrorCode.REQUEST_TIMED_OUT, error_message=str(error))
        offset = max(offset, answer.metadata_offset)
        if answer.error is not ErrorCode.NONE:
            for result, _ in portion:
                result.refuse(answer.error, answer.error_message)
            continue
        for (result, _), altered in zip(portion, answer.resources, strict=True):
            result.refuse(altered.error, altered.error_message)
    with trio.move_on_after(_APPLIED_SECONDS):
        # The next DescribeConfigs at this broker shows the changes.
        await broker.metadata.wait_until(lambda image: image.offset >= offset)
    return await encoded_in_slices(
        context,
        answers.AlterConfigsResponse(
            responses=(
                {
                    "error_code": wire_code(result.error),
                    "error_message": result.message,
                    "resource_type": result.type,
                    "resource_name": result.name,
                }
                for result in results
            )
        ),
    )


_Forwarded = list[tuple[AlteredConfig, AlterConfigsItem]]


def _portions(items: _Forwarded) -> Iterator[_Forwarded]:
    portion: _Forwarded = []
    size = 0
    for result, item in items:
        length = sum(len(each.name) + len(each.value or "") for each in item.alterations)
        if portion and (len(portion) == _PORTION or size + length > _PORTION_CHARACTERS):
            yield portion
            portion, size = [], 0
        portion.append((result, item))
        size += length
    if portion:
        yield portion


def checked(
    node_id: int,
    resources: Sequence[Resource],
    changes_of: Callable[[Resource], list[Change]],
    check: Callable[[int, str], None],
    *,
    validate_only: bool,
    replace_all: bool,
) -> Steps[tuple[list[AlteredConfig], _Forwarded]]:
    """Make the checks of broker `node_id`, in Kafka's order (ConfigAdminManager), and change its loggers.
    `check` comes first: it raises `ApiError` for a resource (type and name) that the client may not change.
    Returns the results, and the items for the controller. Raises `KafkaError` for a request that is too
    large."""
    forwarded: _Forwarded = []
    total = 0
    for resource in resources:
        total += len(resource.configs)
        yield
    if total > MAX_CHANGES or len(resources) > MAX_CHANGES:
        raise KafkaError(
            WireErrorCode.policy_violation,
            f"one request may change {MAX_CHANGES} keys of {MAX_CHANGES} resources at most; send several",
        )
    results = [AlteredConfig(each.resource_type, each.resource_name) for each in resources]
    yield
    times = Counter((each.resource_type, each.resource_name) for each in resources)
    for resource, result in zip(resources, results, strict=True):
        yield
        try:
            check(result.type, result.name)
            if times[result.type, result.name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            if len(resource.configs) > _MAX_CHANGES_OF_ONE:
                raise ApiError(
                    ErrorCode.POLICY_VIOLATION,
                    f"one request may change {_MAX_CHANGES_OF_ONE} keys of a resource at most; send several",
                )
            changes = changes_of(resource)
            _check_changes(changes)
            if result.type == LOGGER and not replace_all:
                check_is_here(node_id, result.name)
                alter_loggers(changes, validate_only=validate_only)
                continue
            of = config_type(result.type)
            if of is ConfigType.BROKER:
                _check_broker(node_id, result.name, changes)
            item = _item(of, result.name, changes)
        except ApiError as error:
            result.refuse(error.code, error.message)
            continue
        forwarded.append((result, item))
    return results, forwarded


def _check_changes(changes: Sequence[Change]) -> None:
    twice = [name for name, count in Counter(each.name for each in changes).items() if count > 1]
    if twice:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Error due to duplicate config keys: {', '.join(twice):.1000}"
        )
    null = [each.name for each in changes if each.value is None and each.operation != ConfigOperation.DELETE]
    if null:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for: {', '.join(null):.1000}")


def config_type(number: int) -> ConfigType:
    """Return the kind of resource. Raises `ApiError` for one that the metadata doesn't hold."""
    if number == CLIENT_METRICS:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "Brokers take no client metrics (KIP-714), so that there is nothing to configure.",
        )
    try:
        return ConfigType(number)
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {number}") from None


def check_may(broker: Broker, context: RequestContext, operation: AclOperation, kind: int, name: str) -> None:
    """Raise `ApiError` if the client may not do `operation` with the configs of a resource. One of an unknown
    kind is refused as such."""
    match kind:
        case ConfigType.TOPIC:
            resource, code = ResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        case ConfigType.GROUP:
            resource, code = ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED
        case ConfigType.BROKER | 8 | 16:
            resource, code = ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            name = CLUSTER_NAME
        case _:
            return
    if not broker.may(context, operation, resource, name):
        raise ApiError(code, denied_message(wire_code(code)))


def check_is_here(own: int, name: str) -> None:
    """Refuse with `ApiError` another name than `own`, this broker's id."""
    if name != str(own):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {own}, but received {name:.100}; ask that broker itself",
        )


def _check_broker(node_id: int, name: str, changes: Sequence[Change]) -> None:
    """Here a bad value has INVALID_REQUEST, as in Kafka (KAFKA-13609)."""
    if name:
        check_is_here(node_id, name)
    for each in changes:
        operation = _operation(each)
        key = DYNAMIC_KEYS.get(each.name)
        if operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
            known = CONFIG_KEYS.get(each.name)
            if known is None or known.type is not ValueType.LIST:
                raise ApiError(
                    ErrorCode.INVALID_CONFIG,
                    f"Can't {operation.name} to key {each.name:.100} because its type is not LIST.",
                )
        if operation is ConfigOperation.DELETE or each.value is None:
            continue
        if key is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, _why_not_dynamic(each.name))
        if operation is ConfigOperation.SET:
            try:
                key.check(each.value)
            except ValueError as error:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"Invalid value {each.value:.100} for configuration {each.name}: {error}",
                ) from error


def _why_not_dynamic(name: str) -> str:
    key = CONFIG_KEYS.get(name)
    if key is None:
        return f"Cannot update {name:.100} dynamically: brokers have no such key."
    if key.why:
        return f"Cannot update {name} dynamically: {key.why}"
    return f"Cannot update {name} dynamically: set it in server.properties, and restart the broker."


def _operation(change: Change) -> ConfigOperation:
    operation = _OPERATIONS.get(change.operation)
    if operation is None:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Unknown operation type {change.operation} for {change.name:.100}"
        )
    return operation


def _item(of: ConfigType, name: str, changes: Sequence[Change]) -> AlterConfigsItem:
    """Return the item for the controller. Values that no request may hold are refused as the controller would
    refuse them."""
    alterations = tuple(
        ConfigAlteration(name=each.name, operation=_operation(each), value=each.value) for each in changes
    )
    for each in alterations:
        if len(each.value or "") > MAX_VALUE_LENGTH or len(each.name) > MAX_VALUE_LENGTH:
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"The value of {each.name:.100} may have {MAX_VALUE_LENGTH} characters at most.",
            )
    if sum(len(each.name) + len(each.value or "") for each in alterations) > _PORTION_CHARACTERS:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"one request may change {_PORTION_CHARACTERS} characters of a resource at most; send several",
        )
    if len(name) > _NAME_CHARACTERS:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION if of is ConfigType.TOPIC else ErrorCode.INVALID_REQUEST
        raise ApiError(code, f"the name {name:.40}... is longer than {_NAME_CHARACTERS} characters")
    # A value without effect is not sent: Kafka's tools delete with "".
    return AlterConfigsItem(
        resource_type=of,
        resource_name=name,
        alterations=tuple(
            replace(each, value=None) if each.operation is ConfigOperation.DELETE else each
            for each in alterations
        ),
    )


@answer_later
async def handle_incremental_alter_configs(
    broker: Broker, context: RequestContext, request: "IncrementalAlterConfigsRequest"
) -> Response:
    """Change configs. The answer waits until this broker's own metadata has them too."""
    return await alter_resources(
        broker,
        context,
        request.resources,
        lambda resource: [
            Change(entry.name, int(entry.config_operation), entry.value) for entry in resource.configs
        ],
        validate_only=request.validate_only,
        replace_all=False,
    )


@answer_later
async def handle_alter_configs(
    broker: Broker, context: RequestContext, request: "WireReplacement"
) -> Response:
    """Replace configs. The answer waits until this broker's own metadata has them too."""
    return await alter_resources(
        broker,
        context,
        request.resources,
        lambda resource: [
            Change(entry.name, int(ConfigOperation.SET), entry.value) for entry in resource.configs
        ],
        validate_only=request.validate_only,
        replace_all=True,
    )


def _refuse(
    request: "WireReplacement | IncrementalAlterConfigsRequest", refusal: Refusal
) -> answers.AlterConfigsResponse:
    return {
        "responses": (
            {
                "error_code": refusal.code,
                "error_message": refusal.message,
                "resource_type": each.resource_type,
                "resource_name": each.resource_name,
            }
            for each in request.resources
        )
    }


ROWS: Final = (
    ApiRow["WireReplacement"](
        ApiKey.ALTER_CONFIGS.api,
        _refuse,
        needs=NEEDS[AlterConfigsRequest],
        brokers=handle_alter_configs,
    ),
    ApiRow["IncrementalAlterConfigsRequest"](
        ApiKey.INCREMENTAL_ALTER_CONFIGS.api,
        _refuse,
        needs=NEEDS[AlterConfigsRequest],
        brokers=handle_incremental_alter_configs,
    ),
)
