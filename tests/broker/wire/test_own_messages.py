"""Messages of ours beside Kafka's: in its form, and unknown to its clients."""

import uuid
from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode

from quorate.broker.apis.api_table import BROKER_APIS
from quorate.broker.wire.api import APIS, CONNECTION_APIS, FIRST_OWN, ApiKey
from quorate.broker.wire.codecs.entities import (
    build,
    decode_entity,
    encode_entity,
    request_type,
    response_type,
)
from quorate.broker.wire.own_messages import (
    DescribeStateChangesRequest,
    DescribeStateChangesResponse,
)
from quorate.broker.wire.request_codec import api_versions_response
from quorate.kafka_bytes.varints import MalformedError

OWN = [key for key in APIS if key >= FIRST_OWN]
BROKER_FORMS = tuple(row.api for row in BROKER_APIS.values())


@pytest.mark.parametrize("version", range(5))
def test_api_versions_names_kafkas_requests_alone(version: int) -> None:
    body = memoryview(b"".join(api_versions_response(version, served=BROKER_FORMS).body))
    answer = decode_entity(response_type(ApiKey.API_VERSIONS, version), body)
    named = [int(each.api_key) for each in getattr(answer, "api_keys", ())]
    assert named == sorted(
        [*(api.key for api in CONNECTION_APIS), *(key for key in BROKER_APIS if key < FIRST_OWN)]
    )
    assert set(OWN) <= set(BROKER_APIS)


def test_each_of_ours_has_one_version_and_both_messages() -> None:
    assert len(OWN) == 6
    for key in OWN:
        assert (APIS[key].min_version, APIS[key].max_version, APIS[key].first_flexible) == (0, 0, 0)
        for made in (request_type(key, 0), response_type(key, 0)):
            assert (made.__api_key__, made.__version__, made.__flexible__) == (key, 0, True)


def change(number: int) -> dict[str, object]:
    return {
        "topic_name": f"t{number}",
        "topic_id": uuid.UUID(int=number + 1),
        "partition_index": number,
        "change": "lead",
        "outcome": "failed",
        "problem": None if number % 2 else "why",
        "leader_epoch": -1,
        "metadata_offset": 1 << 40,
        "received_ms": 1_700_000_000_000,
        "duration_us": 7,
    }


def test_an_answer_is_read_as_it_was_written_and_no_prefix_of_it_is() -> None:
    made = build(
        DescribeStateChangesResponse,
        throttle_time=timedelta(milliseconds=3),
        error_code=ErrorCode.none,
        received_offset=5,
        changes=[change(number) for number in range(3)],
    )
    data = b"".join(encode_entity(made))
    assert decode_entity(DescribeStateChangesResponse, memoryview(data)) == made
    for size in range(len(data)):
        with pytest.raises(MalformedError):
            decode_entity(DescribeStateChangesResponse, memoryview(data[:size]))


def test_a_request_names_one_topic_or_all() -> None:
    for topic in (None, "t"):
        made = build(DescribeStateChangesRequest, topic_name=topic, pending_only=True)
        data = memoryview(b"".join(encode_entity(made)))
        assert decode_entity(DescribeStateChangesRequest, data) == made
