"""An API is added by one row: here one that quorate does not have, from outside, over a connection."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import pytest
from api_broker import broker_of
from kio.schema.errors import ErrorCode
from kio.static.primitive import i16, i32
from served_wire import client, serving

from quorate.broker.access.needs import NOTHING
from quorate.broker.apis.api_row import ApiRow, refuse_by_code
from quorate.broker.apis.api_table import BROKER_APIS, Dispatcher
from quorate.broker.wire.api import APIS, Api, ApiKey, own_api
from quorate.broker.wire.codecs.entities import build
from quorate.broker.wire.exchanges import RequestContext
from quorate.broker.wire.kafka_client import WireClient
from quorate.broker.wire.own_messages import OwnRequest, OwnResponse
from quorate.broker.wire.wire_errors import KafkaError
from quorate.runtime import NetworkError

KEY = 10_999


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubleRequest(OwnRequest):
    __api_key__: ClassVar[i16] = i16(KEY)
    number: i32 = field(metadata={"kafka_type": "int32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubleResponse(OwnResponse):
    __api_key__: ClassVar[i16] = i16(KEY)
    double: i32 = field(metadata={"kafka_type": "int32"}, default=i32(-1))


def handle_double(broker: object, context: RequestContext, request: DoubleRequest) -> DoubleResponse:
    if request.number < 0:
        raise KafkaError(ErrorCode.invalid_request, "a negative number")
    return build(DoubleResponse, double=2 * request.number)


DOUBLE = ApiRow[DoubleRequest](
    api=own_api(KEY, "DOUBLE", DoubleRequest, DoubleResponse),
    refuse=refuse_by_code,
    needs=NOTHING,
    brokers=handle_double,
)


@asynccontextmanager
async def served(*rows: ApiRow[Any]) -> AsyncIterator[WireClient]:
    """A connection to a listener that serves these APIs besides those of brokers."""
    dispatcher = Dispatcher(broker_of(), {**BROKER_APIS, **{row.api.key: row for row in rows}})
    async with serving(dispatcher) as (net, _), client(net) as connection:
        yield connection


async def test_a_request_of_it_is_answered(autojump_clock: object) -> None:
    async with served(DOUBLE) as connection:
        answer = await connection.send(DoubleRequest(number=i32(21)), DoubleResponse)
    assert (answer.error_code, answer.double) == (ErrorCode.none, 42)


async def test_an_error_of_its_handler_is_said_by_its_refusal(autojump_clock: object) -> None:
    async with served(DOUBLE) as connection:
        answer = await connection.send(DoubleRequest(number=i32(-1)), DoubleResponse)
    assert (answer.error_code, answer.double) == (ErrorCode.invalid_request, -1)


async def test_a_version_that_its_row_lacks_ends_the_connection(autojump_clock: object) -> None:
    async with served(DOUBLE) as connection:
        with pytest.raises(NetworkError):
            await connection._call(DOUBLE.api, 1, [b"\0\0\0\1\0"], None)


async def test_a_listener_without_its_row_does_not_know_it(autojump_clock: object) -> None:
    async with served() as connection:
        with pytest.raises(NetworkError):
            await connection.send(DoubleRequest(number=i32(21)), DoubleResponse)


async def test_clients_are_told_of_it_as_its_key_says(autojump_clock: object) -> None:
    kafkas = ApiRow[DoubleRequest](
        api=Api(
            key=999,
            name="DOUBLE",
            advertised_from=1,
            min_version=2,
            max_version=3,
            first_flexible=0,
        ),
        refuse=refuse_by_code,
        needs=NOTHING,
        brokers=handle_double,
    )
    async with served(DOUBLE) as connection:
        assert KEY not in connection.versions
        before = dict(connection.versions)
    async with served(DOUBLE, kafkas) as connection:
        assert connection.versions == before | {999: (1, 3)}


def test_a_row_says_where_it_is_served() -> None:
    """By its handlers: brokers serve no API that has none for them."""
    assert DOUBLE.brokers is not None and DOUBLE.controllers is None
    context = RequestContext(cast(Any, None), DOUBLE.api, 0, 1, None)
    with pytest.raises(TypeError, match="controllers do not serve DOUBLE"):
        DOUBLE.answer_on_controller(cast(Any, None), context, DoubleRequest(number=i32(1)))
    assert ApiKey.ASSIGN_REPLICAS_TO_DIRS in APIS and ApiKey.ASSIGN_REPLICAS_TO_DIRS not in BROKER_APIS
