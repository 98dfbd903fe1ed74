"""The parts of this broker that the API handlers use."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import wraps
from typing import TypeVar

import trio
from kio.schema.errors import ErrorCode as WireErrorCode

from quorate.broker.access.asker import Asker
from quorate.broker.access.audit import tell_change
from quorate.broker.access.authorizer import OPEN, Authorizer, Sender
from quorate.broker.access.needs import Permission, has_any
from quorate.broker.apis import answers
from quorate.broker.apis.client_throttles import ClientThrottles
from quorate.broker.apis.cluster_metadata import ClusterMetadataReader
from quorate.broker.apis.leader_readiness import LeaderReadiness
from quorate.broker.apis.producer_ids import ProducerIdSource
from quorate.broker.apis.topic_creation import TopicCreator
from quorate.broker.controller.rpc import ControllerRequest, ControllerResponse
from quorate.broker.controller_channel import ControllerChannel
from quorate.broker.groups.coordinator import GroupCoordinator
from quorate.broker.metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import BrokerEndpoint
from quorate.broker.metadata.states import BrokerState
from quorate.broker.metadata_cache import MetadataCache
from quorate.broker.node_config.server_config import ServerConfig
from quorate.broker.replication.wiring import ReplicaServices
from quorate.broker.wire.codecs.entities import build, response_type
from quorate.broker.wire.codecs.sliced_encoding import encode_in_slices
from quorate.broker.wire.connection_quotas import address_of
from quorate.broker.wire.exchanges import (
    ConnectionContext,
    Deferred,
    EncodedResponse,
    RequestContext,
    Response,
)
from quorate.broker.wire.loop_time import LoopTime
from quorate.broker.wire.wire_errors import KafkaError, wire_code
from quorate.error_code import ErrorCode
from quorate.raft import Quorum
from quorate.runtime import WallClock

R = TypeVar("R", bound=ControllerResponse)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingNode:
    """A running node, controller or broker, as the handlers that both of them have see it."""

    config: ServerConfig
    cluster_id: str
    metadata: MetadataCache
    quorum: Quorum[None]
    channel: ControllerChannel
    cluster_metadata: ClusterMetadataReader
    tasks: trio.Nursery
    """The nursery of slow answers."""
    authorizer: Authorizer

    @property
    def image(self) -> MetadataImage:
        return self.metadata.image

    @property
    def is_open(self) -> bool:
        """Return whether everybody may do everything: loops over many partitions need no check then."""
        return self.authorizer is OPEN

    def may(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource: ResourceType,
        name: str,
        *,
        audited: bool = True,
    ) -> bool:
        """Return whether the sender of the request may do `operation` with the resource. `audited`: a denial
        is worth a line; False where it is no attempt, but a part of all there is."""
        if self.authorizer is OPEN:
            return True
        connection = context.connection
        sender = connection.kept.sender
        # The way of each record batch that is produced: without a call. A login changes the principal.
        if not isinstance(sender, Sender) or sender.who is not connection.principal:
            sender = self._sender(connection)
        return sender.allows(operation, resource, name, audited=audited, request=context.api.request_name)

    def _sender(self, connection: ConnectionContext) -> Sender:
        """Return what the connection keeps about its client, and make it where that is another by now."""
        sender = connection.kept.sender
        if not isinstance(sender, Sender) or sender.who is not connection.principal:
            sender = self.authorizer.sender(connection.principal, address_of(connection.peer))
            connection.kept.sender = sender
        return sender

    def may_on_cluster(
        self, context: RequestContext, operation: AclOperation, *, audited: bool = True
    ) -> bool:
        """Return whether the sender may do `operation` with the cluster."""
        return self.may(context, operation, ResourceType.CLUSTER, CLUSTER_NAME, audited=audited)

    def may_any(self, context: RequestContext, any_of: tuple[Permission, ...], name: str) -> bool:
        """Return whether the sender has one of the permissions, with the resource `name` or the cluster. Only
        a denial of the last is audited."""
        return self.is_open or has_any(
            self._sender(context.connection), any_of, name, request=context.api.request_name
        )

    def asker(self, context: RequestContext) -> Asker | None:
        """Return the sender of a request that is passed on to the controller, which checks again what it may
        do; None where everybody may do everything."""
        if self.is_open:
            return None
        sender = self._sender(context.connection)
        return Asker(sender.who, sender.host, self.config.node_id)

    async def ask_controller(
        self, context: RequestContext, request: ControllerRequest[R], *, timeout_seconds: float
    ) -> R:
        """Pass a request on to the active controller, for the client that sent it here. Raises
        `ControllerTimedOutError`, `QuorumStoppedError`."""
        answer = await self.channel.ask(request, timeout_seconds=timeout_seconds, asker=self.asker(context))
        self.tell_change(context, answer.error)
        return answer

    def tell_change(self, context: RequestContext, outcome: ErrorCode) -> None:
        """Write the audit line of a change that the sender of the request asked for, where there is an
        authorizer."""
        if not self.is_open:
            sender = self._sender(context.connection)
            tell_change(sender.who, sender.host, context.api.request_name, outcome=outcome)

    @property
    def counts_time(self) -> bool:
        """True if the time that requests take of the event loop is counted."""
        return False

    def later(self, work: Callable[[], Coroutine[object, object, Response]]) -> Deferred:
        """Answer with the result or error of `work`, which is cancelled if the client goes away."""
        scope = trio.CancelScope()
        deferred = Deferred(scope.cancel)

        async def run() -> None:
            try:
                with scope:
                    if self.counts_time:
                        loop_time = LoopTime()
                        response = await loop_time.of(work())
                        deferred.loop_s = loop_time.take()
                    else:
                        response = await work()
                    deferred.complete(response)
            except Exception as error:
                deferred.fail(error)
            if not deferred.done:
                deferred.fail(KafkaError(WireErrorCode.request_timed_out, "the request was given up"))

        self.tasks.start_soon(run)
        return deferred


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker(ServingNode):
    """A running broker, as its handlers see it."""

    replicas: ReplicaServices
    groups: GroupCoordinator
    topics: TopicCreator
    producer_ids: ProducerIdSource
    leaders: LeaderReadiness
    throttles: ClientThrottles
    wall_clock: WallClock

    @property
    def counts_time(self) -> bool:
        return self.throttles.counts

    def endpoint(self, broker_id: int, listener: str) -> BrokerEndpoint | None:
        """Return the endpoint of a live broker on the named listener, or None."""
        broker = self.image.broker(broker_id)
        return None if broker is None or broker.fenced else endpoint_of(broker, listener)

    def partition_exists(self, topic: str, partition: int) -> bool:
        return self.image.named_partition(topic, partition) is not None

    def controller_id(self) -> int:
        """Return the broker that clients should send their changes to: this one, because it is alive and
        forwards them, while the active controller may hang until it is fenced (Kafka's brokers name a random
        live one). Clients fail on -1 and on an id that is not in the answer."""
        own = self.image.broker(self.config.node_id)
        if own is not None and not own.fenced:
            return self.config.node_id
        return next((each.broker_id for each in self.image.brokers.values() if not each.fenced), -1)

    def metadata_leader(self) -> int:
        """Return the leader of the metadata log as a topic: the quorum's leader where that is a live broker,
        else this broker, which serves it too."""
        leader = self.quorum.leader
        if leader is not None and (broker := self.image.broker(leader)) is not None and not broker.fenced:
            return leader
        return self.config.node_id


_Node = TypeVar("_Node", bound=ServingNode)
_Request = TypeVar("_Request")


def answer_later(
    handle: Callable[[_Node, RequestContext, _Request], Coroutine[object, object, Response]],
) -> Callable[[_Node, RequestContext, _Request], Deferred]:
    """Make a handler run in a task of its own. Requests behind its request are handled meanwhile."""

    @wraps(handle)
    def begin(node: _Node, context: RequestContext, request: _Request) -> Deferred:
        return node.later(lambda: handle(node, context, request))

    return begin


def check_answer(answer: ControllerResponse) -> None:
    """Raise `KafkaError` if the controller refused a request as a whole. The refusal of the API's row then
    tells the client."""
    if answer.error is not ErrorCode.NONE:
        raise KafkaError(wire_code(answer.error), answer.error_message or "")


def endpoint_of(broker: BrokerState, listener: str) -> BrokerEndpoint | None:
    return broker.endpoint(listener)


def respond(context: RequestContext, answer: answers.AnyAnswer) -> Response:
    """Build the response of the request's API and version; fields that the version lacks are dropped."""
    return build(response_type(context.api, context.version), **answer)


async def encoded_in_slices(context: RequestContext, answer: answers.AnyAnswer) -> EncodedResponse:
    """Encode a response in slices, so that a large one lets other tasks run every few milliseconds. Arrays
    may be generators, which are walked meanwhile (`encode_in_slices`)."""
    return EncodedResponse(await encode_in_slices(response_type(context.api, context.version), answer))


def respond_in_slices(context: RequestContext, answer: answers.AnyAnswer) -> Deferred:
    """Make a large answer when it is about to be sent: however many a client asks for without reading, one of
    them takes memory. Requests behind it are handled meanwhile."""
    deferred = Deferred()
    deferred.complete_with(lambda: encoded_in_slices(context, answer))
    return deferred
