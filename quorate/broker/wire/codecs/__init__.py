"""Kafka's messages to and from bytes: by hand where it is hot, by kio elsewhere."""

from quorate.broker.wire.codecs.entities import (
    build,
    decode_entity,
    encode_entity,
    request_type,
    response_type,
)
from quorate.broker.wire.codecs.fetch_codec import (
    FetchedPartition,
    FetchedTopic,
    FetchPartition,
    FetchTopic,
    KafkaFetchRequest,
    KafkaFetchResponse,
    decode_fetch_request,
    decode_fetch_response_steps,
    decode_fetch_steps,
    encode_fetch_request_steps,
    encode_fetch_response,
    encode_fetch_steps,
)
from quorate.broker.wire.codecs.metadata_quirk import without_extra_bytes
from quorate.broker.wire.codecs.primitives import Cursor, MalformedError, Pieces
from quorate.broker.wire.codecs.produce_codec import (
    PER_STEP,
    NodeEndpoint,
    ProducedPartition,
    ProducedTopic,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    decode_produce_request,
    decode_produce_response,
    decode_produce_steps,
    encode_produce_request,
    encode_produce_steps,
)
from quorate.broker.wire.codecs.sliced_decoding import decode_entity_steps
from quorate.broker.wire.codecs.sliced_encoding import encode_in_slices

__all__ = [
    "PER_STEP",
    "Cursor",
    "FetchPartition",
    "FetchTopic",
    "FetchedPartition",
    "FetchedTopic",
    "KafkaFetchRequest",
    "KafkaFetchResponse",
    "MalformedError",
    "NodeEndpoint",
    "Pieces",
    "ProducePartition",
    "ProduceRequest",
    "ProduceTopic",
    "ProducedPartition",
    "ProducedTopic",
    "build",
    "decode_entity",
    "decode_entity_steps",
    "decode_fetch_request",
    "decode_fetch_response_steps",
    "decode_fetch_steps",
    "decode_produce_request",
    "decode_produce_response",
    "decode_produce_steps",
    "encode_entity",
    "encode_fetch_request_steps",
    "encode_fetch_response",
    "encode_fetch_steps",
    "encode_in_slices",
    "encode_produce_request",
    "encode_produce_steps",
    "request_type",
    "response_type",
    "without_extra_bytes",
]
