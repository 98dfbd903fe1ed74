"""AlterConfigs and IncrementalAlterConfigs: set, delete, append to and subtract from configuration keys."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from quorate.broker.controller.operations.outcome import Outcome, decide_each
from quorate.broker.controller.operations.topic_limits import check_name
from quorate.broker.controller.rpc import (
    AlterConfigsItem,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterConfigsResult,
    ConfigAlteration,
    ConfigOperation,
)
from quorate.broker.metadata.api_error import ApiError
from quorate.broker.metadata.configs import check_together, check_value, key_of, stored
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import MAX_RESOURCE_NAME, Config, ConfigType
from quorate.broker.metadata.states import ConfigResource
from quorate.broker.settings.config_key import ValueType, split_exactly
from quorate.error_code import ErrorCode

MAX_VALUE_LENGTH: Final = 32_767
"""Characters in a value: more has no place in a record of Kafka's."""
_MIN_ISR: Final = "min.insync.replicas"


def alter_configs(
    image: MetadataImage,
    request: AlterConfigsRequest,
    *,
    seen: set[ConfigResource] | None = None,
    check: Callable[[ConfigType, str], None] = lambda of, name: None,
) -> Outcome[AlterConfigsResponse]:
    """Alter each resource as a whole or, with an error, not at all. `seen`: the resources of the request's
    earlier portions, to which these are added. `check`: raises `ApiError` for what the client may not
    change."""
    seen = set() if seen is None else seen

    def decide(item: AlterConfigsItem) -> tuple[Config, ...]:
        resource = ConfigResource(item.resource_type, item.resource_name)
        check(item.resource_type, item.resource_name)
        if resource in seen:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        seen.add(resource)
        return _alter(image, resource, item, replace_all=request.replace_all)

    def answer(item: AlterConfigsItem, error: ErrorCode, message: str | None) -> AlterConfigsResult:
        return AlterConfigsResult(
            resource_type=item.resource_type,
            resource_name=item.resource_name,
            error=error,
            error_message=message,
        )

    resources, groups = decide_each(request.resources, decide, answer)
    response = AlterConfigsResponse(resources=resources)
    return Outcome(response=response, groups=() if request.validate_only else groups)


def _alter(
    image: MetadataImage, resource: ConfigResource, item: AlterConfigsItem, *, replace_all: bool
) -> tuple[Config, ...]:
    """Make the checks of Kafka's controller, in its order: a bad value of an unknown topic is a bad value."""
    held = image.configs(resource)
    changes = _changed_values(resource, held, item.alterations, replace_all=replace_all)
    _check_min_isr(resource, changes)
    for name, value in changes.items():
        if value is not None and len(value) > MAX_VALUE_LENGTH:
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"The value of {name} has {len(value)} characters; it may have {MAX_VALUE_LENGTH}.",
            )
    _CHECK_NAME[resource.type](resource.name)
    for name, value in changes.items():
        if value is not None:
            check_value(name, value, of=resource.type)
    if resource.type is ConfigType.TOPIC:
        after = {**stored(image, resource), **changes}
        check_together({name: value for name, value in after.items() if value is not None})
    _check_exists(image, resource)
    return tuple(
        Config(resource_type=resource.type, resource_name=resource.name, name=name, value=value)
        for name, value in changes.items()
        # A broker that is told again takes its settings anew (KAFKA-14136).
        if value != held.get(name) or (resource.type is ConfigType.BROKER and value is not None)
    )


def _changed_values(
    resource: ConfigResource,
    held: Mapping[str, str],
    alterations: tuple[ConfigAlteration, ...],
    *,
    replace_all: bool = False,
) -> Mapping[str, str | None]:
    """Return the new value of each key that is named; None: it has none of its own. `replace_all`: keys that
    are held and not named lose theirs. Raises `ApiError`."""
    names = [each.name for each in alterations]
    if len(set(names)) != len(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Each config key must appear at most once.")
    absent: list[ConfigAlteration] = []
    if replace_all:
        removed = held.keys() - set(names)
        absent = [ConfigAlteration(name=name, operation=ConfigOperation.DELETE) for name in sorted(removed)]
    return {
        each.name: _new_value(resource.type, held.get(each.name), each) for each in (*alterations, *absent)
    }


def _new_value(of: ConfigType, held: str | None, alteration: ConfigAlteration) -> str | None:
    if alteration.operation is ConfigOperation.DELETE:
        return None
    if alteration.value is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for {alteration.name}.")
    if alteration.operation is ConfigOperation.SET:
        return alteration.value
    known = key_of(alteration.name, of=of)
    if known is None or known.type is not ValueType.LIST:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {alteration.operation.name} to key {alteration.name} because its type is not LIST.",
        )
    items = split_exactly(known.initial if held is None else held)
    given = split_exactly(alteration.value)
    if alteration.operation is ConfigOperation.APPEND:
        for each in given:
            items += () if each in items else (each,)
    else:
        items = tuple(each for each in items if each not in given)
    return ",".join(items)


def _check_min_isr(resource: ConfigResource, changes: Mapping[str, str | None]) -> None:
    """All controllers must agree on when an ELR is needed (KIP-966)."""
    if resource.type is not ConfigType.BROKER or _MIN_ISR not in changes:
        return
    if resource.name:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"{_MIN_ISR} of one broker can't be altered, because eligible leader replicas depend on it; set "
            "it for all brokers, or for a topic.",
        )
    if changes[_MIN_ISR] is None:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"{_MIN_ISR} of all brokers can't be removed, because eligible leader replicas depend on it; set "
            "another value.",
        )


def _check_topic_name(name: str) -> None:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    check_name(name)


def _check_group_name(name: str) -> None:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    if len(name) > MAX_RESOURCE_NAME:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"The group's name has {len(name)} characters; a group with settings of its own may have "
            f"{MAX_RESOURCE_NAME}.",
        )


def _check_broker_name(name: str) -> None:
    # int() would take digits of every script.
    if name and not (name.isascii() and name.isdigit() and len(name) <= 10):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"{name:.100} is no broker: write its id, or nothing for the defaults of all brokers.",
        )


_CHECK_NAME: Final[Mapping[ConfigType, Callable[[str], None]]] = MappingProxyType(
    {
        ConfigType.TOPIC: _check_topic_name,
        ConfigType.BROKER: _check_broker_name,
        ConfigType.GROUP: _check_group_name,
    }
)


def _check_exists(image: MetadataImage, resource: ConfigResource) -> None:
    """A group may be configured before it has members."""
    if resource.type is ConfigType.TOPIC and image.topic(resource.name) is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource.name}' does not exist.")
    if (
        resource.type is ConfigType.BROKER
        and resource.name
        and (str(int(resource.name)) != resource.name or image.broker(int(resource.name)) is None)
    ):
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker with id {resource.name} found.")
