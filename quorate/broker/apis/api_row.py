"""The row of an API: the form of its messages, its handlers and its refusal."""

from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from typing import Generic, Never, TypeAlias, TypedDict, TypeVar, cast

from kio.schema.errors import ErrorCode

from quorate.broker.access.needs import Need, Refuses, denied_message
from quorate.broker.apis.context import Broker, ServingNode
from quorate.broker.wire.api import Api
from quorate.broker.wire.codecs.entities import response_type
from quorate.broker.wire.codecs.sliced_encoding import Struct, encode_in_slices
from quorate.broker.wire.exchanges import Answer, EncodedResponse, Refusal, Request, RequestContext, Response
from quorate.broker.wire.principals import NODE
from quorate.broker.wire.wire_errors import KafkaError
from quorate.runtime import Buffer, Steps, in_slices

Q_contra = TypeVar("Q_contra", contravariant=True)

Handled: TypeAlias = Answer | Coroutine[object, object, Answer]
"""An awaited handler takes a large request in pieces of a few milliseconds, before the connection's next one.
A small request has no checkpoint."""


# No slots: `typing` sets an attribute of what it makes, which a frozen class with slots refuses with an error
# that `typing` does not expect (CPython 3.11).
@dataclass(frozen=True, eq=False)
class ApiRow(Generic[Q_contra]):
    """An API as nodes serve it. The type parameter is its request in the newest version, the form that the
    wire layer gives to all others: `ApiRow["HeartbeatRequest"](...)` takes no handler of another request."""

    api: Api
    refuse: Callable[[Q_contra, Refusal], Struct | Steps[list[Buffer]]]
    """Returns the fields of the answer that says an error of everything in the request, or the steps that
    encode that answer. Arrays may be generators: they are walked while they are encoded."""
    needs: tuple[Need[Q_contra], ...]
    """What a client needs for it, in the order of the checks. The dispatchers check the needs of the whole
    request; the handlers check all others."""
    brokers: Callable[[Broker, RequestContext, Q_contra], Handled] | None = None
    """The handler of brokers; None: only controllers serve it."""
    controllers: Callable[[ServingNode, RequestContext, Q_contra], Handled] | None = None
    """The handler of the controller listener, for tools and clients that are given `bootstrap.controllers`
    (KIP-919); None: only brokers serve it. Any controller takes a request, and asks the active one."""
    controllers_need: tuple[Need[Q_contra], ...] | None = None
    """What it needs on the controller listener, where that is not `needs`."""

    async def refusal(self, request: Request, refusal: Refusal) -> Response:
        """Return the answer that refuses all of `request`. Other tasks run every few milliseconds."""
        refused = self.refuse(cast(Q_contra, request), refusal)
        if isinstance(refused, Generator):
            return EncodedResponse(await in_slices(refused))
        return EncodedResponse(await encode_in_slices(response_type(self.api, refusal.version), refused))

    def answer_on_broker(self, broker: Broker, context: RequestContext, request: Request) -> Handled:
        """Call the handler of brokers with a request of this API. Raises `KafkaError` for a client that may
        not send it."""
        if self.brokers is None:
            raise TypeError(f"brokers do not serve {self.api.name}")
        asked = cast(Q_contra, request)
        _check(broker, context, self.needs, asked)
        return self.brokers(broker, context, asked)

    def answer_on_controller(self, node: ServingNode, context: RequestContext, request: Request) -> Handled:
        """Call the handler of controllers with a request of this API. Raises `KafkaError` for a client that
        may not send it."""
        if self.controllers is None:
            raise TypeError(f"controllers do not serve {self.api.name}")
        asked = cast(Q_contra, request)
        _check(node, context, self.needed_of_controllers, asked)
        return self.controllers(node, context, asked)

    @property
    def needed_of_controllers(self) -> tuple[Need[Q_contra], ...]:
        """Return what a client of the controller listener needs."""
        return self.needs if self.controllers_need is None else self.controllers_need


def _check(
    node: ServingNode, context: RequestContext, needs: tuple[Need[Q_contra], ...], request: Q_contra
) -> None:
    """Check the needs of the whole request."""
    who = context.connection.principal
    if node.is_open and who.kind != NODE:
        return
    for need in needs:
        if need.refuses is not Refuses.WHOLE:
            continue
        name = need.named(request)
        if name is None:
            continue
        if not node.may_any(context, need.any_of, name):
            raise KafkaError(need.code, denied_message(need.code))
        if need.node_id is not None and who.kind == NODE and who.name != str(need.node_id(request)):
            raise KafkaError(
                need.code, f"node {who.name} sent it in the name of node {need.node_id(request)}"
            )


AnyRow: TypeAlias = ApiRow[Never]
"""A row of any API. It is given requests as they were decoded, by the key of their API."""


class RefusedByCode(TypedDict):
    """The fields of a refusal that has no room for more than its code."""

    error_code: ErrorCode


class RefusedWithMessage(RefusedByCode):
    """The fields of a refusal of the whole, or of one of its parts."""

    error_message: str | None


def refuse_by_code(request: object, refusal: Refusal) -> RefusedByCode:
    """Refuse a request with a code for the whole."""
    return {"error_code": refusal.code}


def refuse_with_message(request: object, refusal: Refusal) -> RefusedWithMessage:
    """Refuse a request with a code and a message for the whole."""
    return {"error_code": refusal.code, "error_message": refusal.message}
