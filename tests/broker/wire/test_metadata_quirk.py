"""What librdkafka writes when it asks for all topics."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio_messages import encoded

from quorate.broker.wire.api import APIS, ApiKey
from quorate.broker.wire.codecs.entities import build, request_type
from quorate.broker.wire.codecs.metadata_quirk import without_extra_bytes
from quorate.broker.wire.request_codec import decode_request
from quorate.kafka_bytes.varints import MalformedError

FLEXIBLE = range(9, 13)


@pytest.mark.parametrize("version", FLEXIBLE)
@pytest.mark.parametrize("creates", [False, True])
@pytest.mark.parametrize("operations", [False, True])
async def test_the_null_array_that_librdkafka_writes_too_long_is_read_as_it_was_meant(
    version, creates, operations
):
    meant = build(
        request_type(ApiKey.METADATA, version),
        topics=None,
        allow_auto_topic_creation=creates,
        **({"include_cluster_authorized_operations": operations} if version < 11 else {}),
        include_topic_authorized_operations=operations,
    )
    written = bytes(3) + encoded(meant)
    read = await decode_request(APIS[ApiKey.METADATA], version, memoryview(written))
    assert (read.topics, read.allow_auto_topic_creation) == (None, creates)
    assert read.include_topic_authorized_operations is operations


@pytest.mark.parametrize("version", FLEXIBLE)
@pytest.mark.parametrize("extra", [1, 2, 4, 5])
async def test_any_other_number_of_extra_bytes_is_refused(version, extra):
    meant = build(request_type(ApiKey.METADATA, version), topics=None, allow_auto_topic_creation=False)
    with pytest.raises(MalformedError):
        await decode_request(APIS[ApiKey.METADATA], version, memoryview(bytes(extra) + encoded(meant)))


@given(st.sampled_from(range(13)), st.data())
def test_a_valid_request_is_left_unchanged(entities, version, data):
    raw = encoded(data.draw(entities(request_type(ApiKey.METADATA, version))))
    assert without_extra_bytes(raw, version) == raw


@pytest.mark.parametrize("version", range(9))
def test_versions_with_long_counts_are_left_alone(version):
    assert without_extra_bytes(bytes(8), version) == bytes(8)
