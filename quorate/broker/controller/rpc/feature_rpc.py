"""UpdateFeatures between a broker and the active controller."""

import enum
from dataclasses import dataclass

from quorate.broker.controller.rpc.rpc import ControllerRequest, ControllerResponse


class UpgradeType(enum.IntEnum):
    """Kafka's numbers of the ways that a feature's level may go."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureUpdate:
    """A level for a feature; 0 switches it off."""

    name: str
    level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeaturesRequest(ControllerRequest["UpdateFeaturesResponse"]):
    updates: tuple[FeatureUpdate, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeaturesResponse(ControllerResponse):
    """Nothing beside the error."""
