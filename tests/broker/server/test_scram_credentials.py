"""Passwords of users, set, described and removed through brokers (KIP-554)."""

from typing import Any

import pytest
import trio
from kio.schema.errors import ErrorCode

from quorate.broker.wire.api import ApiKey
from tests.broker.server.conftest import Nodes

SET = {
    "name": "ann",
    "mechanism": 2,
    "iterations": 4096,
    "salt": b"salt of ann",
    "salted_password": bytes(64),
}


async def described(client: Any, *names: str) -> dict[str, Any]:
    users = [{"name": name} for name in names] or None
    answer = await client.call(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, users=users)
    assert answer.error_code is ErrorCode.none
    return {each.user: each for each in answer.results}


async def described_until(client: Any, many: int) -> dict[str, Any]:
    """Wait until this broker's metadata has so many users with passwords."""
    for _ in range(500):
        found = await described(client)
        if len(found) == many:
            return found
        await trio.sleep(0.01)
    raise AssertionError(f"there are {found}")


async def test_a_password_is_set_described_and_removed(nodes: Nodes) -> None:
    async with nodes.client(1) as client:
        assert await described(client) == {}
        answer: Any = await client.call(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            deletions=[{"name": "bob", "mechanism": 1}],
            upsertions=[SET, SET | {"name": "cat", "iterations": 1}],
        )
        assert [(each.user, each.error_code) for each in answer.results] == [
            ("bob", ErrorCode.resource_not_found),
            ("ann", ErrorCode.none),
            ("cat", ErrorCode.unacceptable_credential),
        ]
        found = await described_until(client, 1)
        (info,) = found["ann"].credential_infos
        assert (info.mechanism, info.iterations) == (2, 4096)
        named = await described(client, "alice", "bob", "bob", "ann")
        assert {name: each.error_code for name, each in named.items()} == {
            "alice": ErrorCode.resource_not_found,
            "bob": ErrorCode.duplicate_resource,
            "ann": ErrorCode.none,
        }
        deletions = [{"name": "ann", "mechanism": 2}]
        answer = await client.call(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, deletions=deletions, upsertions=[])
        assert [each.error_code for each in answer.results] == [ErrorCode.none]
        await described_until(client, 0)


@pytest.mark.parametrize(
    ("many", "secret", "code"),
    [(501, 8, ErrorCode.invalid_request), (1, 5000, ErrorCode.unacceptable_credential)],
)
async def test_a_request_that_is_too_large_is_refused_for_every_user(
    nodes: Nodes, many: int, secret: int, code: ErrorCode
) -> None:
    async with nodes.client(1) as client:
        upsertions = [SET | {"name": f"u{number}", "salt": bytes(secret)} for number in range(many)]
        answer: Any = await client.call(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS, deletions=[], upsertions=upsertions
        )
        assert {each.error_code for each in answer.results} == {code}
        assert len(answer.results) == many
