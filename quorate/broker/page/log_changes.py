"""The changes around an offset of the metadata log, in words, with their reasons."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from quorate.broker.metadata.metadata_records import (
    AccessControlEntry,
    ClientQuota,
    Config,
    ConfigType,
    FeatureLevel,
    PartitionChange,
    RemoveAccessControlEntry,
    RemoveUserScramCredential,
    Topic,
    UnregisterBroker,
    UserScramCredential,
)
from quorate.broker.metadata.metadata_records import Partition as PartitionRecord
from quorate.broker.metadata.record_words import reason_words, words_of
from quorate.broker.page.page_state import Elected, Json

_ALIKE_MAX: Final = 4
"""Lines of one batch for one reason; more are counted."""


@dataclass(frozen=True, slots=True)
class PlacedRecord:
    """A record of the metadata log, or the election of a leader."""

    offset: int
    time_ms: int
    epoch: int
    record: object


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChange:
    """A line of the page."""

    offset: int
    time_ms: int
    epoch: int
    what: str
    reason: str | None = None
    topic_id: UUID | None = None
    partition: int | None = None
    alike: int = 0
    """The number of further partitions to which the same happened at once."""

    def as_dict(self, names: Mapping[UUID, str]) -> dict[str, Json]:
        """Return it for JSON. `names`: of topics."""
        topic_id = self.topic_id
        return {
            "offset": self.offset,
            "time_ms": self.time_ms,
            "epoch": self.epoch,
            "what": self.what,
            "reason": self.reason,
            "topic": None if topic_id is None else names.get(topic_id, "a topic that is gone"),
            "partition": self.partition,
            "alike": self.alike,
        }


def changes_in(batch: Iterable[PlacedRecord]) -> list[LogChange]:
    """Return the changes of one batch. Many of one kind for one reason are told as a few and their number."""
    alike: dict[object, list[LogChange]] = {}
    for placed in batch:
        change = _change(placed)
        if change is None:
            continue
        record = placed.record
        kind: object = placed.offset
        if isinstance(record, PartitionChange):
            kind = ("changed", record.reason)
        elif isinstance(record, PartitionRecord):
            kind = ("made", record.topic_id)
        alike.setdefault(kind, []).append(change)
    told: list[LogChange] = []
    for found in alike.values():
        told += found[: _ALIKE_MAX - 1]
        rest = found[_ALIKE_MAX - 1 :]
        if rest:
            last = rest[-1]
            told.append(replace(last, alike=len(rest) - 1))
    return sorted(told, key=lambda each: each.offset)


def _change(placed: PlacedRecord) -> LogChange | None:
    words = words_of(placed.record, time_ms=placed.time_ms)
    if words is not None:
        partitions = words.partitions
        return LogChange(
            offset=placed.offset,
            time_ms=placed.time_ms,
            epoch=placed.epoch,
            what=words.what,
            reason=reason_words(words.reason),
            topic_id=words.topic_id,
            partition=partitions.start if partitions is not None and len(partitions) == 1 else None,
        )
    what = _other_words(placed.record)
    if what is None:
        return None
    return LogChange(
        offset=placed.offset,
        time_ms=placed.time_ms,
        epoch=placed.epoch,
        what=what,
        topic_id=placed.record.topic_id if isinstance(placed.record, Topic) else None,
    )


def _other_words(record: object) -> str | None:
    """Return what a record says that asks no broker for a change. No values of settings: some are secret."""
    match record:
        case Elected():
            granted = ", ".join(map(str, record.granted)) or "nobody"
            return f"node {record.leader} became the leader of the quorum, by the votes of {granted}"
        case Topic():
            return "topic created"
        case Config():
            whose = record.resource_name or "all"
            what = "is removed from" if record.value is None else "is set for"
            return f"{record.name} {what} {ConfigType(record.resource_type).name.lower()} {whose}"
        case FeatureLevel():
            return f"{record.name} is at level {record.level}"
        case ClientQuota():
            return f"the quota {record.key} is {'removed' if record.value is None else 'set'}"
        case AccessControlEntry():
            return "an ACL is added"
        case RemoveAccessControlEntry():
            return "an ACL is removed"
        case UserScramCredential():
            return "a user has a new password"
        case RemoveUserScramCredential():
            return "a user's password is removed"
        case UnregisterBroker():
            return f"broker {record.broker_id} is removed from the cluster"
        case _:
            return None
