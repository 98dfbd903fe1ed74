"""What librdkafka writes when it sets or removes a user's password: an end more than there is."""

import pytest
from kio_messages import encoded

from quorate.broker.wire.api import APIS, ApiKey
from quorate.broker.wire.codecs.entities import build, request_type
from quorate.broker.wire.request_codec import decode_request
from quorate.kafka_bytes.varints import MalformedError

KEY = ApiKey.ALTER_USER_SCRAM_CREDENTIALS


def request(salted: bytes):
    upsertion = {
        "name": "u",
        "mechanism": 1,
        "iterations": 4096,
        "salt": b"s" * 8,
        "salted_password": salted,
    }
    deletion = {"name": "v", "mechanism": 2}
    return build(request_type(KEY, 0), deletions=[deletion], upsertions=[upsertion] if salted else [])


@pytest.mark.parametrize("salted", [b"", b"p" * 32, bytes(32)])
async def test_a_request_with_two_ends_is_read_as_one_with_one(salted: bytes) -> None:
    meant = request(salted)
    for end in (b"", b"\0"):
        assert await decode_request(APIS[KEY], 0, memoryview(encoded(meant) + end)) == meant


@pytest.mark.parametrize("end", [b"\1", b"\0\0", b"\0\1"])
async def test_any_other_end_is_refused(end: bytes) -> None:
    with pytest.raises(MalformedError):
        await decode_request(APIS[KEY], 0, memoryview(encoded(request(b"p" * 32)) + end))


async def test_only_this_request_may_have_two_ends() -> None:
    asked = build(request_type(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0), users=None)
    with pytest.raises(MalformedError):
        await decode_request(
            APIS[ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS], 0, memoryview(encoded(asked) + b"\0")
        )
