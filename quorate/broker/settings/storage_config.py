"""The settings of a broker's logs and directories: syncs, retention, compaction, damage and free space."""

from dataclasses import dataclass
from typing import Final

from quorate.broker.settings.config_key import (
    ConfigKey,
    flag_key,
    int_key,
    long_key,
    ratio,
    real_key,
    real_number,
)
from quorate.broker.settings.setting import setting


def _rate(value: str) -> None:
    if not real_number(value) >= 1:
        raise ValueError("it must be at least 1")


# fmt: off
DIRECTORY_FAILURE_TIMEOUT: Final = long_key("log.dir.failure.timeout.ms", 30_000,
    "The time after which a broker stops if it leads partitions in a failed directory and can't report "
    "the failure to the active controller. Also the time after which a broker gives up the leadership of "
    "a partition that it can't open for lack of file descriptors, if another replica is in sync.", low=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageConfig:
    """The upkeep of logs and directories. Fields have the names of their keys, with `_` for `.`. Durations
    are in ms, sizes in bytes."""

    log_close_timeout_ms: int = setting(long_key("log.close.timeout.ms", 60_000,
        "The maximum time that a stopping broker waits for its disks to sync.", low=1, ours=True))
    log_dir_failure_timeout_ms: int = setting(DIRECTORY_FAILURE_TIMEOUT)
    log_retention_check_interval_ms: int = setting(long_key("log.retention.check.interval.ms", 300_000,
        "The time between two checks for segments that retention deletes.", low=1))
    log_flush_offset_checkpoint_interval_ms: int = setting(long_key(
        "log.flush.offset.checkpoint.interval.ms", 60_000,
        "The time between two syncs of all partitions. Each ends with a checkpoint of the recovery points.",
        low=0))
    scrub_interval_ms: int = setting(long_key("quorate.log.scrub.interval.ms", 604_800_000,
        "The time within which a broker reads each closed segment once and checks it for damage. 0: it "
        "checks a segment only when a read meets damage.", low=0, ours=True))
    scrub_io_max_bytes_per_second: int = setting(long_key(
        "quorate.log.scrub.io.max.bytes.per.second", 8 << 20,
        "The maximum rate, per data directory, at which a broker reads segments to check them.",
        low=1024, ours=True))
    log_cleaner_enable: bool = setting(flag_key("log.cleaner.enable", True,
        "true: topics with cleanup.policy=compact are compacted."))
    log_cleaner_threads: int = setting(int_key("log.cleaner.threads", 1,
        "The maximum number of logs that a broker compacts at once. 0: none. Each takes a part of "
        "log.cleaner.dedupe.buffer.size, of at least 1 MiB: with less, fewer are compacted at once.",
        low=0, dynamic=True,
        why="Each is a task of the one event loop. Kafka refuses less than 1 MiB each, and at most doubles "
        "or halves the number in one change."))
    log_cleaner_io_max_bytes_per_second: float = setting(real_key(
        "log.cleaner.io.max.bytes.per.second", "1.7976931348623157E308",
        "The maximum rate of bytes that a broker reads and writes to compact logs, in all directories "
        "together.", check=_rate, dynamic=True))
    log_cleaner_dedupe_buffer_size: int = setting(long_key("log.cleaner.dedupe.buffer.size", 128 << 20,
        "The maximum size of the keys' table over all compactions at once. A log with more keys is compacted "
        "in several passes.", low=1 << 20, dynamic=True))
    log_cleaner_backoff_ms: int = setting(long_key("log.cleaner.backoff.ms", 15_000,
        "The pause after no log was found to be compacted.", low=0, dynamic=True))
    free_warn_percent: int = setting(int_key("quorate.log.dir.free.warn.percent", 10,
        "A broker warns once when the file system of a data directory has less than this share free, in "
        "percent. 0: it does not.", low=0, high=100, ours=True))
    free_warn_bytes: int = setting(long_key("quorate.log.dir.free.warn.bytes", 0,
        "A broker warns once when the file system of a data directory has fewer bytes free. 0: it does not.",
        low=0, ours=True))
    replica_refetch_damaged: bool = setting(flag_key("quorate.replica.refetch.damaged", False,
        "true: a broker sets the log of a replica that is found damaged aside, and fetches it anew, as soon "
        "as enough others are in sync. false: it waits for quorate log-dirs refetch.", ours=True))


CLEANER_IGNORED: Final[tuple[ConfigKey, ...]] = (
    int_key("log.cleaner.io.buffer.size", 524_288,
        "The size of the buffers for reads and writes of compaction.",
        low=0, dynamic=True,
        no_effect="reads and writes of compaction have one size, and grow with a batch that is larger."),
    real_key("log.cleaner.io.buffer.load.factor", "0.9",
        "The share of the keys' table that may be filled.",
        check=ratio, dynamic=True,
        no_effect="the table grows with its keys, up to log.cleaner.dedupe.buffer.size."),
)
"""Keys of compaction that have no effect, and may change while brokers run as Kafka's do."""
# fmt: on
