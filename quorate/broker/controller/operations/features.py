"""UpdateFeatures: the levels at which the cluster works (KIP-584)."""

from quorate.broker.controller.operations.outcome import Outcome, refusal
from quorate.broker.controller.rpc import (
    FeatureUpdate,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    UpgradeType,
)
from quorate.broker.metadata.api_error import ApiError
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import FeatureLevel, FeatureRange
from quorate.broker.metadata.supported_features import SUPPORTED_FEATURES
from quorate.error_code import ErrorCode


def update_features(image: MetadataImage, request: UpdateFeaturesRequest) -> Outcome[UpdateFeaturesResponse]:
    """Make all updates or, if one is refused, none."""
    records: list[FeatureLevel] = []
    named: set[str] = set()
    try:
        for update in request.updates:
            if update.name in named:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"Feature {update.name} is named twice.")
            named.add(update.name)
            if _checked(image, update) != update.level:
                records.append(FeatureLevel(name=update.name, level=update.level))
    except ApiError as error:
        return refusal(UpdateFeaturesResponse, error.code, error.message)
    groups = (tuple(records),) if records and not request.validate_only else ()
    return Outcome(response=UpdateFeaturesResponse(), groups=groups)


def _checked(image: MetadataImage, update: FeatureUpdate) -> int:
    """Return the present level, if the update may be made. Raises `ApiError`."""
    present = image.features.get(update.name, 0)
    supported = next((each for each in SUPPORTED_FEATURES if each.name == update.name), None)
    if supported is None:
        raise _refused(update, "this controller doesn't know the feature")
    _check_range(update, supported, who="this controller")
    for broker in image.brokers.values():
        offered = next((each for each in broker.features if each.name == update.name), None)
        # A feature that a broker doesn't name is one that it can only leave off.
        offered = offered or FeatureRange(name=update.name, min_level=0, max_level=0)
        _check_range(update, offered, who=f"broker {broker.broker_id}")
    if update.level < present and update.upgrade_type is UpgradeType.UPGRADE:
        raise _refused(update, f"it is at {present}; a lower level takes a downgrade")
    if update.level > present and update.upgrade_type is not UpgradeType.UPGRADE:
        raise _refused(update, f"it is at {present}; a higher level takes an upgrade")
    return present


def _check_range(update: FeatureUpdate, supported: FeatureRange, *, who: str) -> None:
    if not supported.min_level <= update.level <= supported.max_level:
        raise _refused(
            update, f"{who} supports levels {supported.min_level} to {supported.max_level} (inclusive)"
        )


def _refused(update: FeatureUpdate, why: str) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Feature {update.name} can't be set to level {update.level}: {why}.",
    )
