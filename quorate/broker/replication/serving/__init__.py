"""The answers of a leader's replicas to Produce, Fetch, ListOffsets and DeleteRecords."""

from quorate.broker.replication.serving.delete_records import DeletionService
from quorate.broker.replication.serving.fetch_sessions import (
    FetchSession,
    FetchSessionError,
    FetchSessions,
    PartitionKey,
)
from quorate.broker.replication.serving.incremental_fetch import SessionFetches
from quorate.broker.replication.serving.log_queries import LogQueries
from quorate.broker.replication.serving.partition_reader import PartitionReader, QuietRead
from quorate.broker.replication.serving.plain_fetch import FetchService, ParkedFetch
from quorate.broker.replication.serving.produce_service import ParkedProduce, ProduceService

__all__ = [
    "DeletionService",
    "FetchService",
    "FetchSession",
    "FetchSessionError",
    "FetchSessions",
    "LogQueries",
    "ParkedFetch",
    "ParkedProduce",
    "PartitionKey",
    "PartitionReader",
    "ProduceService",
    "QuietRead",
    "SessionFetches",
]
