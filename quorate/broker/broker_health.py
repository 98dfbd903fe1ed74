"""The answer of /health: the quorum's health, and whether the node's broker serves clients."""

from dataclasses import asdict, dataclass

from quorate.broker.lifecycle import BrokerLifecycle, LifecycleState
from quorate.broker.replication.wiring import ReplicaServices
from quorate.raft import Quorum


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHealth:
    """The health of a broker, as far as it knows by itself, which says whether clients may be sent to it.

    A folder that has failed is no reason to send them elsewhere: other brokers lead its partitions, and the
    rest is served here alone.
    """

    reason: str | None
    """Why it does not serve; None if it does."""
    state: str
    """Of `LifecycleState`."""
    fenced: bool
    """In this node's own metadata; so is a broker that is not registered."""
    broker_epoch: int
    controller_silent_ms: int
    """Since the newest heartbeat left that was answered as this node's metadata has it."""
    failed_log_dirs: tuple[str, ...]
    """Folders of log.dirs that are not used: bad at the start, or failed since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHealth:
    """`quorum`: its report, for JSON, with `healthy` and `reason`. `broker` is None on a mere controller."""

    quorum: dict[str, object]
    broker: BrokerHealth | None

    @property
    def healthy(self) -> bool:
        return self.quorum["healthy"] is True and (self.broker is None or self.broker.reason is None)

    def as_dict(self) -> dict[str, object]:
        """The quorum's fields, `healthy` and `reason` of the whole, and `broker` if there is one."""
        if self.broker is None:
            return self.quorum
        reason = self.quorum["reason"]
        return {
            **self.quorum,
            "healthy": self.healthy,
            "reason": self.broker.reason if reason is None else reason,
            "broker": asdict(self.broker),
        }


def node_health(
    quorum: Quorum[None],
    lifecycle: BrokerLifecycle | None,
    replicas: ReplicaServices | None,
) -> NodeHealth:
    """At this moment. `lifecycle` and `replicas`: of the node's broker, if it is one."""
    broker = None if lifecycle is None or replicas is None else _broker_health(lifecycle, replicas)
    return NodeHealth(quorum=quorum.health.as_dict(), broker=broker)


def _broker_health(lifecycle: BrokerLifecycle, replicas: ReplicaServices) -> BrokerHealth:
    own = lifecycle.own
    return BrokerHealth(
        reason=_reason(lifecycle),
        state=lifecycle.state.value,
        fenced=own is None or own.fenced,
        broker_epoch=lifecycle.broker_epoch,
        controller_silent_ms=int(lifecycle.controller_silent_s * 1000),
        failed_log_dirs=replicas.directories.unused_dirs,
    )


def _reason(lifecycle: BrokerLifecycle) -> str | None:
    own, session_s = lifecycle.own, lifecycle.session_timeout_s
    if lifecycle.state in (LifecycleState.PENDING_CONTROLLED_SHUTDOWN, LifecycleState.SHUTTING_DOWN):
        return "the broker is stopping"
    if own is None:
        return "the broker is not registered yet"
    if own.fenced:
        return "the broker is fenced: the controller gives it nothing to lead"
    if lifecycle.controller_silent_s >= session_s:
        return (
            f"the controller has not confirmed the broker for {lifecycle.controller_silent_s:.1f} s, more "
            f"than its session of {session_s:g} s: others may lead what it led"
        )
    return None
