"""While the page of a node with 10,000 partitions in its metadata is looked at, nothing holds its loop."""

import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
from gaps import BUDGET_MS, within_gap
from metadata_folder import registered

from quorate.broker.metadata.metadata_records import (
    BrokerRegistrationChange,
    ChangeReason,
    Partition,
    PartitionChange,
    Record,
    Topic,
)
from quorate.broker.metadata.record_codec import encode
from quorate.broker.page import recent_groups
from quorate.broker.server import BrokerServer
from quorate.health import PageDiagnosis
from quorate.runtime.real import short_collections
from tests.broker.page.test_node_page import configured, get

pytestmark = [pytest.mark.slow, pytest.mark.real_time]

TOPICS, EACH = 1000, 10
SLICE_MS = BUDGET_MS / 4
LOOKED_S = 8


def brokers() -> list[Record]:
    """Two that never come, and have all the partitions: this node keeps the page and no replica."""
    return [
        record
        for broker in (2, 3)
        for record in (
            replace(
                registered(2),
                broker_id=broker,
                broker_epoch=broker,
                incarnation_id=uuid.UUID(int=broker),
                log_dirs=(uuid.UUID(int=1000 + broker),),
            ),
            BrokerRegistrationChange(broker_id=broker, broker_epoch=broker, fenced=False),
        )
    ]


def topic(number: int) -> list[Record]:
    topic_id = uuid.UUID(int=number + 1)
    return [
        Topic(name=f"t{number}", topic_id=topic_id),
        *(
            Partition(topic_id=topic_id, partition_id=index, replicas=(2, 3), isr=(2, 3), leader=2)
            for index in range(EACH)
        ),
    ]


def shrunk(number: int) -> list[Record]:
    topic_id = uuid.UUID(int=number + 1)
    return [
        PartitionChange(topic_id=topic_id, partition_id=index, isr=(2,), reason=ChangeReason.REPLICA_LAGGED)
        for index in range(EACH)
    ]


async def append(server: BrokerServer, records: Iterator[list[Record]]) -> None:
    for each in records:
        await server.quorum.append([encode(record) for record in each])


async def look(server: BrokerServer) -> dict[str, Any]:
    """Do what a page in a browser asks, again and again, also for the past."""
    latest = server.quorum.applied_offset - 1
    targets = [
        f"/page/api/{part}"
        for part in ("summary", "partitions", "changes", "health", "recent", "groups", "moves")
    ]
    targets += [f"/page/api/{part}?offset={latest - 3000}" for part in ("summary", "partitions", "health")]
    targets.append(f"/page/api/changes?around={latest - 3000}")
    told: dict[str, Any] = {}
    with trio.move_on_after(LOOKED_S):
        while True:
            for target in targets:
                status, body = await get(server, target)
                assert status == 200, body
                told[target] = await trio.to_thread.run_sync(json.loads, body)
    return told


async def test_the_page_of_ten_thousand_partitions_holds_the_loop_of_its_node_for_no_more_than_a_slice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent_groups, "SAMPLE_SECONDS", 0.5)
    config = await configured(tmp_path / "node", broker_session_timeout_ms="600000")
    async with BrokerServer.open(config, health=PageDiagnosis()) as server:
        await server.wait_ready()
        await append(server, iter([brokers()]))
        await append(server, (topic(number) for number in range(TOPICS)))
        # As in the process of a node: its collector takes a part of somebody's slice, some 3 ms.
        with short_collections():
            told = await within_gap(look(server), what="the page of a well cluster", budget_ms=SLICE_MS)
            assert told["/page/api/summary"]["counts"]["partitions"] == TOPICS * EACH
            assert len(told["/page/api/partitions"]["topics"]) == TOPICS
            assert told["/page/api/health"]["health"]["total"] == 0
            await append(server, (shrunk(number) for number in range(TOPICS)))
            told = await within_gap(look(server), what="the page of a sick cluster", budget_ms=SLICE_MS)
            assert told["/page/api/summary"]["counts"]["behind"] == TOPICS * EACH
