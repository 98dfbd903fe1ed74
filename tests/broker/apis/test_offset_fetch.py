"""OffsetFetch of a group that moves to another coordinator while a large answer is made."""

from typing import Any, cast

import pytest
from api_broker import broker_of, context
from kio.schema.errors import ErrorCode

from quorate.broker.apis.group_offsets import handle_offset_fetch
from quorate.broker.groups.group_messages import CommittedOffset
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.codecs.entities import build, request_type
from quorate.broker.wire.exchanges import Deferred
from quorate.broker.wire.wire_errors import KafkaError


class Groups:
    """Coordinates the group for so many looks at an offset."""

    def __init__(self, looks: int) -> None:
        self.left = looks

    def check(self, group_id: str) -> ErrorCode:
        return ErrorCode.none if self.left > 0 else ErrorCode.not_coordinator

    def fetch_offset(self, group_id: str, topic: str, index: int) -> CommittedOffset:
        self.left -= 1
        return CommittedOffset(offset=7, leader_epoch=1, metadata="")


@pytest.mark.parametrize("version", [7, 8])
async def test_a_group_that_moves_meanwhile_is_never_told_to_have_no_offsets(version: int) -> None:
    topics = [{"name": "t", "partition_indexes": range(1000)}]
    group = {"group_id": "g", "topics": topics}
    request = cast(Any, build(request_type(ApiKey.OFFSET_FETCH, 8), groups=[group]))
    broker = broker_of(groups=Groups(500))
    answer = handle_offset_fetch(broker, context(ApiKey.OFFSET_FETCH, version), request)
    assert isinstance(answer, Deferred)
    with pytest.raises(KafkaError, match="group 'g' moved") as refused:
        await answer.result()
    assert refused.value.code is ErrorCode.not_coordinator
