"""`view=brokers`: one row per change of a broker's registration."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from pyspark.sql.types import StructType

from quorate.broker.metadata.metadata_records import (
    BrokerRegistrationChange,
    RegisterBroker,
    UnregisterBroker,
)
from quorate.history import Entry
from quorate.runtime import uuid_text
from quorate.spark_source.views.typed_view import BOUNDS, TypedView
from quorate.spark_source.views.view import (
    BOOLEAN,
    BROKER_CHANGE,
    INTEGER,
    LONG,
    REGISTER_BROKER,
    TEXT,
    TEXTS,
    TIMESTAMP,
    UNREGISTER_BROKER,
    Row,
    common,
    said,
    schema,
)

_KINDS = BOUNDS | {REGISTER_BROKER, BROKER_CHANGE, UNREGISTER_BROKER}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Broker:
    """None: the log no longer has the registration."""

    epoch: int
    incarnation_id: str | None = None
    rack: str | None = None
    listeners: tuple[str, ...] | None = None
    fenced: bool | None = None
    in_controlled_shutdown: bool | None = None


class BrokersView(TypedView):
    """`change`: registered, fenced, unfenced, shutting down, changed or unregistered. Each row holds the
    broker's whole registration from its `timestamp` on. Listeners read NAME://host:port.
    `reason`: why its state changed, as `BROKER_FENCED`; null where it registered, and in records of versions
    that did not say. `last_heard`, of one that was fenced: when the controller last heard of it."""

    schema: ClassVar[StructType] = schema(
        ("change", TEXT),
        ("broker", INTEGER),
        ("broker_epoch", LONG),
        ("incarnation_id", TEXT),
        ("rack", TEXT),
        ("listeners", TEXTS),
        ("fenced", BOOLEAN),
        ("in_controlled_shutdown", BOOLEAN),
        ("reason", TEXT),
        ("last_heard", TIMESTAMP),
    )
    remembers: ClassVar[frozenset[int]] = _KINDS
    wants: ClassVar[frozenset[int] | None] = _KINDS

    def __init__(self) -> None:
        super().__init__()
        self._brokers: dict[int, _Broker] = {}

    def rows_of(self, entry: Entry) -> Iterable[Row]:
        match entry.record:
            case RegisterBroker() as record:
                state = self._brokers[record.broker_id] = _Broker(
                    epoch=record.broker_epoch,
                    incarnation_id=uuid_text(record.incarnation_id),
                    rack=record.rack,
                    listeners=tuple(f"{each.name}://{each.host}:{each.port}" for each in record.listeners),
                    fenced=record.fenced,
                    in_controlled_shutdown=record.in_controlled_shutdown,
                )
                yield _row(entry, "registered", record.broker_id, state)
            case BrokerRegistrationChange(broker_id=broker_id) as change:
                before = self._brokers.get(broker_id, _Broker(epoch=change.broker_epoch))
                state = self._brokers[broker_id] = replace(
                    before,
                    fenced=before.fenced if change.fenced is None else change.fenced,
                    in_controlled_shutdown=before.in_controlled_shutdown
                    if change.in_controlled_shutdown is None
                    else change.in_controlled_shutdown,
                )
                yield _row(
                    entry,
                    _named(change),
                    broker_id,
                    state,
                    reason=said(change),
                    last_heard_ms=change.last_heard_ms,
                )
            case UnregisterBroker(broker_id=broker_id, broker_epoch=epoch):
                state = self._brokers.pop(broker_id, _Broker(epoch=epoch))
                yield _row(entry, "unregistered", broker_id, state)


def _named(change: BrokerRegistrationChange) -> str:
    if change.fenced is not None:
        return "fenced" if change.fenced else "unfenced"
    return "shutting down" if change.in_controlled_shutdown else "changed"


def _row(
    entry: Entry,
    change: str,
    broker_id: int,
    state: _Broker,
    *,
    reason: str | None = None,
    last_heard_ms: int | None = None,
) -> Row:
    return (
        *common(entry),
        change,
        broker_id,
        state.epoch,
        state.incarnation_id,
        state.rack,
        None if state.listeners is None else list(state.listeners),
        state.fenced,
        state.in_controlled_shutdown,
        reason,
        None if last_heard_ms is None else last_heard_ms * 1000,
    )
