"""The operations that a client may do, as bits, in answers that were asked for them (KIP-430)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from quorate.broker.apis.context import ServingNode
from quorate.broker.metadata.acls import CLUSTER_NAME, OPERATIONS_OF, AclOperation, ResourceType
from quorate.broker.wire.exchanges import RequestContext

NOT_ASKED: Final = -(1 << 31)
_ALL: Final[Mapping[ResourceType, int]] = MappingProxyType(
    {resource: sum(1 << each for each in operations) for resource, operations in OPERATIONS_OF.items()}
)
"""All that there is for a type of resource."""


def operations_on(node: ServingNode, context: RequestContext, resource: ResourceType, name: str) -> int:
    """Return what the sender may do with the resource."""
    if node.is_open:
        return _ALL[resource]
    return sum(
        1 << each
        for each in OPERATIONS_OF[resource]
        if node.may(context, each, resource, name, audited=False)
    )


def operations_on_cluster(node: ServingNode, context: RequestContext) -> int:
    """Return what the sender may do with the cluster: 0 if it may not describe it, as in Kafka."""
    found = operations_on(node, context, ResourceType.CLUSTER, CLUSTER_NAME)
    return found if found & 1 << AclOperation.DESCRIBE else 0
