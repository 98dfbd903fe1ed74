"""The page of a node names what the catalogue's diagnosis finds, at each offset of the log."""

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from gaps import BUDGET_MS, within_gap
from metadata_folder import ORDERS, MetadataFolder, partition, registered

from quorate.broker.metadata.metadata_records import (
    NO_LEADER,
    BrokerRegistrationChange,
    ChangeReason,
    FeatureLevel,
    Partition,
    PartitionChange,
    Topic,
)
from quorate.broker.page.page_health import HealthView
from quorate.broker.page.replayed import Past
from quorate.cli.images.files_page import FilesLog
from quorate.cli.images.observed_metadata import FolderMetadata
from quorate.health import Observation, PageDiagnosis, diagnose, page_health
from quorate.health.catalogue import BROKER_FENCED
from quorate.health.observation import Part
from quorate.history import FolderLog
from quorate.runtime.real import short_collections

SICK: Final = 10_000


def live(broker: int) -> BrokerRegistrationChange:
    return BrokerRegistrationChange(broker_id=broker, broker_epoch=broker, fenced=False)


def gone(broker: int) -> BrokerRegistrationChange:
    return BrokerRegistrationChange(
        broker_id=broker, broker_epoch=broker, fenced=True, reason=ChangeReason.BROKER_GONE
    )


@pytest.fixture
def folder(tmp_path: Path) -> MetadataFolder:
    """Broker 2 dies, and later broker 1 too: the second of two partitions has nobody left."""
    folder = MetadataFolder(tmp_path / "node")
    folder.append()
    folder.append(FeatureLevel(name="metadata.version", level=1))
    for broker in (1, 2):
        folder.append(registered(broker))
        folder.append(live(broker))
    folder.append(Topic(name="orders", topic_id=ORDERS), partition(ORDERS, 0), partition(ORDERS, 1))
    folder.append(gone(2))
    folder.append(PartitionChange(topic_id=ORDERS, partition_id=0, isr=(1,), reason=ChangeReason.BROKER_GONE))
    folder.append(gone(1))
    folder.append(
        PartitionChange(topic_id=ORDERS, partition_id=0, leader=NO_LEADER, reason=ChangeReason.BROKER_GONE)
    )
    return folder


@pytest.fixture
async def past(folder: MetadataFolder) -> Past:
    await folder.save()
    return Past(FilesLog(FolderLog(path=str(folder.path)), print))


async def at(past: Past, offset: int, diagnosis: PageDiagnosis | None = None) -> HealthView:
    return await (diagnosis or PageDiagnosis()).of_past(await past.at(offset), past.log)


def told(view: HealthView) -> list[tuple[str, str]]:
    return [(each.name, each.where) for each in view.problems]


async def test_an_offset_of_the_past_has_the_problems_that_were_there_then(
    past: Past, folder: MetadataFolder
) -> None:
    assert told(await at(past, 8)) == []
    after = await at(past, 9)
    assert told(after) == [("broker-fenced", "broker 2")]
    (problem,) = after.problems
    assert (problem.severity, problem.why, problem.since_ms) == ("serious", "broker gone", folder.time_of(9))
    assert problem.remedy.endswith("`quorate brokers unregister 2 -b host-1:9092`")
    assert problem.pages[0] == "docs/reference/problems.md#broker-fenced"
    assert problem.meaning == BROKER_FENCED.meaning and problem.alert is not None
    assert BROKER_FENCED.alert is not None and BROKER_FENCED.alert.expression in problem.alert
    (_, behind) = (await at(past, 10)).problems
    assert (behind.name, behind.where, behind.since_ms) == (
        "under-replicated",
        "orders-0",
        folder.time_of(10),
    )
    last = await at(past, past.latest)
    assert {("offline-partitions", "orders-0"), ("offline-partitions", "orders-1")} <= set(told(last))
    assert [each.problem is None for each in last.sources] == [True, False, False]


async def test_the_newest_offset_of_a_folder_has_the_problems_of_the_command(
    past: Past, folder: MetadataFolder
) -> None:
    reader = FolderMetadata(str(folder.path))
    facts = await reader.read()
    now_ms = reader.clock_ms()
    reach = "-b HOST:PORT"
    found = diagnose(
        Observation(
            now_ms=now_ms,
            reach=reach,
            brokers_reach=reach,
            quorum=None,
            metadata=Part(source="the folder", at_ms=now_ms, facts=facts),
        )
    )
    view = await at(past, past.latest)
    assert len(found) >= 3
    assert [(each.kind.name, each.where, each.why, each.since_ms, each.remedy) for each in found] == [
        (each.name, each.where, each.why, each.since_ms, each.remedy) for each in view.problems
    ]


@pytest.mark.parametrize("back", [2, 8192])
async def test_going_back_and_forth_finds_what_a_first_look_finds(
    past: Past, folder: MetadataFolder, monkeypatch: pytest.MonkeyPatch, back: int
) -> None:
    monkeypatch.setattr(page_health, "_LOOKED_BACK", back)
    walked = PageDiagnosis()
    offsets = [*range(folder.end), *reversed(range(folder.end)), 3, folder.end - 1, 0, folder.end - 2]
    for offset in offsets:
        assert await at(past, offset, walked) == await at(past, offset), offset


async def test_the_min_isr_of_the_node_counts_unless_the_cluster_has_one(past: Past) -> None:
    assert told(await at(past, 10, PageDiagnosis(default_min_isr=2)))[1:] == [("under-min-isr", "orders-0")]


Change = Callable[[uuid.UUID, int], PartitionChange]


def shrunk(topic: uuid.UUID, number: int) -> PartitionChange:
    return PartitionChange(topic_id=topic, partition_id=number, isr=(1,), reason=ChangeReason.BROKER_GONE)


def moving(topic: uuid.UUID, number: int) -> PartitionChange:
    return PartitionChange(
        topic_id=topic, partition_id=number, replicas=(1, 2), adding_replicas=(2,), isr=(1,)
    )


@pytest.mark.slow
@pytest.mark.real_time
@pytest.mark.parametrize("change", [shrunk, moving])
async def test_ten_thousand_sick_partitions_hold_the_loop_for_no_more_than_a_slice(
    tmp_path: Path, change: Change
) -> None:
    folder = MetadataFolder(tmp_path / "node")
    folder.append()
    folder.append(FeatureLevel(name="metadata.version", level=1))
    for broker in (1, 2):
        folder.append(registered(broker))
    folder.append(live(1))
    for number in range(SICK // 10):
        topic_id = uuid.UUID(int=number + 1)
        folder.append(
            Topic(name=f"t{number}", topic_id=topic_id),
            *(
                Partition(topic_id=topic_id, partition_id=each, replicas=(1, 2), isr=(1, 2), leader=1)
                for each in range(10)
            ),
        )
        folder.append(*(change(topic_id, each) for each in range(10)))
    await folder.save()
    past = Past(FilesLog(FolderLog(path=str(folder.path)), print))
    seen = await past.at(past.latest)
    with short_collections():  # as nodes do
        view = await within_gap(
            PageDiagnosis().of_past(seen, past.log), what="the health", budget_ms=BUDGET_MS / 4
        )
    names = {each.name for each in view.problems}
    assert names == {"broker-fenced", "under-replicated" if change is shrunk else "reassignment-stuck"}
    assert view.total == 2


async def test_how_long_a_problem_lasted_is_told_by_the_time_of_the_offset(tmp_path: Path) -> None:
    """A live replica has 15 s to catch up; the batches here are a second apart."""
    folder = MetadataFolder(tmp_path / "node")
    folder.append()
    folder.append(FeatureLevel(name="metadata.version", level=1))
    for broker in (1, 2):
        folder.append(registered(broker))
        folder.append(live(broker))
    folder.append(Topic(name="orders", topic_id=ORDERS), partition(ORDERS, 0))
    lagged = folder.end
    folder.append(
        PartitionChange(topic_id=ORDERS, partition_id=0, isr=(1,), reason=ChangeReason.REPLICA_LAGGED)
    )
    for _ in range(20):
        folder.append(live(1))
    await folder.save()
    past = Past(FilesLog(FolderLog(path=str(folder.path)), print))
    assert told(await at(past, lagged + 14)) == []
    assert told(await at(past, lagged + 15)) == [("under-replicated", "orders-0")]
