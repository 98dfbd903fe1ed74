"""The Kafka requests of `quorate features`."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.api_versions.v4.response import ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest
from kio.schema.update_features.v2.response import UpdateFeaturesResponse
from kio.static.primitive import i8, i16, i32Timedelta

from quorate.broker.wire import KafkaError, WireClient

_TIMEOUT_SECONDS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureDescription:
    """A feature, the levels that the asked broker can work at (inclusive), and the cluster's level."""

    name: str
    min_level: int
    max_level: int
    finalized: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedFeatures:
    """`epoch`: the metadata offset of that knowledge."""

    features: tuple[FeatureDescription, ...]
    epoch: int


async def describe_features(client: WireClient) -> DescribedFeatures:
    """Describe the features that the broker knows. Raises `KafkaError`."""
    answer = await client.send(
        ApiVersionsRequest(client_software_name="quorate", client_software_version="1"), ApiVersionsResponse
    )
    if answer.error_code is not ErrorCode.none:
        raise KafkaError(answer.error_code, f"{client.peer} refused ApiVersions")
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
    client: WireClient, levels: dict[str, int], *, upgrade_type: int, dry_run: bool
) -> None:
    """Set the features' levels, all or none. `upgrade_type`: 1 up, 2 down, 3 down with loss. Raises
    `KafkaError`."""
    updates = tuple(
        FeatureUpdateKey(feature=name, max_version_level=i16(level), upgrade_type=i8(upgrade_type))
        for name, level in levels.items()
    )
    answer = await client.send(
        UpdateFeaturesRequest(
            feature_updates=updates,
            validate_only=dry_run,
            timeout=i32Timedelta.parse(timedelta(seconds=_TIMEOUT_SECONDS)),
        ),
        UpdateFeaturesResponse,
        timeout_s=_TIMEOUT_SECONDS + 5,
    )
    if answer.error_code is not ErrorCode.none:
        raise KafkaError(answer.error_code, answer.error_message or answer.error_code.name.upper())
