"""IncrementalAlterConfigs: set, delete, append to and subtract from configuration keys."""

from quorate.broker.controller.operations.outcome import Outcome
from quorate.broker.controller.rpc import (
    AlterConfigsItem,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterConfigsResult,
    ConfigAlteration,
    ConfigOperation,
)
from quorate.broker.metadata import (
    BROKER_KEYS,
    TOPIC_KEYS,
    ApiError,
    Config,
    ConfigResource,
    ConfigType,
    MetadataImage,
    ValueType,
    check_value,
    split_list,
)
from quorate.error_code import ErrorCode


def alter_configs(
    image: MetadataImage, request: AlterConfigsRequest, *, seen: set[ConfigResource] | None = None
) -> Outcome[AlterConfigsResponse]:
    """Each resource is altered whole or, with an error, not at all. `seen`: those of the request's earlier
    portions, to which these are added."""
    results: list[AlterConfigsResult] = []
    groups: list[tuple[Config, ...]] = []
    seen = set() if seen is None else seen
    for item in request.resources:
        resource = ConfigResource(item.resource_type, item.resource_name)
        try:
            if resource in seen:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            seen.add(resource)
            records = _alter(image, resource, item)
        except ApiError as error:
            results.append(
                AlterConfigsResult(
                    resource_type=item.resource_type,
                    resource_name=item.resource_name,
                    error=error.code,
                    error_message=error.message,
                )
            )
            continue
        results.append(AlterConfigsResult(resource_type=item.resource_type, resource_name=item.resource_name))
        if records:
            groups.append(records)
    response = AlterConfigsResponse(resources=tuple(results))
    return Outcome(response=response, groups=() if request.validate_only else tuple(groups))


def _alter(image: MetadataImage, resource: ConfigResource, item: AlterConfigsItem) -> tuple[Config, ...]:
    match resource.type:
        case ConfigType.TOPIC:
            if image.topic(resource.name) is None:
                raise ApiError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource.name}' does not exist."
                )
        case ConfigType.BROKER:
            # One broker's own values would make leaders disagree about a topic; nothing of ours needs them.
            if resource.name:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    "Broker configuration can be changed for all brokers only: leave the name empty.",
                )
    held = image.configs(resource)
    names = [each.name for each in item.alterations]
    if len(set(names)) != len(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Each config key must appear at most once.")
    records: list[Config] = []
    for alteration in item.alterations:
        value = _new_value(resource.type, held.get(alteration.name), alteration)
        if value is not None:
            check_value(alteration.name, value, of=resource.type)
        if value != held.get(alteration.name):
            records.append(
                Config(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    name=alteration.name,
                    value=value,
                )
            )
    return tuple(records)


def _new_value(of: ConfigType, held: str | None, alteration: ConfigAlteration) -> str | None:
    if alteration.operation is ConfigOperation.DELETE:
        return None
    if alteration.value is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for {alteration.name}.")
    if alteration.operation is ConfigOperation.SET:
        return alteration.value
    known = TOPIC_KEYS.get(alteration.name)
    if of is ConfigType.BROKER and alteration.name in BROKER_KEYS:
        known = BROKER_KEYS[alteration.name][0]
    if known is None or known.type is not ValueType.LIST:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {alteration.operation.name} to key {alteration.name} because its type is not LIST.",
        )
    items = split_list(known.initial if held is None else held)
    given = split_list(alteration.value)
    if alteration.operation is ConfigOperation.APPEND:
        items += tuple(each for each in given if each not in items)
    else:
        items = tuple(each for each in items if each not in given)
    return ",".join(items)
