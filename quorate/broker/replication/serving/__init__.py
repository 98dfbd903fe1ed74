"""The answers of a leader's replicas to Produce, Fetch, ListOffsets and DeleteRecords."""

from quorate.broker.replication.serving.deletions import DeletionService, ParkedDeletions
from quorate.broker.replication.serving.fetch_service import FetchService, ParkedFetch
from quorate.broker.replication.serving.fetch_session import FetchSession, PartitionKey
from quorate.broker.replication.serving.fetch_sessions import FetchSessionError, FetchSessions
from quorate.broker.replication.serving.log_queries import LogQueries
from quorate.broker.replication.serving.parked_produce import ParkedProduce
from quorate.broker.replication.serving.partition_lookups import PartitionLookups
from quorate.broker.replication.serving.partition_reader import PartitionReader
from quorate.broker.replication.serving.produce_service import ProduceService
from quorate.broker.replication.serving.quiet_read import QuietRead
from quorate.broker.replication.serving.session_fetches import SessionFetches

__all__ = [
    "DeletionService",
    "FetchService",
    "FetchSession",
    "FetchSessionError",
    "FetchSessions",
    "LogQueries",
    "ParkedDeletions",
    "ParkedFetch",
    "ParkedProduce",
    "PartitionKey",
    "PartitionLookups",
    "PartitionReader",
    "ProduceService",
    "QuietRead",
    "SessionFetches",
]
