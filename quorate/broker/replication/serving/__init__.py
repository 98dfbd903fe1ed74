"""The answers of a leader's replicas to Produce, Fetch and ListOffsets."""

from quorate.broker.replication.serving.fetch_service import FetchService, ParkedFetch
from quorate.broker.replication.serving.offset_lookup import find_offset
from quorate.broker.replication.serving.parked_produce import ParkedProduce
from quorate.broker.replication.serving.produce_service import ProduceService

__all__ = ["FetchService", "ParkedFetch", "ParkedProduce", "ProduceService", "find_offset"]
