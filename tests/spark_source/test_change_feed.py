"""What change feeds tell: the stories of topics, partitions, brokers and the quorum."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from metadata_folder import DISKS, ORDERS, MetadataFolder

from quorate.broker.metadata.batch_loader import BatchLoader
from quorate.broker.metadata.metadata_records import (
    NO_LEADER,
    BrokerRegistrationChange,
    ChangeReason,
    ClientQuota,
    Config,
    ConfigType,
    FeatureLevel,
    Partition,
    PartitionChange,
    QuotaEntity,
    RegisterBroker,
    RemoveTopic,
    ShrinkTopic,
    Topic,
    UnregisterBroker,
)
from quorate.log.batches.control import voters_batch
from quorate.runtime import uuid_text
from quorate.spark_source.source_options import ViewName
from quorate.types import Endpoint, NodeId, ReplicaKey, Voter, VoterSet
from tests.spark_source.conftest import in_order, read_rows

ID = uuid.UUID(int=5)
HEARD_MS = 1_700_000_000_123


def feed(log: Any, view: str, **options: object) -> list[dict[str, Any]]:
    """The changes of an entity."""
    return in_order(read_rows(path=log.folder, view=view, readChangeFeed=True, **options))


def told(rows: list[dict[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in ("offset", "_change_type", *columns)) for row in rows]


@pytest.fixture
def log(new_log: Callable[..., Any]) -> Any:
    """Three brokers with a directory each, unfenced; offset 7 is the next."""
    made = new_log()
    made.new_epoch(1)
    for broker in (1, 2, 3):
        made.append(
            RegisterBroker(
                broker_id=broker,
                incarnation_id=uuid.UUID(int=broker),
                broker_epoch=made.end,
                log_dirs=(uuid.UUID(int=0xD << 64 | broker),),
            ),
            BrokerRegistrationChange(
                broker_id=broker,
                broker_epoch=made.end,
                fenced=False,
                reason=ChangeReason.BROKER_UNFENCED,
            ),
        )
    return made


def create(log: Any, *replicas: tuple[int, ...]) -> int:
    """Create a topic with these replicas, and return its offset."""
    offset: int = log.end
    log.append(
        Topic(name="t", topic_id=ID),
        *(
            Partition(
                topic_id=ID,
                partition_id=number,
                replicas=each,
                isr=each,
                leader=each[0],
                directories=tuple(uuid.UUID(int=0xD << 64 | broker) for broker in each),
            )
            for number, each in enumerate(replicas)
        ),
    )
    return offset


def test_a_partition_is_told_change_by_change(sample: Any) -> None:
    rows = [row for row in feed(sample, "partitions") if (row["topic"], row["partition_id"]) == ("orders", 0)]
    assert told(rows, "leader", "leader_epoch", "partition_epoch", "isr", "offline_replicas") == [
        (9, "insert", 1, 0, 0, [1, 2], []),
        (14, "update_preimage", 1, 0, 0, [1, 2], []),
        (14, "update_postimage", 2, 1, 1, [2], []),
        (15, "update_preimage", 2, 1, 1, [2], []),
        (15, "update_postimage", 2, 1, 1, [2], [1]),
        (21, "update_preimage", 2, 1, 1, [2], [1]),
        (21, "update_postimage", 2, 1, 2, [2, 1], [1]),
        (22, "update_preimage", 2, 1, 2, [2, 1], [1]),
        (22, "update_postimage", 1, 2, 3, [2, 1], [1]),
    ]
    assert [row["record_type"] for row in rows] == [
        "Partition",
        *["PartitionChange"] * 2,
        *["BrokerRegistrationChange"] * 2,
        *["PartitionChange"] * 4,
    ]
    times = {offset: at for offset, _, at, _ in sample.records}
    assert [row["timestamp"].timestamp() * 1000 for row in rows] == [times[row["offset"]] for row in rows]
    assert {row["batch_offset"] for row in rows if row["offset"] == 9} == {8}


def test_the_changes_of_partitions_end_where_the_image_does(sample: Any) -> None:
    loader = BatchLoader()
    for offset, epoch, _, record in sample.records:
        loader.load([record], base_offset=offset, epoch=epoch)
    last = {row["partition_id"]: row for row in feed(sample, "partitions") if row["topic"] == "orders"}
    topic = loader.image.topic("orders")
    assert topic is not None
    for number, row in last.items():
        state = loader.image.partition(topic.topic_id, number)
        assert state is not None
        assert (row["leader"], row["leader_epoch"], row["partition_epoch"], tuple(row["isr"])) == (
            state.leader,
            state.leader_epoch,
            state.partition_epoch,
            state.isr,
        )
    assert len(last) == 3


def test_topics_are_told_from_creation_to_removal(sample: Any) -> None:
    assert told(feed(sample, "topics"), "name") == [
        (8, "insert", "orders"),
        (19, "insert", "logs"),
        (24, "delete", "logs"),
    ]
    configs = told(feed(sample, "configs"), "resource_type", "resource_name", "name", "value")
    assert configs == [(12, "insert", "TOPIC", "orders", "min.insync.replicas", "2")]


def test_brokers_are_told_from_registration_to_their_end(sample: Any) -> None:
    rows = [row for row in feed(sample, "brokers") if row["broker_id"] in (1, 3)]
    assert told(rows, "broker_id", "fenced") == [
        (2, "insert", 1, True),
        (3, "update_preimage", 1, True),
        (3, "update_postimage", 1, False),
        (6, "insert", 3, True),
        (7, "update_preimage", 3, True),
        (7, "update_postimage", 3, False),
        (15, "update_preimage", 1, False),
        (15, "update_postimage", 1, True),
        (25, "delete", 3, False),
    ]
    assert rows[-1]["rack"] == "rack-3"
    assert rows[0]["listeners"] == [{"name": "PLAINTEXT", "host": "localhost", "port": 9091}]


def test_each_change_of_a_partition_says_why(log: Any) -> None:
    create(log, (1, 2))
    log.append(
        PartitionChange(topic_id=ID, partition_id=0, isr=(1,), reason=ChangeReason.REPLICA_LAGGED),
        PartitionChange(topic_id=ID, partition_id=0, isr=(1, 2)),
    )
    log.write()
    assert [row["reason"] for row in feed(log, "partitions")] == [None, *["REPLICA_LAGGED"] * 2, None, None]


def test_each_state_lists_its_eligible_leader_replicas(log: Any) -> None:
    create(log, (1, 2, 3))
    log.append(
        PartitionChange(topic_id=ID, partition_id=0, isr=(1,), eligible_leader_replicas=(2,)),
        PartitionChange(topic_id=ID, partition_id=0, isr=(1,)),
        PartitionChange(
            topic_id=ID,
            partition_id=0,
            isr=(),
            leader=NO_LEADER,
            eligible_leader_replicas=(),
            last_known_elr=(1,),
        ),
    )
    log.write()
    after = [row for row in feed(log, "partitions") if row["_change_type"] != "update_preimage"]
    assert [(row["eligible_leader_replicas"], row["last_known_elr"]) for row in after] == [
        ([], []),
        ([2], []),
        ([2], []),
        ([], [1]),
    ]


def test_a_fencing_says_why_and_when_the_broker_was_last_heard_with_a_row_for_each_partition_concerned(
    log: Any,
) -> None:
    create(log, (1, 2), (2, 3), (3, 1))
    fencing = log.end
    log.append(
        BrokerRegistrationChange(
            broker_id=1, broker_epoch=1, fenced=True, reason=ChangeReason.BROKER_GONE, last_heard_ms=HEARD_MS
        )
    )
    log.write()
    rows = in_order(read_rows(path=log.folder, view="changes", startingOffsets=fencing))
    assert [
        (
            row["_change_type"],
            row["entity"],
            row["row"],
            (row["partition"] or {}).get("partition_id"),
            (row["partition"] or {}).get("offline_replicas"),
        )
        for row in rows
    ] == [
        ("update_preimage", "broker", 0, None, None),
        ("update_postimage", "broker", 1, None, None),
        ("update_preimage", "partition", 2, 0, []),
        ("update_preimage", "partition", 2, 2, []),
        ("update_postimage", "partition", 3, 0, [1]),
        ("update_postimage", "partition", 3, 2, [1]),
    ]
    causes = {(row["record_type"], row["reason"], row["last_heard"].timestamp() * 1000) for row in rows}
    assert causes == {("BrokerRegistrationChange", "BROKER_GONE", HEARD_MS)}
    assert [row["last_heard"] for row in feed(log, "brokers", endingOffsets=fencing)] == [None] * 9


def test_a_failure_of_a_directory_has_a_row_for_each_partition_on_it(story: MetadataFolder) -> None:
    failed = story.end
    story.append(
        BrokerRegistrationChange(
            broker_id=1, broker_epoch=1, log_dirs=(), reason=ChangeReason.DIRECTORY_FAILED
        )
    )
    story.append(
        BrokerRegistrationChange(broker_id=2, broker_epoch=2, log_dirs=(uuid.UUID(int=9),)),
        BrokerRegistrationChange(broker_id=2, broker_epoch=2, log_dirs=(uuid.UUID(int=9), DISKS[2])),
    )
    story.write()
    rows = read_rows(path=story.path, view="partitions", readChangeFeed=True, startingOffsets=failed)
    after = [row for row in in_order(rows) if row["_change_type"] == "update_postimage"]
    assert [
        (row["offset"], row["partition_id"], row["offline_replicas"], row["reason"]) for row in after
    ] == [
        (failed + 1, 0, [2], None),
        (failed + 1, 1, [2], None),
        (failed + 2, 0, [], None),
        (failed + 2, 1, [], None),
    ], "a broker that lists no directory has not said which are online"
    brokers = read_rows(path=story.path, view="brokers", readChangeFeed=True, startingOffsets=failed)
    assert [row["log_dirs"] for row in in_order(brokers)][1] == []
    assert {row["topic_id"] for row in rows} == {uuid_text(ORDERS)}


def test_the_removal_of_a_topic_has_a_row_for_each_partition_and_config(log: Any) -> None:
    create(log, (1,), (2,))
    for name in ("retention.ms", "segment.bytes"):
        log.append(Config(resource_type=ConfigType.TOPIC, resource_name="t", name=name, value="1"))
    log.append(Config(resource_type=ConfigType.TOPIC, resource_name="other", name="retention.ms", value="1"))
    removal = log.end
    log.append(RemoveTopic(topic_id=ID))
    log.write()
    rows = read_rows(path=log.folder, view="changes", startingOffsets=removal)
    shown = [row[row["entity"]] for row in rows]
    assert sorted(
        (row["_change_type"], row["entity"], each.get("partition_id", each.get("name")))
        for row, each in zip(rows, shown, strict=True)
    ) == [
        ("delete", "config", "retention.ms"),
        ("delete", "config", "segment.bytes"),
        ("delete", "partition", 0),
        ("delete", "partition", 1),
        ("delete", "topic", "t"),
    ]
    assert {row["record_type"] for row in rows} == {"RemoveTopic"}


def test_a_topic_that_is_shrunk_loses_its_last_partitions_and_remembers_their_epochs(log: Any) -> None:
    create(log, (1,), (2,), (3,))
    log.append(PartitionChange(topic_id=ID, partition_id=2, leader=3))
    log.append(ShrinkTopic(topic_id=ID, num_partitions=1))
    log.write()
    gone = [row for row in feed(log, "partitions") if row["_change_type"] == "delete"]
    assert [(row["partition_id"], row["leader_epoch"], row["record_type"]) for row in gone] == [
        (1, 0, "ShrinkTopic"),
        (2, 1, "ShrinkTopic"),
    ]
    topics = feed(log, "topics")
    assert [(row["_change_type"], row["first_epochs"]) for row in topics] == [
        ("insert", []),
        ("update_preimage", []),
        ("update_postimage", [{"partition_id": 1, "leader_epoch": 2}]),
    ]


@pytest.mark.parametrize("view", [view.value for view in ViewName if view.entity is not None])
def test_a_shrunk_topic_is_read_over_by_a_view_of_other_things(log: Any, view: str) -> None:
    create(log, (1,), (2,))
    log.append(ShrinkTopic(topic_id=ID, num_partitions=1))
    log.append(RemoveTopic(topic_id=ID))
    log.write()
    state = read_rows(path=log.folder, view=view)
    assert {row["_change_type"] for row in feed(log, view)} <= {
        "insert",
        "update_preimage",
        "update_postimage",
        "delete",
    }
    assert bool(state) == (view in ("brokers", "quorum"))


def test_a_broker_that_is_unregistered_leaves_its_replicas_offline(log: Any) -> None:
    create(log, (1, 2))
    log.append(UnregisterBroker(broker_id=2, broker_epoch=3))
    log.write()
    last = feed(log, "partitions")[-1]
    assert (last["_change_type"], last["offline_replicas"], last["record_type"]) == (
        "update_postimage",
        [2],
        "UnregisterBroker",
    )


def test_quotas_and_features_are_told_with_the_values_before_and_after(log: Any) -> None:
    entity = QuotaEntity(user="u", client_id="")
    for value in (1.5, 1.5, 2.5, None):
        log.append(ClientQuota(entity=entity, key="producer_byte_rate", value=value))
    for level in (1, 2, 0):
        log.append(FeatureLevel(name="f", level=level))
    log.write()
    quotas = feed(log, "quotas")
    assert [(row["_change_type"], row["value"]) for row in quotas] == [
        ("insert", 1.5),
        ("update_preimage", 1.5),
        ("update_postimage", 2.5),
        ("delete", 2.5),
    ]
    assert {(row["entity"]["user"], row["entity"]["client_id"], row["entity"]["ip"]) for row in quotas} == {
        ("u", "", None)
    }
    assert [(row["_change_type"], row["level"]) for row in feed(log, "features")] == [
        ("insert", 1),
        ("update_preimage", 1),
        ("update_postimage", 2),
        ("delete", 2),
    ]


def test_the_quorum_is_told_by_its_leaders_and_its_voters(log: Any) -> None:
    directories = {each: uuid_text(uuid.UUID(int=0xD << 64 | each)) for each in (1, 2)}
    voters = VoterSet(
        tuple(
            Voter(ReplicaKey(NodeId(each), directories[each]), Endpoint(f"host-{each}", 9000 + each))
            for each in (1, 2)
        )
    )
    assert [(each["id"], each["directory_id"]) for each in quorum_after(log)["voters"]] == [
        (1, None),
        (2, None),
        (3, None),
    ]
    batch = voters_batch(
        base_offset=log.end, epoch=log.epoch, timestamp_ms=log.now_ms, voters=voters, first=False
    )
    log.batches.append((log.end, log.epoch, batch))
    log.end += 1
    last = quorum_after(log)
    assert (last["record_type"], last["leader"], last["kraft_version"]) == ("KRaftVoters", 1, 1)
    listed = [
        {"id": each, "directory_id": directories[each], "host": f"host-{each}", "port": 9000 + each}
        for each in (1, 2)
    ]
    assert last["voters"] == listed
    log.new_epoch(2)
    last = quorum_after(log)
    # The voters of a LeaderChange have no endpoints: those in the log stay.
    assert (last["leader"], last["leader_epoch"], last["voters"]) == (2, 2, listed)


def quorum_after(log: Any) -> dict[str, Any]:
    log.write()
    return feed(log, "quorum")[-1]
