"""Brokers of the cluster, and the levels of the features at which they work together."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, cast

from quorate.broker.admin.admin_client import AdminClient, check
from quorate.broker.wire.api import ApiKey

if TYPE_CHECKING:
    from kio.schema.api_versions.v4.response import ApiVersionsResponse
    from kio.schema.unregister_broker.v0.response import UnregisterBrokerResponse
    from kio.schema.update_features.v2.response import UpdateFeaturesResponse

_FEATURES_TIMEOUT_S: Final = 60


async def live_brokers(admin: AdminClient) -> set[int]:
    """Return the ids of the brokers that are registered and not fenced."""
    return set((await admin.brokers()).live)


async def unregister_broker(admin: AdminClient, broker_id: int) -> None:
    """Remove a broker from the cluster's metadata, and return when it is gone."""
    answer = cast(
        "UnregisterBrokerResponse", await admin.change(ApiKey.UNREGISTER_BROKER, broker_id=broker_id)
    )
    check(answer.error_code, answer.error_message or answer.error_code.name, of=f"broker {broker_id}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureDescription:
    """A feature, the levels that the asked broker can work at (inclusive), and the cluster's level."""

    name: str
    min_level: int
    max_level: int
    finalized: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedFeatures:
    """The features that a broker knows. `epoch`: the metadata offset of that knowledge."""

    features: tuple[FeatureDescription, ...]
    epoch: int


async def describe_features(admin: AdminClient) -> DescribedFeatures:
    """Describe the features that the broker knows."""
    answer = cast(
        "ApiVersionsResponse",
        await admin.call(ApiKey.API_VERSIONS, client_software_name="quorate", client_software_version="1"),
    )
    check(answer.error_code, f"{admin.any_broker.peer} refused ApiVersions")
    finalized = {each.name: each.max_version_level for each in answer.finalized_features}
    return DescribedFeatures(
        features=tuple(
            FeatureDescription(
                name=each.name,
                min_level=each.min_version,
                max_level=each.max_version,
                finalized=finalized.get(each.name, 0),
            )
            for each in sorted(answer.supported_features, key=lambda feature: feature.name)
        ),
        epoch=answer.finalized_features_epoch,
    )


async def set_features(
    admin: AdminClient,
    levels: Mapping[str, int],
    *,
    upgrade_type: int,
    dry_run: bool,
    timeout_s: float = _FEATURES_TIMEOUT_S,
) -> None:
    """Set the features' levels, all or none. `upgrade_type`: 1 up, 2 down, 3 down with loss. `timeout_s`: for
    the cluster to carry it out."""
    answer = cast(
        "UpdateFeaturesResponse",
        await admin.change(
            ApiKey.UPDATE_FEATURES,
            timeout_s=timeout_s,
            feature_updates=[
                {"feature": name, "max_version_level": level, "upgrade_type": upgrade_type}
                for name, level in levels.items()
            ],
            validate_only=dry_run,
            timeout=timedelta(seconds=timeout_s),
        ),
    )
    check(answer.error_code, answer.error_message)
