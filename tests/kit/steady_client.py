"""A stock producer or consumer that goes on through whatever is done to a cluster, and its losses."""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

import confluent_kafka


@dataclass
class SteadyClient:
    """A producer that numbers its records, or a consumer, which count what they lose."""

    settings: Mapping[str, object]
    topic: str
    numbers: list[int] = field(default_factory=list)
    """Acknowledged, or read, in this order."""
    errors: list[str] = field(default_factory=list)
    disconnects: dict[str, int] = field(default_factory=dict)
    """Of each broker, by the client's own statistics."""
    sent: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)

    def _configured(self, **more: object) -> dict[str, object]:
        return {
            **self.settings,
            "statistics.interval.ms": 200,
            "stats_cb": self._take_statistics,
            "error_cb": lambda error: self.errors.append(str(error)),
            **more,
        }

    def _take_statistics(self, text: str) -> None:
        for name, broker in json.loads(text)["brokers"].items():
            self.disconnects[name] = broker["disconnects"]

    def produce(self) -> None:
        producer = confluent_kafka.Producer(
            self._configured(**{"acks": "all", "enable.idempotence": True, "linger.ms": 2})
        )

        def delivered(error: object, message: confluent_kafka.Message) -> None:
            if error is not None:
                self.errors.append(str(error))
            else:
                self.numbers.append(int(message.value() or b"-1"))

        while not self._stop.is_set():
            producer.produce(self.topic, b"%d" % self.sent, on_delivery=delivered)
            self.sent += 1
            producer.poll(0.005)
        assert producer.flush(60) == 0

    def consume(self) -> None:
        consumer = confluent_kafka.Consumer(
            self._configured(**{"group.id": f"g-{self.topic}", "auto.offset.reset": "earliest"})
        )
        consumer.subscribe([self.topic])
        try:
            while not self._stop.is_set():
                record = consumer.poll(0.1)
                if record is not None and record.error() is None:
                    self.numbers.append(int(record.value() or b"-1"))
        finally:
            consumer.close()

    def stop(self) -> None:
        self._stop.set()
