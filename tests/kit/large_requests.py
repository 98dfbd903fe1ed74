"""Bodies of Produce and Fetch requests of any size."""

from quorate.broker.wire.codecs.fetch_codec import (
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    KafkaFetchRequest,
    encode_fetch_request_steps,
)
from quorate.broker.wire.codecs.produce_codec import (
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    encode_produce_request,
)
from quorate.runtime import at_once


def produce_body(topics: int, partitions: int, records: bytes = b"records") -> bytes:
    """A Produce of version 9, with these records in each partition."""
    parts = [ProducePartition(index, memoryview(records)) for index in range(partitions)]
    named = [ProduceTopic(f"t{number}", parts) for number in range(topics)]
    return b"".join(encode_produce_request(ProduceRequest(version=9, acks=-1, timeout_ms=1, topics=named)))


def fetch_body(
    version: int, topics: int, partitions: int, *, distinct: int | None = None, forgotten: int = 0
) -> bytes:
    """`distinct`: the number of different topics. `forgotten`: the number of partitions to forget."""
    parts = [FetchPartition(index) for index in range(partitions)]
    request = KafkaFetchRequest(
        version=version,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic(f"t{number % (distinct or topics)}", None, parts) for number in range(topics)],
        forgotten=[ForgottenTopic("t", None, range(forgotten))] if forgotten else (),
    )
    return b"".join(at_once(encode_fetch_request_steps(request)))
