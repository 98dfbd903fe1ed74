"""AlterConfigs: the keys of resources are set, and those that are not named are deleted. Today's clients send
IncrementalAlterConfigs."""

from typing import TYPE_CHECKING

from quorate.broker.apis.config_changes import Change, alter_resources
from quorate.broker.apis.context import Broker
from quorate.broker.controller.rpc import ConfigOperation
from quorate.broker.wire import Answer, RequestContext

if TYPE_CHECKING:
    from kio.schema.alter_configs.v2.request import AlterConfigsRequest


def handle(broker: Broker, context: RequestContext, request: "AlterConfigsRequest") -> Answer:
    """Replace configs. The answer waits until this broker's own metadata has them too."""
    return broker.later(
        lambda: alter_resources(
            broker,
            context,
            request.resources,
            lambda resource: [
                Change(entry.name, int(ConfigOperation.SET), entry.value) for entry in resource.configs
            ],
            validate_only=request.validate_only,
            replace_all=True,
        )
    )
