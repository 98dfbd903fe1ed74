"""The codec of a frame's body: the hand-written codecs where they exist, else kio."""

from collections.abc import Collection, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import RequestPayload

from quorate.broker.wire.api import CONNECTION_APIS, FIRST_OWN, Api, ApiKey
from quorate.broker.wire.codecs.entities import (
    build,
    decode_entity,
    encode_entity,
    request_type,
    response_type,
)
from quorate.broker.wire.codecs.fetch_codec import decode_fetch_request, decode_fetch_steps
from quorate.broker.wire.codecs.metadata_quirk import without_extra_bytes
from quorate.broker.wire.codecs.produce_codec import decode_produce_request, decode_produce_steps
from quorate.broker.wire.codecs.sliced_decoding import decode_entity_steps
from quorate.broker.wire.exchanges import EncodedResponse, Request, Response
from quorate.broker.wire.feature_levels import NO_FEATURES, Features
from quorate.broker.wire.newest_version import newest_steps
from quorate.kafka_bytes.varints import MalformedError
from quorate.runtime import Buffer, in_slices

AT_ONCE_BYTES: Final = 16 * 1024
"""The largest request that is decoded in one piece, in 3 ms at the most."""


async def decode_request(api: Api, version: int, body: memoryview) -> Request:
    """Decode a request into the form of the newest version; `version` is one that we serve. Raises
    `MalformedError`, also for bytes left over. A large request lets other tasks run every few milliseconds; a
    small one has no checkpoint."""
    small = len(body) <= AT_ONCE_BYTES
    if api.key == ApiKey.PRODUCE:
        return (
            decode_produce_request(body, version)
            if small
            else await in_slices(decode_produce_steps(body, version))
        )
    if api.key == ApiKey.FETCH:
        return (
            decode_fetch_request(body, version)
            if small
            else await in_slices(decode_fetch_steps(body, version))
        )
    if api.key == ApiKey.METADATA:
        body = without_extra_bytes(body, version)
    entity = request_type(api, version)
    if api.key == ApiKey.ALTER_USER_SCRAM_CREDENTIALS and small:
        return _decode_with_two_ends(entity, body)
    request = decode_entity(entity, body) if small else await in_slices(decode_entity_steps(entity, body))
    return await in_slices(newest_steps(api, request))


def _decode_with_two_ends(entity: type[RequestPayload], body: memoryview) -> RequestPayload:
    """Decode a request that may end twice: librdkafka (2.14) writes an empty set of tagged fields more than
    there is, and Kafka reads no further than the first."""
    try:
        return decode_entity(entity, body)
    except MalformedError:
        if bytes(body[-1:]) != b"\0":
            raise
        return decode_entity(entity, body[:-1])


def encode_response(response: Response) -> Sequence[Buffer]:
    return response.body if isinstance(response, EncodedResponse) else encode_entity(response)


@lru_cache(maxsize=64)
def api_versions_response(
    version: int,
    *,
    error: ErrorCode = ErrorCode.none,
    features: Features = NO_FEATURES,
    served: Collection[Api],
) -> EncodedResponse:
    """Return ApiVersions' answer for the `served` APIs, in the given version; with an error in version 0
    (KIP-511).

    Clients of version 3 can't read a feature that may be at level 0 (KIP-1022): it is left out.
    """
    supported = [each for each in features.supported if version >= 4 or each.min_level > 0]
    shown = {each.name for each in supported}
    ranges = [
        {"api_key": int(api.key), "min_version": api.advertised_from, "max_version": api.max_version}
        for api in sorted((*CONNECTION_APIS, *served), key=attrgetter("key"))
        if api.key < FIRST_OWN
    ]
    entity = build(
        response_type(ApiKey.API_VERSIONS, version),
        error_code=error,
        api_keys=ranges,
        supported_features=[
            {"name": each.name, "min_version": each.min_level, "max_version": each.max_level}
            for each in supported
        ],
        finalized_features_epoch=features.epoch,
        finalized_features=[
            {"name": name, "min_version_level": level, "max_version_level": level}
            for name, level in features.finalized
            if name in shown
        ],
    )
    return EncodedResponse(encode_entity(entity))
