"""The state machine of the services dictionary_*.py, and the HTTP status of its errors."""

import json
from dataclasses import dataclass, field
from http import HTTPStatus

from quorate.raft import CommittedBatch, OutcomeUnknownError, QuorumError


@dataclass
class Dictionary:
    items: dict[str, str] = field(default_factory=dict)

    def apply(self, batch: CommittedBatch) -> list[str]:  # committed records, in one order on every node
        return [self.put(*json.loads(record)) for record in batch.records]

    @staticmethod
    def entry(key: str, value: str) -> bytes:
        return json.dumps([key, value]).encode()

    def found(self, key: str) -> str:
        return self.items.get(key, "")

    def put(self, key: str, value: str) -> str:
        before, self.items[key] = self.items.get(key, "nothing"), value
        return before


def status_of(error: QuorumError) -> HTTPStatus:
    if isinstance(error, OutcomeUnknownError):
        return HTTPStatus.GATEWAY_TIMEOUT  # it may have happened, or will
    return HTTPStatus.SERVICE_UNAVAILABLE  # nothing happened
