"""ListConfigResources: the resources that have, or may have, configs."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from quorate.broker.apis.config_changes import CLIENT_METRICS, LOGGER
from quorate.broker.apis.context import Broker, respond, respond_in_slices
from quorate.broker.metadata import ConfigType, MetadataImage
from quorate.broker.wire import Answer, RequestContext

if TYPE_CHECKING:
    from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest

_TYPES: Final = (ConfigType.TOPIC, ConfigType.BROKER, LOGGER, CLIENT_METRICS, ConfigType.GROUP)


def handle(broker: Broker, context: RequestContext, request: "ListConfigResourcesRequest") -> Answer:
    """List resources. Version 0 knows client metrics only, of which there are none."""
    asked = set(map(int, request.resource_types)) or set(map(int, _TYPES))
    if context.version == 0:
        asked = {CLIENT_METRICS}
    elif not asked <= set(map(int, _TYPES)):
        return respond(context, error_code=ErrorCode.unsupported_version, config_resources=())
    resources = (
        {"resource_name": name, "resource_type": int(kind)}
        for kind in _TYPES
        if kind in asked
        for name in _names(broker.image, kind)
    )
    return respond_in_slices(context, error_code=ErrorCode.none, config_resources=resources)


def _names(image: MetadataImage, kind: int) -> Iterator[str]:
    # Copies: other tasks run between two elements, and may change what is listed.
    match kind:
        case ConfigType.TOPIC:
            yield from list(image.topic_names())
        case ConfigType.BROKER | 8:
            yield from map(str, sorted(image.brokers))
        case ConfigType.GROUP:
            yield from [each.name for each in list(image.configured()) if each.type is ConfigType.GROUP]
        case _:
            pass
