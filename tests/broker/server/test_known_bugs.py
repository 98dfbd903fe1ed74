"""Bugs of other systems with whole brokers."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import trio
from captured_logs import captured_logs
from kio.schema.errors import ErrorCode

from quorate.broker.replication.storage.proofs import CLEAN_SHUTDOWN
from quorate.broker.wire.api import ApiKey
from quorate.runtime.network import NetworkError
from tests.broker.server.conftest import MakeNodes

JOINING = {
    "group_id": "g",
    "session_timeout": timedelta(seconds=30),
    "rebalance_timeout": timedelta(seconds=60),
    "member_id": "",
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": b"sub"}],
}


@pytest.mark.slow
@pytest.mark.bug("KAFKA-4523")
async def test_an_orderly_stop_with_joins_and_commits_waiting_is_clean(
    make_nodes: MakeNodes, tmp_path: Path
) -> None:
    """The coordinator ends before its log is closed."""
    nodes = await make_nodes(1, {"group.initial.rebalance.delay.ms": "60000"})
    outcomes: list[object] = []

    async def join() -> None:
        async with nodes.client(1) as client:
            try:
                answer: Any = await client.call(ApiKey.JOIN_GROUP, at_most=3, timeout_s=60, **JOINING)
                outcomes.append(answer.error_code)
            except NetworkError:
                outcomes.append("closed")

    async def commit(number: int) -> None:
        part = {"partition_index": 0, "committed_offset": number, "committed_metadata": ""}
        async with nodes.client(1) as client:
            try:
                while True:
                    await client.call(
                        ApiKey.OFFSET_COMMIT,
                        at_most=8,
                        group_id=f"alone-{number}",
                        member_id="",
                        topics=[{"name": "t", "partitions": [part]}],
                    )
            except NetworkError:
                outcomes.append("closed")

    async with nodes.client(1) as client:
        with trio.fail_after(20):
            while True:
                await client.call(ApiKey.FIND_COORDINATOR, at_most=4, coordinator_keys=["g"])
                beat: Any = await client.call(
                    ApiKey.HEARTBEAT, at_most=3, group_id="g", generation_id=1, member_id="nobody"
                )
                if beat.error_code is ErrorCode.unknown_member_id:
                    break
                await trio.sleep(0.05)
    with captured_logs() as lines, trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(join)
                nursery.start_soon(commit, number)
            await trio.sleep(0.5)
            assert not outcomes
            await nodes.stop(1)
    assert len(outcomes) == 6
    assert (tmp_path / "node-1" / CLEAN_SHUTDOWN).exists()
    assert not [each for each in lines if each["log_level"] == "error"]
