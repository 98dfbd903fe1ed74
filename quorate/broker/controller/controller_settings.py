"""The settings of a controller."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from quorate.broker.controller.operations import TopicDefaults


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """The settings of a controller. Fields that are also keys of Kafka have their names and defaults."""

    cluster_id: str
    broker_session_timeout_ms: int = 9000
    """`broker.session.timeout.ms`"""
    refusal_confirm_ms: int = 150
    """How long a broker's address must refuse connections before its process counts as gone; 0: it never
    does."""
    topic_defaults: TopicDefaults = field(default_factory=TopicDefaults)
    static: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The node's checked `server.properties`, where topics' defaults come from."""
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    leader_imbalance_per_broker_percentage: int = 10
    max_batch_bytes: int = 4 << 20
    """Of one append; the quorum's own limit or less. An operation that needs more in one piece is refused."""
    partitions_per_step: int = 128
    """That one step changes; it may look at 16 times as many. Some 20 us each, to decide, encode and
    apply."""

    @property
    def patience_s(self) -> float:
        """A broker with a state change older than this (s) is behind: half a session."""
        return self.broker_session_timeout_ms / 2000
