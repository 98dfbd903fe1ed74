"""The checkers of administrative histories find what is wrong in histories that are."""

import uuid
from collections.abc import Sequence
from dataclasses import replace

import pytest

from quorate.broker.metadata.batch_loader import BatchLoader
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
    ChangeReason,
    ClientQuota,
    Config,
    ConfigType,
    FeatureLevel,
    Partition,
    PartitionChange,
    QuotaEntity,
    Record,
    RegisterBroker,
    RemoveTopic,
    ShrinkTopic,
    Topic,
    UnregisterBroker,
)
from quorate.broker.metadata.states import ConfigResource
from quorate.broker.replication.storage.folders import PartitionIdentity
from quorate.simulation.violations import SafetyViolation
from quorate.types import Epoch
from tests.simulator.administration.admin_history import AdminHistory, Answer
from tests.simulator.administration.answered_state import GroupOffset, Held, KeptRecords
from tests.simulator.administration.committed_rules import (
    OneLeaderPerLeaderEpoch,
    RemovedTopicsStayRemoved,
    UnregisteredBrokersStayOut,
)
from tests.simulator.administration.intents import (
    Intent,
    alter_config,
    alter_quota,
    create_topic,
    delete_topic,
    elect_leader,
    grow_topic,
    nothing,
    reassign,
    shrink_topic,
    unregister_broker,
    update_feature,
)
from tests.simulator.administration.replica_folders import Folder, still_there, stray_folders

ID, OTHER = uuid.UUID(int=1000), uuid.UUID(int=1001)
RETENTION = Config(resource_type=ConfigType.TOPIC, resource_name="t", name="retention.ms", value="1")
ANYBODY = QuotaEntity(client_id="")
QUOTA = ClientQuota(entity=ANYBODY, key="producer_byte_rate", value=7.0)
NO_QUOTA = ClientQuota(entity=ANYBODY, key="producer_byte_rate", value=None)
FEATURE = FeatureLevel(name="f", level=1)
BROKER = RegisterBroker(broker_id=9, incarnation_id=ID, broker_epoch=0)
UNREGISTERED = UnregisterBroker(broker_id=9, broker_epoch=0)
BROKER_AGAIN = RegisterBroker(broker_id=9, incarnation_id=OTHER, broker_epoch=2)


def partition(
    partition_id: int, replicas: tuple[int, ...] = (1, 2), leader: int = 1, epoch: int = 0
) -> Partition:
    isr = () if leader < 0 else replicas
    return Partition(
        topic_id=ID,
        partition_id=partition_id,
        replicas=replicas,
        isr=isr,
        leader=leader,
        leader_epoch=Epoch(epoch),
    )


def change(reason: ChangeReason = ChangeReason.REASSIGNMENT, **fields: object) -> PartitionChange:
    return PartitionChange(topic_id=ID, partition_id=0, reason=reason, **fields)


TOPIC: tuple[Record, ...] = (Topic(name="t", topic_id=ID), partition(0))
HELD = (TOPIC[0], partition(0, replicas=(9,), leader=9))
OFFLINE: tuple[Record, ...] = (TOPIC[0], partition(0, leader=-1))
TO_OTHERS = change(replicas=(3, 2, 1), adding_replicas=(3,), removing_replicas=(1,))
BACK = change(replicas=(2, 1), isr=(1, 2), adding_replicas=(), removing_replicas=())
ELECTED = change(ChangeReason.ELECTION_ASKED_FOR, leader=1, isr=(1,))


class Log:
    def __init__(self, *before: Record, owned: bool = True) -> None:
        self.history = AdminHistory(owned=lambda name: owned)
        self.loader = BatchLoader()
        self.offset = 0
        if before:
            # By somebody whose calls ended well.
            everything = self.history.invoke("others", Intent("all", lambda image: True, lambda change: True))
            self.commit(*before)
            self.history.answered(everything, Answer.DONE)
            self.history._calls.remove(everything)

    def commit(self, *records: Record) -> None:
        self.loader.load(records, base_offset=self.offset, epoch=1)
        self.offset += len(records)
        self.history.committed(records, self.loader.image)


CASES: Sequence[tuple[Intent, Sequence[Record], Sequence[Record]]] = (
    (create_topic("t", partitions=1, replication_factor=2), (), TOPIC),
    (
        create_topic(
            "t", partitions=1, replication_factor=2, assignments=[[1, 2]], configs={"retention.ms": "1"}
        ),
        (),
        (TOPIC[0], RETENTION, TOPIC[1]),
    ),
    (delete_topic("t"), TOPIC, (RemoveTopic(topic_id=ID),)),
    (grow_topic("t", count=2), TOPIC, (partition(1),)),
    (shrink_topic("t", count=1), (*TOPIC, partition(1)), (ShrinkTopic(topic_id=ID, num_partitions=1),)),
    (reassign("t", 0, (3, 2)), TOPIC, (TO_OTHERS,)),
    (reassign("t", 0, None), (*TOPIC, TO_OTHERS), (BACK,)),
    (elect_leader("t", 0, unclean=True), OFFLINE, (ELECTED,)),
    (alter_config(ConfigResource(ConfigType.TOPIC, "t"), {"retention.ms": "1"}), TOPIC, (RETENTION,)),
    (
        alter_config(ConfigResource(ConfigType.TOPIC, "t"), {}, replaces=True),
        (*TOPIC, RETENTION),
        (Config(resource_type=ConfigType.TOPIC, resource_name="t", name="retention.ms", value=None),),
    ),
    (alter_quota(ANYBODY, {"producer_byte_rate": 7.0}), (), (QUOTA,)),
    (alter_quota(ANYBODY, {"producer_byte_rate": None}), (QUOTA,), (NO_QUOTA,)),
    (update_feature("f", 1), (), (FEATURE,)),
    (unregister_broker(9), (BROKER,), (UNREGISTERED,)),
)
BY_NAME = pytest.mark.parametrize(
    ("intent", "before", "records"), CASES, ids=[intent.what for intent, *_ in CASES]
)


@BY_NAME
def test_a_call_that_was_answered_and_committed_is_well(
    intent: Intent, before: Sequence[Record], records: Sequence[Record]
) -> None:
    log = Log(*before)
    call = log.history.invoke("a", intent)
    log.commit(*records)
    log.history.answered(call, Answer.DONE)


def test_of_two_calls_that_set_one_key_both_are_in_the_image_for_a_time() -> None:
    log = Log(*TOPIC)
    topic = ConfigResource(ConfigType.TOPIC, "t")
    calls = [
        log.history.invoke(value, alter_config(topic, {"retention.ms": value}, replaces=True))
        for value in "12"
    ]
    for value in "12":
        log.commit(replace(RETENTION, value=value))
    for call in calls:
        log.history.answered(call, Answer.DONE)


@BY_NAME
def test_a_call_that_was_answered_and_is_in_no_image_is_found(
    intent: Intent, before: Sequence[Record], records: Sequence[Record]
) -> None:
    log = Log(*before)
    call = log.history.invoke("a", intent)
    with pytest.raises(SafetyViolation, match="AnsweredIsInTheImage"):
        log.history.answered(call, Answer.DONE)


@BY_NAME
@pytest.mark.parametrize("late", [False, True])
def test_a_call_that_was_refused_and_is_in_the_image_is_found(
    intent: Intent, before: Sequence[Record], records: Sequence[Record], late: bool
) -> None:
    log = Log(*before)
    call = log.history.invoke("a", intent)
    with pytest.raises(SafetyViolation, match="RefusedIsNotInTheImage"):
        if late:
            log.history.answered(call, Answer.REFUSED)
        log.commit(*records)
        log.history.answered(call, Answer.REFUSED)


@BY_NAME
def test_a_call_without_an_answer_may_have_its_effect_or_not(
    intent: Intent, before: Sequence[Record], records: Sequence[Record]
) -> None:
    log = Log(*before)
    log.history.answered(log.history.invoke("a", intent), Answer.UNKNOWN)
    log.commit(*records)
    log = Log(*before)
    log.history.answered(log.history.invoke("a", intent), Answer.UNKNOWN)


@BY_NAME
def test_a_change_that_another_call_explains_is_not_one_of_the_refused_call(
    intent: Intent, before: Sequence[Record], records: Sequence[Record]
) -> None:
    log = Log(*before)
    granted, refused = log.history.invoke("a", intent), log.history.invoke("b", intent)
    log.commit(*records)
    log.history.answered(refused, Answer.REFUSED)
    log.history.answered(granted, Answer.DONE)


def test_a_preferred_leader_that_was_answered_leads_at_some_time() -> None:
    log = Log(TOPIC[0], partition(0, leader=2))
    call = log.history.invoke("a", elect_leader("t", 0, unclean=False))
    with pytest.raises(SafetyViolation, match="AnsweredIsInTheImage"):
        log.history.answered(call, Answer.ALREADY)
    log = Log(TOPIC[0], partition(0, leader=2))
    call = log.history.invoke("a", elect_leader("t", 0, unclean=False))
    log.commit(change(ChangeReason.PREFERRED_LEADER, leader=1))
    log.commit(change(ChangeReason.BROKER_FENCED, leader=2))
    log.history.answered(call, Answer.ALREADY)


def test_a_request_that_must_change_nothing_explains_nothing() -> None:
    log = Log()
    log.history.answered(log.history.invoke("a", nothing("a wrong one")), Answer.REFUSED)
    with pytest.raises(SafetyViolation, match="RefusedIsNotInTheImage"):
        log.commit(*TOPIC)


def test_topics_of_others_need_no_call() -> None:
    Log(owned=False).commit(*TOPIC, RETENTION, TO_OTHERS)


def test_a_broker_that_is_registered_again_at_once_was_unregistered() -> None:
    log = Log(BROKER)
    call = log.history.invoke("a", unregister_broker(9))
    log.commit(UNREGISTERED)
    log.commit(BROKER_AGAIN)
    log.history.answered(call, Answer.DONE)


# Who was unregistered


def unregistered(*records: Record) -> None:
    rule = UnregisteredBrokersStayOut()
    loader = BatchLoader()
    for offset, record in enumerate(records):
        loader.load([record], base_offset=offset, epoch=1)
        rule.committed([record], loader.image)


def test_a_broker_may_leave_be_unregistered_and_come_back() -> None:
    unregistered(BROKER, UNREGISTERED, BROKER_AGAIN, *HELD)


def test_an_unregistered_broker_in_an_isr_is_found() -> None:
    with pytest.raises(SafetyViolation, match="broker 9 is not registered, and is in 1 ISRs and 0 ELRs"):
        unregistered(BROKER, *HELD, UNREGISTERED)


def test_a_registration_that_was_removed_and_is_back_is_found() -> None:
    with pytest.raises(SafetyViolation, match="registered with broker epoch 0, and the registration with 0"):
        unregistered(BROKER, UNREGISTERED, BROKER)


# Who was drained


@pytest.mark.parametrize(
    ("broker_id", "folders", "said"),
    [
        (3, {"t-1", "u-0"}, None),
        (1, set(), "broker 1 has a replica of t-0"),
        (3, {"t-0"}, "broker 3 has the folder of t-0"),
    ],
)
def test_remains_on_a_drained_broker_are_found(broker_id: int, folders: set[str], said: str | None) -> None:
    states = dict(enumerate(image_of(*TOPIC).partitions(ID)))
    wrong = list(still_there(broker_id, "t", states, folders))
    assert bool(wrong) == (said is not None)
    assert said is None or wrong[0].startswith(said)


# Offsets of groups


def test_an_offset_is_what_was_answered_last() -> None:
    group = GroupOffset("g")
    group.check(-1)
    group.answered(7, Answer.DONE)
    group.check(7)
    group.answered(-1, Answer.REFUSED)
    for wrong in (-1, 8):
        with pytest.raises(SafetyViolation, match=f"g is at {wrong}, and was answered as at 7"):
            group.check(wrong)
    with pytest.raises(SafetyViolation, match="g is unknown, and has 7"):
        group.not_there()
    group.answered(-1, Answer.DONE)
    group.not_there()
    with pytest.raises(SafetyViolation, match="g is at 7, and was answered as at -1"):
        group.check(7)


def test_an_offset_after_a_request_without_an_answer_is_one_of_two() -> None:
    group = GroupOffset("g")
    group.answered(7, Answer.DONE)
    group.answered(8, Answer.UNKNOWN)
    assert not group.known
    group.check(7)
    group.check(8)
    with pytest.raises(SafetyViolation, match="g is at -1, and was answered as at 7 or 8"):
        group.check(-1)


# What was removed


def removed(*records: Record) -> None:
    rule = RemovedTopicsStayRemoved(once=lambda name: True)
    loader = BatchLoader()
    for offset, record in enumerate(records):
        loader.load([record], base_offset=offset, epoch=1)
        rule.committed([record], loader.image)


def test_a_topic_may_be_removed_and_another_created() -> None:
    removed(*TOPIC, RemoveTopic(topic_id=ID), Topic(name="u", topic_id=OTHER))


@pytest.mark.parametrize(
    ("again", "said"),
    [(Topic(name="u", topic_id=ID), "has the id"), (Topic(name="t", topic_id=OTHER), "created twice")],
)
def test_a_topic_that_returns_is_found(again: Record, said: str) -> None:
    with pytest.raises(SafetyViolation, match=said):
        removed(*TOPIC, RemoveTopic(topic_id=ID), again)


def test_a_removed_topic_in_a_later_image_is_found() -> None:
    rule = RemovedTopicsStayRemoved(once=lambda name: True)
    loader = BatchLoader()
    loader.load(TOPIC, base_offset=0, epoch=1)
    with pytest.raises(SafetyViolation, match="was removed, and is there"):
        rule.committed([*TOPIC, RemoveTopic(topic_id=ID)], loader.image)


@pytest.mark.parametrize("epoch", [0, 3])
def test_a_partition_that_begins_as_the_one_before_it_did_is_found(epoch: int) -> None:
    records = (
        *TOPIC,
        partition(1, epoch=3),
        ShrinkTopic(topic_id=ID, num_partitions=1),
        partition(1, epoch=epoch),
    )
    with pytest.raises(SafetyViolation, match=f"leader epoch {epoch}, and an earlier one"):
        removed(*records)
    removed(*records[:-1], partition(1, epoch=4))


# Folders


def image_of(*records: Record) -> MetadataImage:
    loader = BatchLoader()
    loader.load(records, base_offset=0, epoch=1)
    return loader.image


@pytest.mark.parametrize(
    ("folder", "broker_id", "said"),
    [
        (Folder("data", "t", 0, PartitionIdentity(ID)), 1, None),
        (Folder("data", "u", 0, PartitionIdentity(ID)), 1, "topic that is not there"),
        (Folder("data", "t", 5, PartitionIdentity(ID)), 1, "partition that is not there"),
        (Folder("data", "t", 0, PartitionIdentity(ID)), 3, "whose replicas are"),
        (Folder("data", "t", 0, PartitionIdentity(OTHER)), 1, "has PartitionIdentity"),
        (Folder("data", "t", 0, PartitionIdentity(ID, Epoch(4))), 1, "has PartitionIdentity"),
    ],
)
def test_a_stray_folder_is_found(folder: Folder, broker_id: int, said: str | None) -> None:
    wrong = list(stray_folders(image_of(*TOPIC), broker_id, [folder]))
    assert bool(wrong) == (said is not None)
    assert said is None or said in wrong[0]


# Leader epochs


def test_a_second_leader_of_a_leader_epoch_is_found() -> None:
    epochs = OneLeaderPerLeaderEpoch()
    epochs.reported(1, "t-0", 4, 1, leads=True)
    epochs.reported(2, "t-0", 4, 1, leads=False)
    epochs.reported(2, "t-0", 5, 2, leads=True)
    with pytest.raises(SafetyViolation, match="leader of t-0 in leader epoch 5, and another had 2"):
        epochs.reported(3, "t-0", 5, 3, leads=True)
    with pytest.raises(SafetyViolation, match="broker 3 leads t-0, whose leader is 2"):
        epochs.reported(3, "t-0", 5, 2, leads=True)


# Records


def holding(start: int, *records: tuple[int, bytes]) -> Held:
    return Held(start, records)


def test_replicas_agree_on_all_they_hold_unless_a_deletion_had_no_answer() -> None:
    records = KeptRecords()
    whole, later, other = holding(0, (0, b"a"), (1, b"b")), holding(1, (1, b"b")), holding(1, (1, b"c"))
    assert records.differ(whole, later)
    assert records.differ(later, other)
    records.not_deleted()
    assert not records.differ(whole, later)
    assert records.differ(whole, other)
    records.removed()
    assert records.differ(whole, later)


def test_records_that_must_be_there_and_are_not_are_found() -> None:
    records = KeptRecords()
    records.acknowledged(0, b"a")
    records.acknowledged(1, b"b")
    assert not list(records.wrong(holding(0, (0, b"a"), (1, b"b"))))
    assert list(records.wrong(holding(0, (0, b"a"), (1, b"x"))))
    records.deleting(1)
    assert not list(records.wrong(holding(1, (1, b"b")))), "the answer may be on its way"
    assert list(records.wrong(holding(2)))


def test_records_that_were_deleted_and_are_there_are_found() -> None:
    records = KeptRecords()
    records.acknowledged(0, b"a")
    records.deleting(1)
    records.deleted(1)
    assert list(records.wrong(holding(0, (0, b"a"))))
    assert not list(records.wrong(holding(1)))


def test_records_of_an_earlier_partition_are_found() -> None:
    records = KeptRecords()
    records.acknowledged(0, b"a")
    records.removed()
    assert not list(records.wrong(holding(0, (0, b"b"))))
    assert list(records.wrong(holding(0, (3, b"a"))))
