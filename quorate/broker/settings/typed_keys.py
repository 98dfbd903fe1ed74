"""The keys that code reads as numbers and flags, so that a type checker finds a misspelt one."""

from typing import Literal

NumberKey = Literal[
    "alter.partition.retry.ms", "broker.heartbeat.interval.ms", "broker.session.timeout.ms",
    "connections.max.idle.ms", "controlled.shutdown.timeout.ms",
    "controller.quorum.election.backoff.max.ms", "controller.quorum.election.timeout.ms",
    "controller.quorum.fetch.max.bytes", "controller.quorum.fetch.timeout.ms",
    "controller.quorum.request.timeout.ms", "controller.quorum.retry.backoff.ms",
    "default.replication.factor", "fetch.max.bytes", "group.initial.rebalance.delay.ms",
    "group.max.session.timeout.ms", "group.max.size", "group.min.session.timeout.ms",
    "initial.broker.registration.timeout.ms", "leader.imbalance.check.interval.seconds",
    "leader.imbalance.per.broker.percentage",
    "log.cleaner.backoff.ms", "log.cleaner.dedupe.buffer.size", "log.cleaner.threads",
    "log.close.timeout.ms", "log.dir.failure.timeout.ms", "log.flush.offset.checkpoint.interval.ms",
    "log.retention.check.interval.ms", "max.connection.creation.rate", "max.connections",
    "max.connections.per.ip", "max.incremental.fetch.session.cache.slots",
    "metadata.log.max.record.bytes.between.snapshots", "metadata.log.max.snapshot.interval.ms",
    "metadata.log.segment.bytes", "metrics.http.port", "num.partitions",
    "offset.metadata.max.bytes", "offsets.commit.timeout.ms",
    "offsets.retention.check.interval.ms", "offsets.retention.minutes", "offsets.topic.num.partitions",
    "offsets.topic.replication.factor", "producer.id.expiration.ms", "queued.max.request.bytes",
    "quorate.controller.partitions.per.step", "quorate.controller.refusal.confirm.ms",
    "quorate.log.dir.free.warn.bytes", "quorate.log.dir.free.warn.percent",
    "quorate.log.scrub.interval.ms", "quorate.log.scrub.io.max.bytes.per.second",
    "quorate.slow.step.ms", "replica.fetch.backoff.min.ms",
    "replica.fetch.backoff.ms", "replica.fetch.max.bytes", "replica.fetch.min.bytes",
    "replica.fetch.response.max.bytes", "replica.fetch.wait.max.ms",
    "replica.high.watermark.checkpoint.interval.ms", "replica.lag.time.max.ms",
    "replica.socket.timeout.ms", "socket.request.max.bytes",
]  # fmt: skip
FlagKey = Literal[
    "auto.create.topics.enable", "auto.leader.rebalance.enable", "controlled.shutdown.enable",
    "controller.quorum.auto.join.enable", "delete.topic.enable",
    "log.cleaner.enable", "quorate.replica.refetch.damaged",
]  # fmt: skip
