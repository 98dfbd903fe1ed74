import sys
import uuid
from dataclasses import replace

import pytest

from quorate.broker.metadata.delta import MetadataDelta, apply_records
from quorate.broker.metadata.difference import difference
from quorate.broker.metadata.image import ImageError, MetadataImage
from quorate.broker.metadata.metadata_records import (
    NO_LEADER,
    BrokerRegistrationChange,
    ClientQuota,
    Config,
    ConfigType,
    FeatureLevel,
    FirstEpoch,
    NoOp,
    Partition,
    PartitionChange,
    ProducerIds,
    QuotaEntity,
    Record,
    RemoveTopic,
    RemoveUserScramCredential,
    ScramMechanism,
    ShrinkTopic,
    Topic,
    UnregisterBroker,
    UserScramCredential,
)
from quorate.broker.metadata.states import ConfigResource, PartitionKey
from quorate.broker.metadata.topic_partitions import TopicPartitions
from quorate.invariant import InvariantError
from quorate.types import (
    Epoch,
    SecretBytes,
)
from tests.broker.controller.images import from_snapshot, image_of

TOPIC = uuid.UUID(int=500)


def partition(partition_id: int = 0, replicas: tuple[int, ...] = (1, 2, 3), **fields) -> Partition:
    return Partition(
        topic_id=TOPIC,
        partition_id=partition_id,
        replicas=replicas,
        isr=replicas,
        leader=replicas[0],
        **fields,
    )


def change(partition_id: int = 0, **fields) -> PartitionChange:
    return PartitionChange(topic_id=TOPIC, partition_id=partition_id, **fields)


@pytest.fixture
def topic(cluster):
    cluster.start(1, 2, 3)
    cluster.append(Topic(name="t", topic_id=TOPIC), partition(0), partition(1, (2, 3, 1)))
    return cluster


def test_the_partition_epoch_rises_always_and_the_leader_epoch_with_a_leader_named(topic) -> None:
    topic.append(change(isr=(1, 2)))
    state = topic.partition(TOPIC)
    assert (state.isr, state.leader_epoch, state.partition_epoch) == ((1, 2), 0, 1)
    topic.append(change(leader=1))
    state = topic.partition(TOPIC)
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (1, 1, 2)
    topic.append(change(leader=NO_LEADER))
    assert topic.partition(TOPIC).leader_epoch == 2
    assert topic.image.leaderless_count == 1


@pytest.mark.parametrize(
    "record",
    [
        Topic(name="t", topic_id=uuid.UUID(int=1)),
        Topic(name="u", topic_id=TOPIC),
        partition(3),
        partition(1),
        change(2, isr=(1,)),
        PartitionChange(topic_id=uuid.UUID(int=1), partition_id=0),
        RemoveTopic(topic_id=uuid.UUID(int=1)),
        ShrinkTopic(topic_id=uuid.UUID(int=1), num_partitions=1),
        ShrinkTopic(topic_id=TOPIC, num_partitions=2),
        BrokerRegistrationChange(broker_id=9, broker_epoch=0),
        BrokerRegistrationChange(broker_id=1, broker_epoch=99),
        UnregisterBroker(broker_id=1, broker_epoch=99),
        ProducerIds(broker_id=1, broker_epoch=0, next_producer_id=999),
    ],
)
def test_a_record_that_does_not_fit_is_an_error_and_changes_nothing(topic, record: Record) -> None:
    topic.append(ProducerIds(broker_id=1, broker_epoch=0, next_producer_id=1000))
    before = topic.image.copy()
    with pytest.raises(ImageError):
        topic.image.apply(record, offset=len(topic.log), epoch=1)
    assert topic.image == before
    assert topic.image.offset == before.offset
    topic.check_counts()


def test_a_copy_goes_its_own_way(topic) -> None:
    twin = topic.image.copy()
    assert twin == topic.image
    topic.append(
        change(isr=(1,)),
        Config(resource_type=ConfigType.TOPIC, resource_name="t", name="retention.ms", value="1"),
        FeatureLevel(name="metadata.version", level=1),
        UnregisterBroker(broker_id=3, broker_epoch=topic.epoch(3)),
    )
    assert twin != topic.image
    state = twin.partition(TOPIC, 0)
    assert state is not None
    assert state.isr == (1, 2, 3)
    assert not twin.configs(ConfigResource(ConfigType.TOPIC, "t"))
    assert not twin.features
    assert twin.broker(3) is not None


def test_the_image_as_records_makes_an_equal_image(topic) -> None:
    topic.append(
        change(isr=(1,), leader=1),
        Config(resource_type=ConfigType.TOPIC, resource_name="t", name="retention.ms", value="1"),
        FeatureLevel(name="metadata.version", level=1),
        ProducerIds(broker_id=1, broker_epoch=0, next_producer_id=1000),
        NoOp(),
    )
    assert from_snapshot(topic.image) == topic.image


def test_a_partition_takes_less_than_160_bytes() -> None:
    image = MetadataImage()
    image.apply(Topic(name="t", topic_id=TOPIC), offset=0, epoch=1)
    count = 3000
    for number in range(count):
        replicas = tuple((number + nth) % 5 for nth in range(3))
        image.apply(partition(number, replicas, leader_epoch=1000 + number), offset=number, epoch=1)
    states = image.partitions(TOPIC)
    lists = {id(each): each for state in states for each in (state.replicas, state.isr)}
    used = (
        sys.getsizeof(states)
        + sum(sys.getsizeof(state) + sys.getsizeof(state.leader_epoch) for state in states)
        + sum(sys.getsizeof(each) for each in lists.values())
    )
    assert used / count < 160
    assert len(lists) == 5


def test_a_delta_says_what_a_run_of_records_changed(topic) -> None:
    delta = apply_records(
        topic.image,
        [
            change(0, isr=(2, 3), leader=2),
            change(1, replicas=(2, 4), isr=(2,)),
            change(1, leader=NO_LEADER),
        ],
        base_offset=10,
        epoch=3,
    )
    assert (delta.base_offset, delta.end_offset) == (10, 13)
    assert (topic.image.offset, topic.image.epoch) == (12, 3)

    led, stopped = delta.partitions
    assert led.before is not None
    assert led.after is not None
    assert (led.topic, led.before.leader_epoch, led.after.leader_epoch) == ("t", 0, 1)
    assert (led.after.leader, led.after.isr) == (2, (2, 3))
    assert stopped.after is not None
    assert (stopped.after.leader, stopped.after.replicas) == (NO_LEADER, (2, 4)), "net of two records"


def test_a_deleted_topic_takes_its_partitions_and_settings_along(topic) -> None:
    topic.append(Config(resource_type=ConfigType.TOPIC, resource_name="t", name="retention.ms", value="1"))
    delta = apply_records(topic.image, [RemoveTopic(topic_id=TOPIC)], base_offset=20, epoch=1)
    assert delta.deleted_topics == ("t",)
    assert delta.configs == (ConfigResource(ConfigType.TOPIC, "t"),)
    assert [(each.partition_id, each.after) for each in delta.partitions] == [(0, None), (1, None)]


def test_a_topic_that_shrinks_loses_its_last_partitions_alone(topic) -> None:
    twin = topic.image.copy()
    shrunk = [ShrinkTopic(topic_id=TOPIC, num_partitions=1)]
    delta = apply_records(topic.image, shrunk, base_offset=20, epoch=1)
    assert [(each.partition_id, each.after) for each in delta.partitions] == [(1, None)]
    assert delta.deleted_topics == ()
    assert len(topic.image.partitions(TOPIC)) == 1
    assert (topic.image.leader_count(1), topic.image.leader_count(2)) == (1, 0)
    assert [each.partition_id for each in difference(twin, topic.image).partitions] == [1]
    assert len(twin.partitions(TOPIC)) == 2, "the copy shares the topic's partitions"


def test_a_broker_need_not_look_at_new_partitions_of_others(topic) -> None:
    other = uuid.UUID(int=501)
    before = topic.image.copy()
    elsewhere = [partition(2, (2, 3)), partition(3, (3, 1))]
    records = [*elsewhere, change(1, isr=(2,)), Topic(name="u", topic_id=other)]
    records += [replace(each, topic_id=other, partition_id=each.partition_id - 2) for each in elsewhere]
    delta = apply_records(topic.image, records, base_offset=20, epoch=1)
    seen = {("t", 1), ("t", 3), ("u", 1)}
    for each in (delta, difference(before, topic.image)):
        looks = list(each.looks_for(1))
        assert {(found.topic, found.partition_id) for found in looks if found is not None} == seen
        assert len(looks) == len(list(each.looks())), "a walk in pieces counts those that it passes"
        assert [found for found in looks if found is not None] == [
            found for found in each.partitions if (found.topic, found.partition_id) in seen
        ]
    gone = apply_records(topic.image, [RemoveTopic(topic_id=TOPIC)], base_offset=40, epoch=1)
    assert [found and found.partition_id for found in gone.looks_for(9)] == [0, 1, 2, 3]


def test_whether_a_delta_has_partitions_is_known_without_putting_them_all_together(
    topic, monkeypatch
) -> None:
    made: list[int] = []
    get = TopicPartitions.__getitem__
    monkeypatch.setattr(
        TopicPartitions, "__getitem__", lambda self, index: made.append(index) or get(self, index)
    )
    new = [partition(number) for number in range(2, 300)]
    delta = apply_records(topic.image, new, base_offset=20, epoch=1)
    made.clear()
    assert delta.partitions
    assert made == [2], f"put together {len(made)} of 298"


def regrown(image: MetadataImage, *, offset: int) -> MetadataDelta:
    """Partition 1 goes, and another one gets its number, in one run."""
    first = max(each.leader_epoch for each in image.partitions(TOPIC)[1:]) + 1
    records = [ShrinkTopic(topic_id=TOPIC, num_partitions=1), partition(1, leader_epoch=Epoch(first))]
    return apply_records(image, records, base_offset=offset, epoch=1)


def test_a_partition_that_gets_a_gone_ones_number_begins_with_a_higher_leader_epoch(topic) -> None:
    for _ in range(3):
        topic.append(change(1, leader=3))
    before = topic.image.copy()
    delta = regrown(topic.image, offset=20)
    held = topic.image.topics[TOPIC]
    assert [held.first_epoch(number) for number in range(4)] == [0, 4, 4, 4]
    for seen in (delta, difference(before, topic.image)):
        [each] = seen.partitions
        assert each.before is not None
        assert (each.partition_id, each.before.leader_epoch, each.first_epoch) == (1, 3, 4)


def test_first_epochs_survive_a_snapshot_and_a_later_shrinking(topic) -> None:
    topic.append(change(1, leader=3))
    regrown(topic.image, offset=20)
    apply_records(topic.image, [partition(2, leader_epoch=Epoch(2))], base_offset=30, epoch=1)
    again = from_snapshot(topic.image)
    assert again == topic.image
    for image in (topic.image, again):
        apply_records(image, [change(2, leader=1)], base_offset=40, epoch=1)
        apply_records(image, [ShrinkTopic(topic_id=TOPIC, num_partitions=2)], base_offset=41, epoch=1)
        held = image.topics[TOPIC]
        assert [held.first_epoch(number) for number in range(4)] == [0, 2, 4, 4]
        apply_records(image, [ShrinkTopic(topic_id=TOPIC, num_partitions=1)], base_offset=42, epoch=1)
        held = image.topics[TOPIC]
        assert [held.first_epoch(number) for number in range(4)] == [0, 4, 4, 4]
        assert len(held.first_epochs) == 1, "one step up, one entry"


def test_quotas_are_of_their_entity_until_they_are_removed(topic) -> None:
    anybody, ann = QuotaEntity(user=""), QuotaEntity(user="ann", client_id="app")
    records: list[Record] = [
        ClientQuota(entity=anybody, key="producer_byte_rate", value=1024.0),
        ClientQuota(entity=ann, key="producer_byte_rate", value=2048.0),
        ClientQuota(entity=ann, key="request_percentage", value=12.5),
    ]
    before = topic.image.copy()
    delta = apply_records(topic.image, records, base_offset=20, epoch=1)
    assert delta.quotas == difference(before, topic.image).quotas == (anybody, ann)
    assert topic.image.quotas(ann) == {"producer_byte_rate": 2048.0, "request_percentage": 12.5}
    assert from_snapshot(topic.image) == topic.image != before
    gone = [ClientQuota(entity=ann, key=key, value=None) for key in topic.image.quotas(ann)]
    apply_records(topic.image, gone, base_offset=30, epoch=1)
    assert list(topic.image.quota_entities()) == [anybody]


def test_passwords_are_of_their_user_and_mechanism_until_they_are_removed(topic) -> None:
    def password(name: str, mechanism: ScramMechanism, salt: bytes) -> UserScramCredential:
        key = SecretBytes(b"secret key")
        return UserScramCredential(
            name=name,
            mechanism=mechanism,
            salt=SecretBytes(salt),
            stored_key=key,
            server_key=key,
            iterations=4096,
        )

    sha_256, sha_512 = ScramMechanism
    held = [password("ann", sha_512, b"a"), password("ann", sha_256, b"b"), password("bob", sha_256, b"c")]
    assert "secret" not in repr(held)
    before = topic.image.copy()
    delta = apply_records(topic.image, held, base_offset=20, epoch=1)
    assert delta.users == difference(before, topic.image).users == ("ann", "bob")
    assert topic.image.scram_credentials_of("ann") == (held[1], held[0])
    assert topic.image.scram_credential("bob", sha_512) is None
    assert from_snapshot(topic.image) == topic.image != before
    before = topic.image.copy()
    gone = [RemoveUserScramCredential(name="ann", mechanism=each) for each in (sha_256, sha_512)]
    changes: list[Record] = [*gone, password("bob", sha_256, b"d")]
    delta = apply_records(topic.image, changes, base_offset=30, epoch=1)
    assert delta.users == difference(before, topic.image).users == ("ann", "bob")
    assert list(topic.image.scram_users()) == ["bob"]
    assert before.scram_credential("bob", sha_256) == held[2], "the copy stays as it was"


@pytest.mark.bug("KAFKA-19497")
def test_a_topic_that_came_and_went_within_a_run_leaves_no_work(cluster) -> None:
    cluster.start(1)
    records: list[Record] = [
        Topic(name="t", topic_id=TOPIC),
        partition(0, (1,)),
        RemoveTopic(topic_id=TOPIC),
    ]
    delta = apply_records(cluster.image, records, base_offset=9, epoch=1)
    assert (tuple(delta.partitions), delta.created_topics, delta.deleted_topics) == ((), (), ())


@pytest.mark.bug("redpanda PR 7121")
def test_a_topic_made_again_is_another_topic(topic) -> None:
    again = uuid.UUID(int=501)
    records: list[Record] = [
        RemoveTopic(topic_id=TOPIC),
        Topic(name="t", topic_id=again),
        Partition(topic_id=again, partition_id=0, replicas=(1,), isr=(1,), leader=1),
    ]
    delta = apply_records(topic.image, records, base_offset=9, epoch=1)
    assert (delta.created_topics, delta.deleted_topics) == (("t",), ("t",))
    assert [(each.topic_id, each.after is None) for each in delta.partitions] == [
        (TOPIC, True),
        (TOPIC, True),
        (again, False),
    ]


def test_broker_changes_show_before_and_after(topic) -> None:
    fenced = BrokerRegistrationChange(broker_id=1, broker_epoch=topic.epoch(1), fenced=True)
    [changed] = apply_records(topic.image, [fenced], base_offset=9, epoch=1).brokers
    assert changed.before is not None
    assert changed.after is not None
    assert (changed.before.fenced, changed.after.fenced) == (False, True)


def test_images_copied_from_one_another_go_their_own_ways(topic) -> None:
    image = topic.image
    twin = image.copy()
    third = twin.copy()
    before = third.copy()
    image.apply(change(leader=NO_LEADER), offset=100, epoch=1)
    twin.apply(RemoveTopic(topic_id=TOPIC), offset=100, epoch=1)
    third.apply(Partition(topic_id=TOPIC, partition_id=2, replicas=(1,), isr=(1,)), offset=100, epoch=1)
    assert [len(each.partitions(TOPIC)) for each in (image, twin, third, before)] == [2, 0, 3, 2]
    assert image.partition(TOPIC, 0).leader == NO_LEADER
    assert third.partition(TOPIC, 0) == before.partition(TOPIC, 0) != image.partition(TOPIC, 0)
    assert [each.leaderless_count for each in (image, twin, third, before)] == [1, 0, 1, 0]
    image.apply(change(leader=1), offset=101, epoch=1)
    assert before.partition(TOPIC, 0).leader_epoch == 0


# What always holds


def image_with(**fields: object) -> MetadataImage:
    return image_of([Topic(name="t", topic_id=TOPIC), replace(partition(), **fields)])


def test_an_image_is_in_order_with_and_without_a_leader() -> None:
    image_with().validate()
    image_with(leader=NO_LEADER, isr=(), eligible_leader_replicas=(2,)).validate()
    image_with().validate_partition(PartitionKey(TOPIC, 7))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"replicas": (1, 2, 2)}, "a replica is named twice"),
        ({"isr": (1, 2, 7)}, "the ISR is not among the replicas"),
        ({"isr": (2, 3)}, "the leader is not in the ISR"),
        ({"eligible_leader_replicas": (2,)}, "an eligible replica is in the ISR"),
        ({"isr": (1, 2), "eligible_leader_replicas": (7,)}, "is no replica"),
    ],
)
def test_a_partition_that_is_out_of_order_is_found(fields: dict[str, object], problem: str) -> None:
    with pytest.raises(InvariantError, match=problem):
        image_with(**fields).validate()


def test_a_leader_epoch_from_before_the_partition_began_is_found() -> None:
    image = image_with()
    image._topics[TOPIC] = replace(
        image._topics[TOPIC], first_epochs=(FirstEpoch(partition_id=0, leader_epoch=Epoch(5)),)
    )
    with pytest.raises(InvariantError, match="first epoch <= leader epoch"):
        image.validate()


def test_counts_that_are_not_those_of_the_partitions_are_found() -> None:
    image, leaderless = image_with(), image_with(leader=NO_LEADER, isr=())
    image._tallies, leaderless._tallies = leaderless._tallies, image._tallies
    with pytest.raises(InvariantError, match="the count of leaderless partitions"):
        image.validate()
    third = image_with(isr=(1, 2))
    third._tallies = leaderless._tallies
    with pytest.raises(InvariantError, match="a broker's counts are others"):
        third.validate()
