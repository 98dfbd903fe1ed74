"""server.properties as each part of a node is configured with it."""

from quorate.broker.controller import ControllerSettings
from quorate.broker.controller.operations import TopicDefaults
from quorate.broker.groups import GroupConfig, GroupLimits, OffsetRetention
from quorate.broker.lifecycle import LifecycleTimes
from quorate.broker.metadata import overrides_of
from quorate.broker.replication import ReplicationConfig
from quorate.broker.settings import RACK_AWARE, ServerConfig
from quorate.broker.wire import ConnectionRules, KafkaServerConfig


def replication_config(config: ServerConfig) -> ReplicationConfig:
    return ReplicationConfig(
        replica_lag_time_max_ms=config.int("replica.lag.time.max.ms"),
        replica_fetch_wait_max_ms=config.int("replica.fetch.wait.max.ms"),
        replica_fetch_min_bytes=config.int("replica.fetch.min.bytes"),
        replica_fetch_max_bytes=config.int("replica.fetch.max.bytes"),
        replica_fetch_response_max_bytes=config.int("replica.fetch.response.max.bytes"),
        replica_fetch_backoff_ms=config.int("replica.fetch.backoff.ms"),
        replica_fetch_backoff_min_ms=config.int("replica.fetch.backoff.min.ms"),
        replica_socket_timeout_ms=config.int("replica.socket.timeout.ms"),
        replica_high_watermark_checkpoint_interval_ms=config.int(
            "replica.high.watermark.checkpoint.interval.ms"
        ),
        log_flush_offset_checkpoint_interval_ms=config.int("log.flush.offset.checkpoint.interval.ms"),
        log_retention_check_interval_ms=config.int("log.retention.check.interval.ms"),
        log_cleaner_enable=config.flag("log.cleaner.enable"),
        log_cleaner_threads=config.int("log.cleaner.threads"),
        log_cleaner_backoff_ms=config.int("log.cleaner.backoff.ms"),
        log_cleaner_io_max_bytes_per_second=float(config.values["log.cleaner.io.max.bytes.per.second"]),
        log_cleaner_dedupe_buffer_size=config.int("log.cleaner.dedupe.buffer.size"),
        producer_id_expiration_ms=config.int("producer.id.expiration.ms"),
        log_close_timeout_ms=config.int("log.close.timeout.ms"),
        alter_partition_retry_ms=config.int("alter.partition.retry.ms"),
        broker_session_timeout_ms=config.int("broker.session.timeout.ms"),
        log_dir_failure_timeout_ms=config.int("log.dir.failure.timeout.ms"),
        reads_from_closest_replica=config.values["replica.selector.class"] == RACK_AWARE,
        fetch_max_bytes=config.int("fetch.max.bytes"),
        max_incremental_fetch_session_cache_slots=config.int("max.incremental.fetch.session.cache.slots"),
        batch_uncompressed_max_bytes=config.int("socket.request.max.bytes"),
        replica_refetch_damaged=config.flag("quorate.replica.refetch.damaged"),
        free_warn_percent=config.int("quorate.log.dir.free.warn.percent"),
        free_warn_bytes=config.int("quorate.log.dir.free.warn.bytes"),
        scrub_interval_ms=config.int("quorate.log.scrub.interval.ms"),
        scrub_io_max_bytes_per_second=config.int("quorate.log.scrub.io.max.bytes.per.second"),
    )


def lifecycle_times(config: ServerConfig) -> LifecycleTimes:
    return LifecycleTimes(
        heartbeat_interval=config.seconds("broker.heartbeat.interval.ms"),
        session_timeout=config.seconds("broker.session.timeout.ms"),
        registration_timeout=config.seconds("initial.broker.registration.timeout.ms"),
        directory_failure_timeout=config.seconds("log.dir.failure.timeout.ms"),
    )


def group_config(config: ServerConfig) -> GroupConfig:
    return GroupConfig(
        min_session_timeout_ms=config.int("group.min.session.timeout.ms"),
        max_session_timeout_ms=config.int("group.max.session.timeout.ms"),
        limits=GroupLimits(
            initial_rebalance_delay_ms=config.int("group.initial.rebalance.delay.ms"),
            max_size=config.int("group.max.size"),
        ),
        offset_metadata_max_bytes=config.int("offset.metadata.max.bytes"),
        retention=OffsetRetention(
            retention_ms=config.int("offsets.retention.minutes") * 60_000,
            check_interval_ms=config.int("offsets.retention.check.interval.ms"),
        ),
    )


def connection_rules(config: ServerConfig) -> ConnectionRules:
    return ConnectionRules(
        max_connections=config.int("max.connections"),
        max_connections_per_ip=config.int("max.connections.per.ip"),
        per_ip_overrides=overrides_of(config.values["max.connections.per.ip.overrides"]),
        creation_rate=config.int("max.connection.creation.rate"),
    )


def wire_config(config: ServerConfig) -> KafkaServerConfig:
    return KafkaServerConfig(
        connections=connection_rules(config),
        request_max_bytes=config.int("socket.request.max.bytes"),
        queued_max_request_bytes=config.int("queued.max.request.bytes"),
        idle_timeout_s=config.seconds("connections.max.idle.ms"),
    )


def controller_settings(config: ServerConfig, *, cluster_id: str) -> ControllerSettings:
    return ControllerSettings(
        cluster_id=cluster_id,
        broker_session_timeout_ms=config.int("broker.session.timeout.ms"),
        refusal_confirm_ms=config.int("quorate.controller.refusal.confirm.ms"),
        topic_defaults=TopicDefaults(
            num_partitions=config.int("num.partitions"),
            replication_factor=config.int("default.replication.factor"),
        ),
        static=config.static,
        auto_leader_rebalance_enable=config.flag("auto.leader.rebalance.enable"),
        leader_imbalance_check_interval_seconds=config.int("leader.imbalance.check.interval.seconds"),
        leader_imbalance_per_broker_percentage=config.int("leader.imbalance.per.broker.percentage"),
        partitions_per_step=config.int("quorate.controller.partitions.per.step"),
    )
