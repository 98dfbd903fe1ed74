"""Rows of the brokers view, from records alone."""

import uuid

from quorate.broker.metadata.metadata_records import (
    BrokerRegistrationChange,
    ChangeReason,
    Record,
    RegisterBroker,
)
from quorate.spark_source.entries import Entry
from quorate.spark_source.views.brokers_view import BrokersView


def test_a_fencing_says_why_and_when_the_broker_was_last_heard() -> None:
    records: tuple[Record, ...] = (
        RegisterBroker(broker_id=1, incarnation_id=uuid.UUID(int=1), broker_epoch=0),
        BrokerRegistrationChange(
            broker_id=1, broker_epoch=0, fenced=False, reason=ChangeReason.BROKER_UNFENCED
        ),
        BrokerRegistrationChange(
            broker_id=1,
            broker_epoch=0,
            fenced=True,
            reason=ChangeReason.BROKER_GONE,
            last_heard_ms=1_700_000_000_123,
        ),
    )
    view = BrokersView()
    found = []
    for offset, record in enumerate(records):
        entry = Entry(
            offset=offset,
            epoch=1,
            timestamp_ms=1000,
            batch_offset=offset,
            control=False,
            type=type(record).__name__,
            version=0,
            record=record,
            value=b"",
        )
        (row,) = view.rows(entry)
        named = dict(zip(BrokersView.schema.names, row, strict=True))
        found.append((named["change"], named["reason"], named["last_heard"]))
    assert found == [
        ("registered", None, None),
        ("unfenced", "BROKER_UNFENCED", None),
        ("fenced", "BROKER_GONE", 1_700_000_000_123_000),
    ]
