"""DescribeUserScramCredentials: nobody has any, since SASL is not served.

`kafka-configs --describe --entity-type users` asks for them beside a user's quotas, and shows these only if
it gets an answer (KIP-554).
"""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import Broker, encoded_in_slices
from quorate.broker.wire import Answer, EncodedResponse, RequestContext
from quorate.runtime import Slices

if TYPE_CHECKING:
    from kio.schema.describe_user_scram_credentials.v0.request import DescribeUserScramCredentialsRequest


def handle(broker: Broker, context: RequestContext, request: "DescribeUserScramCredentialsRequest") -> Answer:
    """Answer each named user with RESOURCE_NOT_FOUND, as Kafka answers for users without credentials."""
    return broker.later(lambda: _describe(context, request))


async def _describe(
    context: RequestContext, request: "DescribeUserScramCredentialsRequest"
) -> EncodedResponse:
    asked: Counter[str] = Counter()
    slices = Slices()
    for each in request.users or ():
        asked[each.name] += 1
        await slices.pause()
    return await encoded_in_slices(context, error_code=ErrorCode.none, results=_results(asked))


def _results(asked: Counter[str]) -> Iterator[dict[str, object]]:
    for user, times in asked.items():
        if times > 1:
            error = ErrorCode.duplicate_resource
            message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        else:
            error = ErrorCode.resource_not_found
            message = f"Attempt to describe a user credential that does not exist: {user}"
        yield {"user": user, "error_code": error, "error_message": message}
