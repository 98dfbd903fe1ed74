"""No user has SCRAM credentials, and a request for them is answered so (KIP-554)."""

from typing import Any

from kio.schema.errors import ErrorCode

from quorate.broker.wire.api import ApiKey
from tests.broker.server.conftest import Nodes


async def test_there_are_none_and_a_user_who_is_named_is_not_found(nodes: Nodes) -> None:
    async with nodes.client(1) as client:
        everybody: Any = await client.call(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, users=None)
        assert everybody.error_code is ErrorCode.none
        assert everybody.results == ()
        users = [{"name": name} for name in ("alice", "bob", "bob")]
        named: Any = await client.call(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, users=users)
    assert {each.user: each.error_code for each in named.results} == {
        "alice": ErrorCode.resource_not_found,
        "bob": ErrorCode.duplicate_resource,
    }
