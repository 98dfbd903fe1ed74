"""UpdateFeatures: one refusal refuses all."""

import pytest

from quorate.broker.controller.operations import features
from quorate.broker.controller.operations.features import update_features
from quorate.broker.controller.rpc import FeatureUpdate, UpdateFeaturesRequest, UpgradeType
from quorate.broker.metadata.metadata_records import FeatureLevel, FeatureRange, RegisterBroker
from quorate.error_code import ErrorCode

UP, DOWN = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE
NEW = FeatureRange(name="new", min_level=0, max_level=3)
OLD = FeatureRange(name="old", min_level=1, max_level=2)


@pytest.fixture(autouse=True)
def newer_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "SUPPORTED_FEATURES", (NEW, OLD))


def register(cluster, broker_id: int, *ranges: FeatureRange) -> None:
    cluster.start(broker_id)
    held = cluster.image.broker(broker_id)
    cluster.append(
        RegisterBroker(
            broker_id=broker_id,
            incarnation_id=held.incarnation_id,
            broker_epoch=held.epoch,
            listeners=held.listeners,
            features=ranges,
        )
    )


def update(cluster, *updates: FeatureUpdate, validate_only: bool = False) -> tuple[ErrorCode, str | None]:
    request = UpdateFeaturesRequest(updates=updates, validate_only=validate_only)
    answer = cluster.do(update_features(cluster.image, request))
    return answer.error, answer.error_message


def test_features_go_up_and_down_and_off(cluster) -> None:
    register(cluster, 1, NEW, OLD)
    assert (
        update(cluster, FeatureUpdate(name="new", level=3), FeatureUpdate(name="old", level=1))[0]
        is ErrorCode.NONE
    )
    assert cluster.image.features == {"new": 3, "old": 1}
    assert update(cluster, FeatureUpdate(name="new", level=0, upgrade_type=DOWN))[0] is ErrorCode.NONE
    assert cluster.image.features == {"old": 1}


def test_a_level_that_is_held_takes_no_record(cluster) -> None:
    register(cluster, 1, NEW)
    cluster.append(FeatureLevel(name="new", level=2))
    held = len(cluster.log)
    for how in UpgradeType:
        assert update(cluster, FeatureUpdate(name="new", level=2, upgrade_type=how))[0] is ErrorCode.NONE
    assert len(cluster.log) == held


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (FeatureUpdate(name="unheard", level=1), "doesn't know"),
        (FeatureUpdate(name="new", level=4), "this controller supports levels 0 to 3"),
        (FeatureUpdate(name="new", level=-1), "this controller supports levels 0 to 3"),
        (FeatureUpdate(name="new", level=3), "broker 2 supports levels 0 to 2"),
        (FeatureUpdate(name="new", level=0), "takes a downgrade"),
        (FeatureUpdate(name="new", level=2, upgrade_type=DOWN), "takes an upgrade"),
        (FeatureUpdate(name="old", level=2), "broker 2 supports levels 0 to 0"),
    ],
)
def test_one_refusal_names_the_reason_and_nothing_changes(cluster, refused: FeatureUpdate, why: str) -> None:
    register(cluster, 1, NEW, OLD)
    register(cluster, 2, FeatureRange(name="new", min_level=0, max_level=2))
    cluster.append(FeatureLevel(name="new", level=1))
    held = len(cluster.log)
    fine = FeatureUpdate(name="new", level=2)
    for updates in ([refused], [refused, fine] if refused.name != "new" else [refused]):
        error, message = update(cluster, *updates)
        assert error is ErrorCode.INVALID_UPDATE_VERSION
        assert why in str(message)
    assert len(cluster.log) == held


def test_a_feature_named_twice_is_refused(cluster) -> None:
    error, message = update(cluster, FeatureUpdate(name="new", level=1), FeatureUpdate(name="new", level=2))
    assert (error, message) == (ErrorCode.INVALID_REQUEST, "Feature new is named twice.")


def test_a_validation_writes_nothing(cluster) -> None:
    register(cluster, 1, NEW)
    held = len(cluster.log)
    assert update(cluster, FeatureUpdate(name="new", level=1), validate_only=True)[0] is ErrorCode.NONE
    assert len(cluster.log) == held
