import uuid

import pytest

from quorate.broker.metadata.metadata_records import (
    UNASSIGNED,
    AbortTransaction,
    BeginTransaction,
    BrokerEndpoint,
    BrokerRegistrationChange,
    ChangeReason,
    Config,
    ConfigType,
    EndTransaction,
    Partition,
    PartitionChange,
    Record,
    RegisterBroker,
    RemoveTopic,
    Topic,
)
from quorate.broker.metadata.states import ConfigResource
from quorate.simulation.checkers.invariants import CommittedLog
from quorate.simulation.violations import SafetyViolation
from tests.kit.committed_batches import commit_batch
from tests.simulator.brokers.metadata_invariants import MetadataChangesAreLegal

TOPIC, HERE, THERE = uuid.UUID(int=1000), uuid.UUID(int=1001), uuid.UUID(int=1002)
WHY = ChangeReason.BROKER_FENCED


def broker(broker_id: int, directory: uuid.UUID) -> RegisterBroker:
    return RegisterBroker(
        broker_id=broker_id,
        incarnation_id=uuid.UUID(int=broker_id),
        broker_epoch=broker_id,
        listeners=(BrokerEndpoint(name="PLAINTEXT", host="h", port=1),),
        fenced=False,
        log_dirs=(directory,),
    )


BEFORE: tuple[Record, ...] = (
    broker(1, HERE),
    broker(2, THERE),
    Topic(name="t", topic_id=TOPIC),
    Partition(
        topic_id=TOPIC, partition_id=0, replicas=(1, 2), isr=(1, 2), leader=1, directories=(HERE, THERE)
    ),
)


def change(**fields: object) -> PartitionChange:
    return PartitionChange(topic_id=TOPIC, partition_id=0, **fields)


def checked(*records: Record) -> None:
    invariant = MetadataChangesAreLegal(CommittedLog())
    for offset, record in enumerate((*BEFORE, *records)):
        invariant.take(record, offset=offset, epoch=1)


def test_the_life_of_a_partition_is_legal() -> None:
    fenced = BrokerRegistrationChange(broker_id=1, broker_epoch=1, fenced=True, reason=WHY)
    checked(fenced, change(leader=2, isr=(2,), reason=WHY), RemoveTopic(topic_id=TOPIC))


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ((change(leader=2),), "doesn't say why"),
        (
            (
                BrokerRegistrationChange(broker_id=2, broker_epoch=2, fenced=True, reason=WHY),
                change(leader=2, reason=WHY),
            ),
            "elects broker 2",
        ),
        (
            (
                BrokerRegistrationChange(broker_id=2, broker_epoch=2, log_dirs=(HERE,), reason=WHY),
                change(leader=2, reason=WHY),
            ),
            "elects broker 2",
        ),
        ((change(directories=(UNASSIGNED, THERE), reason=WHY),), "from ReplicaPhase.ONLINE to"),
        ((change(isr=(2,), reason=WHY),), "the leader is not in the ISR"),
    ],
)
def test_a_log_that_must_not_be_is_a_violation(records: tuple[Record, ...], said: str) -> None:
    with pytest.raises(SafetyViolation, match=said):
        checked(*records)


def setting(value: str) -> Config:
    return Config(resource_type=ConfigType.BROKER, resource_name="1", name="k", value=value)


@pytest.mark.parametrize(
    ("batches", "seen"),
    [
        ([[setting("1")], [setting("2")]], ["1", "2"]),
        ([[setting("1"), setting("2")]], ["2"]),
        ([[BeginTransaction(), setting("1")], [setting("2")], [EndTransaction(), setting("3")]], ["3"]),
        ([[BeginTransaction(), setting("1")], [EndTransaction()], [setting("2")]], ["1", "2"]),
        ([[BeginTransaction(), setting("1")], [AbortTransaction()], [setting("2")]], ["2"]),
    ],
)
def test_what_became_visible_is_told_by_batch_or_transaction_when_the_high_watermark_passes_several(
    batches: list[list[Record]], seen: list[str]
) -> None:
    """Two calls that replace one broker's configs (seed 1795863499)."""
    committed = CommittedLog()
    for records in batches:
        commit_batch(committed, records)
    legal = MetadataChangesAreLegal(committed)
    legal.read_committed()
    images = [image for _, image in legal.take_visible()]
    assert [image.configs(ConfigResource(ConfigType.BROKER, "1"))["k"] for image in images] == seen
