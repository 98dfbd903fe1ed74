"""The settings of brokers and of the controller that looks after them."""

from dataclasses import dataclass
from typing import Final

from quorate.broker.settings.config_key import flag_key, int_key, long_key, seconds
from quorate.broker.settings.setting import setting, shared
from quorate.broker.settings.storage_config import DIRECTORY_FAILURE_TIMEOUT


# fmt: off
@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """The defaults of new topics, and whether clients may create and delete topics."""

    num_partitions: int = setting(int_key("num.partitions", 1,
        "The number of partitions of a new topic, if the request gives none.", low=1))
    replication_factor: int = setting(int_key("default.replication.factor", 1,
        "The number of replicas of a new topic, if the request gives none.", low=1, high=32_767))
    auto_create_enable: bool = setting(flag_key("auto.create.topics.enable", True,
        "true: a Metadata request for an unknown topic may create it."))
    delete_enable: bool = setting(flag_key("delete.topic.enable", True,
        "true: clients may delete topics."))


HEARTBEAT_INTERVAL: Final = int_key("broker.heartbeat.interval.ms", 2000,
    "The time between two heartbeats of a broker to the active controller.", low=1)
SESSION_TIMEOUT: Final = int_key("broker.session.timeout.ms", 9000,
    "The time without a heartbeat after which the active controller fences a broker.", low=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleTimes:
    """The times of a broker's life in the cluster, in seconds."""

    heartbeat_interval: float = setting(HEARTBEAT_INTERVAL.into(seconds))
    session_timeout: float = setting(SESSION_TIMEOUT.into(seconds))
    registration_timeout: float = setting(int_key("initial.broker.registration.timeout.ms", 60_000,
        "The time within which a starting broker must register. Otherwise it stops.", low=1).into(seconds))
    directory_failure_timeout: float = shared(DIRECTORY_FAILURE_TIMEOUT.into(seconds))


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerTuning:
    """The pace of the active controller. Durations are in ms."""

    broker_session_timeout_ms: int = shared(SESSION_TIMEOUT)
    partitions_per_step: int = setting(int_key("quorate.controller.partitions.per.step", 128,
        "The maximum number of partitions that the active controller changes in one step. A higher number is "
        "less work in total. A lower number delays the messages of the quorum less.",
        low=1, high=10_000, ours=True))
    refusal_confirm_ms: int = setting(int_key("quorate.controller.refusal.confirm.ms", 150,
        "The time for which the address of a broker must refuse connections, after one was lost, before the "
        "active controller fences the broker as dead without waiting for its session. 0: it always waits for "
        "the session.", low=0, ours=True))

    @property
    def patience_s(self) -> float:
        """A broker with a state change older than this, in seconds, is behind: half a session."""
        return self.broker_session_timeout_ms / 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownSettings:
    """The controlled shutdown of a broker. `timeout` is in seconds."""

    enable: bool = setting(flag_key("controlled.shutdown.enable", True,
        "true: a broker transfers the leadership of its partitions before it stops."))
    timeout: float = setting(int_key("controlled.shutdown.timeout.ms", 10_000,
        "The maximum time of that transfer.", low=1, ours=True).into(seconds))


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderBalance:
    """The return of leaders to their preferred replicas."""

    auto_leader_rebalance_enable: bool = setting(flag_key("auto.leader.rebalance.enable", True,
        "true: the active controller elects preferred leaders (first replicas) on each broker that leads too "
        "few of the partitions that prefer it."))
    leader_imbalance_check_interval_seconds: int = setting(long_key(
        "leader.imbalance.check.interval.seconds", 300,
        "The time between two checks for such brokers, in seconds.", low=1))
    leader_imbalance_per_broker_percentage: int = setting(int_key(
        "leader.imbalance.per.broker.percentage", 10,
        "The percentage of the partitions that prefer a broker that others may lead. Above it the controller "
        "elects the preferred leaders. 0: others may lead none.", low=0))
# fmt: on
