"""The settings of a broker's replicas."""

from dataclasses import dataclass
from typing import Final

from quorate.broker.settings.broker_settings import SESSION_TIMEOUT
from quorate.broker.settings.client_settings import FETCH_MAX_BYTES, FETCH_SESSIONS, REQUEST_MAX_BYTES
from quorate.broker.settings.config_key import LONG_MAX, ConfigKey, int_key, long_key
from quorate.broker.settings.node_keys import RACK_AWARE, NodeKeys
from quorate.broker.settings.setting import setting, shared
from quorate.broker.settings.storage_config import StorageConfig


def _is_rack_aware(selector: str) -> bool:
    return selector == RACK_AWARE


# fmt: off
@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationConfig(StorageConfig):
    """The configuration of replication, with that of the logs. Fields have the names of their keys, with `_`
    for `.`. Durations are in ms, sizes in bytes."""

    producer_id_expiration_ms: int = setting(int_key("producer.id.expiration.ms", 86_400_000,
        "The time without a batch after which a partition forgets a producer.", low=1, dynamic=True))
    replica_lag_time_max_ms: int = setting(long_key("replica.lag.time.max.ms", 30_000,
        "The maximum time that a follower in the ISR may stay behind the end of the leader's log. After it, "
        "the leader removes the follower from the ISR.", low=1))
    replica_fetch_wait_max_ms: int = setting(int_key("replica.fetch.wait.max.ms", 500,
        "The maximum time that the leader holds the fetch of a follower if there are no new records.", low=0))
    replica_fetch_min_bytes: int = setting(int_key("replica.fetch.min.bytes", 1,
        "The minimum size of the records in the answer to a follower. The leader waits for them up to "
        "replica.fetch.wait.max.ms.", low=0))
    replica_fetch_max_bytes: int = setting(int_key("replica.fetch.max.bytes", 1 << 20,
        "The maximum size of the records of one partition in the answer to a follower. A first batch that is "
        "larger is sent whole.", low=0))
    replica_fetch_response_max_bytes: int = setting(int_key("replica.fetch.response.max.bytes", 10 << 20,
        "The maximum size of the records of all partitions in the answer to a follower.", low=0))
    replica_fetch_backoff_ms: int = setting(int_key("replica.fetch.backoff.ms", 1000,
        "The maximum pause of a follower after a failed fetch.", low=0))
    replica_socket_timeout_ms: int = setting(int_key("replica.socket.timeout.ms", 30_000,
        "The time, beyond replica.fetch.wait.max.ms, after which a follower gives up an unanswered fetch.",
        low=1))
    replica_high_watermark_checkpoint_interval_ms: int = setting(long_key(
        "replica.high.watermark.checkpoint.interval.ms", 5000,
        "The time between two checkpoints of the high watermarks.", low=1))
    replica_fetch_backoff_min_ms: int = setting(int_key("replica.fetch.backoff.min.ms", 20,
        "The first pause of a follower after a failed fetch. Each failure in a row doubles it, up to "
        "replica.fetch.backoff.ms.", low=1, ours=True))
    alter_partition_retry_ms: int = setting(int_key("alter.partition.retry.ms", 50,
        "The pause before a leader repeats a change of the ISR that did not reach the active controller.",
        low=1, ours=True))
    broker_session_timeout_ms: int = shared(SESSION_TIMEOUT)
    """A leader that hears neither the controller nor a follower for this time takes itself for isolated."""
    reads_from_closest_replica: bool = shared(NodeKeys.REPLICA_SELECTOR.into(_is_rack_aware))
    fetch_max_bytes: int = shared(FETCH_MAX_BYTES)
    max_incremental_fetch_session_cache_slots: int = shared(FETCH_SESSIONS)
    batch_uncompressed_max_bytes: int = shared(REQUEST_MAX_BYTES)
    """The limit of a produced batch after decompression: as large as a request may be."""


THROTTLES: Final[tuple[ConfigKey, ...]] = (
    long_key("leader.replication.throttled.rate", LONG_MAX,
        "The maximum rate of bytes that a broker, as leader, sends to the replicas that its topics list in "
        "leader.replication.throttled.replicas, while they are outside the ISR.", low=0, dynamic=True),
    long_key("follower.replication.throttled.rate", LONG_MAX,
        "The maximum rate of bytes that a broker, as follower, fetches for the replicas that its topics list "
        "in follower.replication.throttled.replicas, while they are outside the ISR.", low=0, dynamic=True),
    long_key("replica.alter.log.dirs.io.max.bytes.per.second", LONG_MAX,
        "The maximum rate of bytes that a broker copies to move replicas from one of its directories to "
        "another.", low=0, dynamic=True),
)
"""Set while replicas move and removed afterwards. No file has them, as in Kafka."""
# fmt: on
