"""A segmented, crash-safe log of Kafka v2 record batches."""

from quorate.log.config import LogConfig
from quorate.log.errors import LogError
from quorate.log.log import AppendInfo, FileSlice, Log

__all__ = ["AppendInfo", "FileSlice", "Log", "LogConfig", "LogError"]
