"""The answers of a leader's replicas to Produce, Fetch, ListOffsets and DeleteRecords."""

from quorate.broker.replication.serving.deletions import DeletionService, ParkedDeletions
from quorate.broker.replication.serving.fetch_service import FetchService, ParkedFetch
from quorate.broker.replication.serving.offset_lookup import find_offset
from quorate.broker.replication.serving.parked_produce import ParkedProduce
from quorate.broker.replication.serving.produce_service import ProduceService

__all__ = [
    "DeletionService",
    "FetchService",
    "ParkedDeletions",
    "ParkedFetch",
    "ParkedProduce",
    "ProduceService",
    "find_offset",
]
