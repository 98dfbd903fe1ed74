"""IncrementalAlterConfigs: some keys of resources are set, deleted, appended to or subtracted from."""

from typing import TYPE_CHECKING

from quorate.broker.apis.config_changes import Change, alter_resources
from quorate.broker.apis.context import Broker
from quorate.broker.wire import Answer, RequestContext

if TYPE_CHECKING:
    from kio.schema.incremental_alter_configs.v1.request import IncrementalAlterConfigsRequest


def handle(broker: Broker, context: RequestContext, request: "IncrementalAlterConfigsRequest") -> Answer:
    """Change configs. The answer waits until this broker's own metadata has them too."""
    return broker.later(
        lambda: alter_resources(
            broker,
            context,
            request.resources,
            lambda resource: [
                Change(entry.name, int(entry.config_operation), entry.value) for entry in resource.configs
            ],
            validate_only=request.validate_only,
            replace_all=False,
        )
    )
