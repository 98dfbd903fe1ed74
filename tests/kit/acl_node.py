"""A node that decides by ACLs, as far as requests about ACLs need one: its controller commits at once."""

import uuid
from typing import Any

import trio
from api_broker import broker_of, context

from quorate.broker.access.authorizer import Authorizer
from quorate.broker.access.standard_authorizer import StandardAuthorizer
from quorate.broker.apis.api_table import ControllerDispatcher, Dispatcher
from quorate.broker.controller.operations.acls import create_acls, delete_acls
from quorate.broker.controller.operations.outcome import Outcome
from quorate.broker.controller.rpc import CreateAclsRequest
from quorate.broker.controller.rpc_codec import decode_request, encode_request
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.codecs.entities import build, decode_entity, request_type, response_type
from quorate.broker.wire.exchanges import Refusal
from quorate.broker.wire.principals import ANONYMOUS
from quorate.broker.wire.request_codec import encode_response
from quorate.broker.wire.wire_errors import KafkaError
from quorate.runtime.slices import at_once


class _Channel:
    """A controller behind the bytes of its requests."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image

    async def ask(self, request: Any, *, timeout_seconds: float, asker: object = None) -> Any:
        await trio.lowlevel.checkpoint()
        asked: Any = decode_request(encode_request(request))
        first = self._image.offset + 1
        outcome: Outcome[Any]
        if isinstance(asked, CreateAclsRequest):
            ids = [uuid.UUID(int=first * 100 + number) for number in range(len(asked.creations))]
            outcome = create_acls(self._image, asked, ids=ids)
        else:
            outcome = at_once(delete_acls(self._image, asked))
        for offset, record in enumerate(outcome.records, first):
            self._image.apply(record, offset=offset, epoch=1)
        return outcome.response


class _Quotas:
    counts = False


class _Metadata:
    def __init__(self, image: MetadataImage) -> None:
        self.image = image


class AclNode:
    """Answers clients who are super users, unless `authorizer` is another."""

    def __init__(self, dispatcher: type[Dispatcher | ControllerDispatcher] = Dispatcher) -> None:
        self.image = MetadataImage()
        self.authorizer: Authorizer = self.super_users()
        self._dispatcher = dispatcher

    def super_users(self, *, everyone: bool = False) -> StandardAuthorizer:
        return StandardAuthorizer(
            lambda: self.image.acls,
            super_users=(ANONYMOUS,),
            allow_everyone_if_no_acl=everyone,
            now=lambda: 0.0,
        )

    def by_acls(self) -> StandardAuthorizer:
        return StandardAuthorizer(lambda: self.image.acls, now=lambda: 0.0)

    async def ask(self, key: ApiKey, version: int = 3, **fields: Any) -> Any:
        """Send a request through its bytes, and return the answer."""
        asked: Any = build(request_type(key, version), **fields)
        async with trio.open_nursery() as tasks:
            node = broker_of(
                metadata=_Metadata(self.image),
                channel=_Channel(self.image),
                authorizer=self.authorizer,
                tasks=tasks,
                throttles=_Quotas(),
            )
            dispatcher = self._dispatcher(node)
            try:
                deferred: Any = await dispatcher.handle(context(key, version), asked)
                done = trio.Event()
                deferred.notify(done.set)
                await done.wait()
                answer = await deferred.result()
            except KafkaError as error:
                refusal = Refusal(version, error.code, error.message)
                answer = await dispatcher.apis[key].refusal(asked, refusal)
        body = b"".join(encode_response(answer))
        return decode_entity(response_type(key, version), memoryview(body))
