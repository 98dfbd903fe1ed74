"""The settings of a controller."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from quorate.broker.metadata.metadata_records import Record
from quorate.broker.settings.authorizer_settings import AuthorizerSettings
from quorate.broker.settings.broker_settings import ControllerTuning, LeaderBalance, TopicSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """The settings of a controller: parts of the configuration of its node."""

    cluster_id: str
    tuning: ControllerTuning = field(default_factory=ControllerTuning)
    balance: LeaderBalance = field(default_factory=LeaderBalance)
    topics: TopicSettings = field(default_factory=TopicSettings)
    static: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The node's checked `server.properties`, which sets defaults of topics."""
    first_records: Sequence[Record] = ()
    """Written by the first active controller of the cluster (`quorate storage format`)."""
    authorizer: AuthorizerSettings = field(default_factory=AuthorizerSettings)
    max_batch_bytes: int = 4 << 20
    """The maximum size of one append: the quorum's own limit or less. An operation that needs more in one
    piece is refused."""
