"""A broker whose registration was removed has no place among those who have a partition's records, until it
registers again: with a higher broker epoch, and perhaps with an empty disk."""

from collections.abc import Sequence

from quorate.broker.metadata import MetadataImage, Record, RegisterBroker, UnregisterBroker
from quorate.simulation.violations import SafetyViolation


class UnregisteredBrokersStayOut:
    def __init__(self) -> None:
        self._epochs: dict[int, int] = {}
        """The broker epoch of the removed registration, by broker."""
        self._out: set[int] = set()

    def committed(self, records: Sequence[Record], image: MetadataImage) -> None:
        """Take records that became visible together, and the image with them. Raises `SafetyViolation`."""
        for record in records:
            match record:
                case UnregisterBroker():
                    self._epochs[record.broker_id] = record.broker_epoch
                    self._out.add(record.broker_id)
                case RegisterBroker():
                    self._out.discard(record.broker_id)
                case _:
                    pass
        for broker_id, epoch in self._epochs.items():
            held = image.broker(broker_id)
            if held is not None and held.epoch <= epoch:
                raise SafetyViolation(
                    f"UnregisteredBrokersStayOut: broker {broker_id} is registered with broker epoch "
                    f"{held.epoch}, and the registration with {epoch} was removed"
                )
        for broker_id in self._out:
            if image.isr_count(broker_id) or image.elr_count(broker_id):
                raise SafetyViolation(
                    f"UnregisteredBrokersStayOut: broker {broker_id} is not registered, and is in "
                    f"{image.isr_count(broker_id)} ISRs and {image.elr_count(broker_id)} ELRs"
                )
