"""The rules of a topic's settings for produced batches."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from quorate.broker.metadata import TopicConfig
from quorate.log import Codec

_CODECS: Final = MappingProxyType(
    {
        "producer": None,
        "uncompressed": Codec.NONE,
        "gzip": Codec.GZIP,
        "snappy": Codec.SNAPPY,
        "lz4": Codec.LZ4,
        "zstd": Codec.ZSTD,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRules:
    """Sizes in bytes, durations in ms."""

    max_message_bytes: int
    """The size limit of a whole batch, as sent and as kept."""
    codec: Codec | None
    """The codec of kept batches. None: the producer's choice."""
    log_append_time: bool
    """Records get the broker's time at the append."""
    before_max_ms: int
    """The time that a record's timestamp may be behind this broker's clock (KIP-937)."""
    after_max_ms: int
    """The time that a record's timestamp may be ahead of it."""
    keys_needed: bool
    """The topic is compacted: a record without a key could never be superseded."""
    level: int | None = None
    """The level of `codec` where this broker compresses. None: the codec's usual one, or none at all."""

    @classmethod
    def of(cls, config: TopicConfig) -> "ProduceRules":
        levels = {
            "gzip": config.compression_gzip_level,
            "lz4": config.compression_lz4_level,
            "zstd": config.compression_zstd_level,
        }
        return cls(
            max_message_bytes=config.max_message_bytes,
            codec=_CODECS[config.compression_type],
            level=levels.get(config.compression_type),
            log_append_time=config.log_append_time,
            before_max_ms=config.message_timestamp_before_max_ms,
            after_max_ms=config.message_timestamp_after_max_ms,
            keys_needed=config.cleanup_compact,
        )
