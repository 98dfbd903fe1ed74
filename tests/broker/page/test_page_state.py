"""The page's numbers are those of the image, and making them holds up nobody."""

import json
import uuid

import pytest
from gaps import BUDGET_MS, within_gap
from metadata_folder import STORY, registered

from quorate.broker.metadata.batch_loader import BatchLoader
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
    NO_LEADER,
    BrokerRegistrationChange,
    ChangeReason,
    Partition,
    PartitionChange,
    Topic,
)
from quorate.broker.page.page_state import Seen, summary, topic
from quorate.broker.page.partition_map import LISTED_MAX, PartitionMap
from quorate.runtime import at_once, in_slices

FIRST = uuid.UUID(int=77)


def seen(image: MetadataImage) -> Seen:
    return Seen(image=image, offset=image.offset, time_ms=1, epoch=1)


def cluster(topics: int, each: int) -> MetadataImage:
    """Three brokers, of which 3 is fenced."""
    image = MetadataImage()
    records = [registered(broker) for broker in (1, 2)]
    records += [
        BrokerRegistrationChange(broker_id=broker, broker_epoch=broker, fenced=False) for broker in (1, 2)
    ]
    for number in range(topics):
        topic_id = uuid.UUID(int=FIRST.int + number)
        records.append(Topic(name=f"t{number}", topic_id=topic_id))
        records += [
            Partition(topic_id=topic_id, partition_id=index, replicas=(1, 2), isr=(1, 2), leader=1)
            for index in range(each)
        ]
    for offset, record in enumerate(records):
        image.apply(record, offset=offset, epoch=1)
    return image


def change(image: MetadataImage, partition: int, **fields: object) -> None:
    record = PartitionChange(topic_id=FIRST, partition_id=partition, **fields)  # type: ignore[arg-type]
    image.apply(record, offset=image.offset + 1, epoch=1)


def map_of(image: MetadataImage) -> dict[str, object]:
    return json.loads(at_once(PartitionMap().of(seen(image))))


def test_counts_are_those_of_all_partitions_at_every_offset() -> None:
    loader = BatchLoader()
    base = 0
    compared = 0
    for records in STORY:
        loader.load(records, base_offset=base, epoch=1)
        base += len(records)
        image = loader.image
        states = [state for _, state in image.all_partitions()]
        counts = summary(seen(image), earliest=0, latest=0)["counts"]
        assert counts["partitions"] == len(states)
        assert counts["behind"] == sum(len(each.replicas) - len(each.isr) for each in states)
        assert counts["offline"] == sum(each.leader == NO_LEADER for each in states)
        assert counts["moving"] == sum(each.is_reassigning for each in states)
        compared += len(states)
    assert compared > 20


def test_each_state_of_a_partition_is_on_the_map_and_the_sick_are_told_in_full() -> None:
    image = cluster(1, 6)
    change(image, 1, leader=2)
    change(image, 2, removing_replicas=(2,))
    change(image, 3, isr=(1,))
    change(image, 4, leader=NO_LEADER, isr=(1,))
    change(image, 5, isr=(1,), adding_replicas=(2,))
    told = map_of(image)
    assert told["topics"] == [["t0", "012343", [1, 2, 1, 1, -1, 1]]]
    assert [each["partition"] for each in told["offline"]["first"]] == [4]
    assert [each["partition"] for each in told["behind"]["first"]] == [3, 5]
    assert [each["partition"] for each in told["moving"]["first"]] == [2, 5]
    assert told["behind"]["first"][0] == {
        "topic": "t0", "partition": 3, "leader": 1, "leader_epoch": 0, "replicas": [1, 2], "isr": [1],
        "elr": [], "adding": [], "removing": [],
    }  # fmt: skip
    counts = summary(seen(image), earliest=0, latest=0)["counts"]
    assert (counts["offline"], counts["behind"]) == (1, 3)


def test_a_map_that_is_made_again_is_as_if_it_were_made_for_the_first_time() -> None:
    kept, loader, base = PartitionMap(), BatchLoader(), 0
    images: list[MetadataImage] = []
    for records in STORY:
        loader.load(records, base_offset=base, epoch=1)
        base += len(records)
        images.append(loader.image.copy())
    fenced = images[-1].copy()
    change_of = BrokerRegistrationChange(broker_id=2, broker_epoch=2, fenced=True)
    fenced.apply(change_of, offset=base, epoch=1)
    images.append(fenced)
    for image in (*images, *reversed(images)):
        assert json.loads(at_once(kept.of(seen(image)))) == map_of(image)


def test_only_the_topics_that_have_changed_are_made_again() -> None:
    image, kept = cluster(20, 3), PartitionMap()
    at_once(kept.of(seen(image.copy())))
    change(image, 1, isr=(1,))
    told = json.loads(at_once(kept.of(seen(image.copy()))))
    assert told == map_of(image) and told["behind"]["total"] == 1
    assert kept.made == 21


def test_a_partition_whose_leader_is_fenced_is_offline() -> None:
    image = cluster(1, 2)
    fenced = BrokerRegistrationChange(
        broker_id=1, broker_epoch=1, fenced=True, reason=ChangeReason.BROKER_GONE
    )
    image.apply(fenced, offset=image.offset + 1, epoch=1)
    told = summary(seen(image), earliest=0, latest=0)
    assert told["counts"]["offline"] == 2
    assert [(each["id"], each["state"], each["reason"]) for each in told["brokers"]] == [
        (1, "fenced", "broker gone"),
        (2, "up", None),
    ]
    assert map_of(image)["topics"] == [["t0", "44", [1, 1]]]


def test_no_more_of_the_sick_are_told_than_a_page_shows() -> None:
    image = cluster(1, LISTED_MAX + 50)
    for partition in range(LISTED_MAX + 50):
        change(image, partition, isr=(1,))
    behind = map_of(image)["behind"]
    assert (behind["total"], len(behind["first"])) == (LISTED_MAX + 50, LISTED_MAX)


def test_a_topic_is_told_by_its_partitions() -> None:
    image = cluster(2, 3)
    told = topic(seen(image), "t1")
    assert told is not None and told["total"] == len(told["partitions"]) == 3
    assert topic(seen(image), "t2") is None


def test_names_of_strangers_are_data() -> None:
    image = MetadataImage()
    name = '</script>"\\\u2028<img src=x onerror=alert(1)>'
    image.apply(Topic(name=name, topic_id=FIRST), offset=0, epoch=1)
    assert map_of(image)["topics"] == [[name, "", []]]


@pytest.mark.costly
@pytest.mark.real_time
@pytest.mark.parametrize(("topics", "each"), [(1000, 10), (1, 10_000), (10_000, 1)])
async def test_ten_thousand_partitions_hold_the_loop_for_no_more_than_a_slice(topics: int, each: int) -> None:
    image = cluster(topics, each)
    for partition in range(min(each, LISTED_MAX)):
        change(image, partition, isr=(1,))

    async def shown() -> bytes:
        return await in_slices(PartitionMap().of(seen(image.copy())))

    # 5 ms are a slice, and the last step of one may take a few more.
    data = await within_gap(shown(), what="the map", budget_ms=BUDGET_MS / 4)
    assert len(data) < 300_000
