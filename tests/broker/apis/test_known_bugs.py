"""What went wrong with answers elsewhere."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from api_broker import context
from kio.schema.errors import ErrorCode

from quorate.broker.apis.group_membership import handle_join_group
from quorate.broker.groups.group_messages import JoinedMember, JoinResult
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.codecs.entities import decode_entity, response_type
from quorate.broker.wire.exchanges import Deferred
from quorate.broker.wire.request_codec import encode_response


@pytest.mark.bug("KAFKA-14422")
@pytest.mark.parametrize("version", range(10))
async def test_a_leader_of_any_version_is_told_of_members_with_instance_ids(version: int) -> None:
    result = JoinResult(
        error=ErrorCode.none,
        generation=1,
        protocol_type="consumer",
        protocol="range",
        leader="a",
        member_id="a",
        members=(JoinedMember(member_id="a", instance_id="static", metadata=b"sub"),),
    )
    broker = SimpleNamespace(groups=SimpleNamespace(join=lambda request, reply: reply(result)))
    asked = SimpleNamespace(
        group_id="g",
        member_id="a",
        group_instance_id=None,
        protocol_type="consumer",
        protocols=[],
        reason=None,
        session_timeout=timedelta(seconds=10),
        rebalance_timeout=timedelta(seconds=10),
    )
    told = context(ApiKey.JOIN_GROUP, version)
    deferred = handle_join_group(cast(Any, broker), told, cast(Any, asked))
    assert isinstance(deferred, Deferred)
    body = b"".join(encode_response(await deferred.result()))
    decoded: Any = decode_entity(response_type(ApiKey.JOIN_GROUP, version), memoryview(body))
    (member,) = decoded.members
    assert member.member_id == "a"
    assert getattr(member, "group_instance_id", None) == ("static" if version >= 5 else None)
