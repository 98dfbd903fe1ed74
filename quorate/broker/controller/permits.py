"""The needs of clients' requests that nodes pass on to the controller, checked by the image that the change
is made from.

The node has checked the same by its own metadata, which may lag. Here a revocation holds from its record on:
no record behind it in the log is what it forbids. The rows of `quorate.broker.apis` take their needs from
`NEEDS`, so that both ends check the same.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from quorate.broker.access.asker import Asker
from quorate.broker.access.authorizer import OPEN, Authorizer, Sender
from quorate.broker.access.needs import (
    DENIED,
    Need,
    Refuses,
    denied_message,
    has_any,
    of_each,
    whole,
)
from quorate.broker.controller.rpc import (
    AllocateProducerIdsRequest,
    AlterClientQuotasRequest,
    AlterConfigsRequest,
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    AlterUserScramCredentialsRequest,
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    ControllerRequest,
    ControllerResponse,
    CreateAclsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteAclsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    RegisterBrokerRequest,
    SealAgainRequest,
    UnregisterBrokerRequest,
    UpdateFeaturesRequest,
)
from quorate.broker.metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from quorate.broker.metadata.api_error import ApiError
from quorate.broker.metadata.metadata_records import ConfigType
from quorate.broker.wire.principals import Principal
from quorate.error_code import ErrorCode
from quorate.types import NodeId

SUPER_USERS_PASSWORD: Final = "Only a super user changes the password of a super user."

_ALTER: Final = (whole(AclOperation.ALTER),)
NEEDS: Final[Mapping[type[object], tuple[Need[object], ...]]] = MappingProxyType(
    {
        AlterClientQuotasRequest: (whole(AclOperation.ALTER_CONFIGS),),
        AlterConfigsRequest: (
            of_each(AclOperation.ALTER_CONFIGS, ResourceType.TOPIC),
            of_each(AclOperation.ALTER_CONFIGS, ResourceType.GROUP),
            of_each(AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER, when="of brokers and their loggers"),
        ),
        AlterPartitionReassignmentsRequest: _ALTER,
        AlterUserScramCredentialsRequest: _ALTER,
        CreateAclsRequest: _ALTER,
        CreatePartitionsRequest: (of_each(AclOperation.ALTER, ResourceType.TOPIC),),
        CreateTopicsRequest: (
            of_each(AclOperation.CREATE, ResourceType.TOPIC, or_on_cluster=AclOperation.CREATE),
        ),
        DeleteAclsRequest: _ALTER,
        DeleteTopicsRequest: (
            of_each(
                AclOperation.DELETE,
                ResourceType.TOPIC,
                or_on_cluster=AclOperation.DELETE,
                when="with Describe Topic, a topic that was given by its id has its name in the refusal",
            ),
        ),
        ElectLeadersRequest: _ALTER,
        SealAgainRequest: (whole(AclOperation.ALTER, when="of a super user only"),),
        UnregisterBrokerRequest: _ALTER,
        UpdateFeaturesRequest: _ALTER,
    }
)
"""The needs of a client, by the type of the request. A request without a row is refused to
clients: nodes make it for themselves."""


class DeniedError(Exception):
    """A request that its client may not send."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


_OF_BROKERS: Final = (
    RegisterBrokerRequest,
    BrokerHeartbeatRequest,
    AlterPartitionRequest,
    AssignReplicasToDirsRequest,
    AllocateProducerIdsRequest,
)
"""Requests of a broker for itself, which name it."""


def check_caller(
    request: ControllerRequest[ControllerResponse], asker: Asker | None, proven: NodeId | None
) -> None:
    """Raise `DeniedError` if a request is in the name of another node than `proven`, whose certificate is at
    the other end. None: there is none."""
    if proven is None:
        return
    if asker is not None:
        claimed = asker.node_id
    elif isinstance(request, _OF_BROKERS):
        claimed = request.broker_id
    else:
        return
    if claimed != proven:
        raise DeniedError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"its certificate is that of node {proven}, but it asks as broker {claimed}",
        )


@dataclass(frozen=True, slots=True)
class Permit:
    """The rights of the client behind one request. Each check is by the image of the moment, so that it holds
    for the change that the same step makes."""

    request: ControllerRequest[ControllerResponse]
    asker: Asker | None
    """None: the node asks for itself."""
    authorizer: Authorizer

    @property
    def is_needed(self) -> bool:
        """Return whether there is anything to check."""
        return self.asker is not None and self.authorizer is not OPEN

    def check(self) -> None:
        """Check the needs of the whole request. Raises `DeniedError`."""
        if not self.is_needed:
            return
        needs = NEEDS.get(type(self.request))
        if needs is None:
            raise _denied(ResourceType.CLUSTER)
        for need in needs:
            if need.refuses is Refuses.WHOLE and not self._has(need, CLUSTER_NAME):
                raise _denied(ResourceType.CLUSTER)
        if isinstance(self.request, AlterUserScramCredentialsRequest) and self.asker is not None:
            named = [each.name for each in self.request.deletions]
            named += (each.name for each in self.request.upsertions)
            check_super_users(self.authorizer, self.asker.principal, named)
        if isinstance(self.request, SealAgainRequest) and self.asker is not None:
            check_seals_again(self.authorizer, self.asker.principal)

    def check_each(self, resource: ResourceType, name: str) -> None:
        """Check the needs of one item of the request. Raises `ApiError`."""
        if not self.is_needed:
            return
        for need in NEEDS[type(self.request)]:
            if (
                need.refuses is Refuses.EACH
                and need.any_of[-1].resource is resource
                and not self._has(need, name)
            ):
                denied = _denied(resource)
                raise ApiError(denied.code, str(denied))

    def check_topic(self, name: str) -> None:
        """Do the same for a topic."""
        self.check_each(ResourceType.TOPIC, name)

    def check_configs(self, of: ConfigType, name: str) -> None:
        """Do the same for the configs of a resource."""
        self.check_each(_RESOURCES[of], CLUSTER_NAME if of is ConfigType.BROKER else name)

    def _has(self, need: Need[object], name: str) -> bool:
        asker = self.asker
        return asker is None or has_any(
            Sender(self.authorizer, asker.principal, asker.host),
            need.any_of,
            name,
            request=f"{type(self.request).__name__.removesuffix('Request')} by way of node {asker.node_id}",
        )


_RESOURCES: Final[Mapping[ConfigType, ResourceType]] = MappingProxyType(
    {
        ConfigType.TOPIC: ResourceType.TOPIC,
        ConfigType.GROUP: ResourceType.GROUP,
        ConfigType.BROKER: ResourceType.CLUSTER,
    }
)


def check_super_users(authorizer: Authorizer, who: Principal, users: Iterable[str]) -> None:
    """Raise `DeniedError` if one of the users, whose passwords `who` would change, is a super user and `who`
    is none. Else Alter on the cluster would be the right to become a super user (Redpanda PR 27615)."""
    if authorizer.is_super_user(who):
        return
    if any(authorizer.is_super_user(Principal("User", user)) for user in users):
        raise DeniedError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, SUPER_USERS_PASSWORD)


def check_seals_again(authorizer: Authorizer, who: Principal) -> None:
    """Raise `DeniedError` if `who` is no super user, and may not have all credentials sealed again."""
    if not authorizer.is_super_user(who):
        raise DeniedError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            "Only a super user has the credentials of users sealed again.",
        )


def _denied(resource: ResourceType) -> DeniedError:
    code = DENIED[resource]
    return DeniedError(ErrorCode(int(code)), denied_message(code))
