"""Features: those that this node supports, the levels at which the cluster works, and UpdateFeatures
(KIP-584). `kraft.version` is the quorum's own feature; the controller has all others."""

from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode as WireErrorCode

from quorate.broker.apis import answers
from quorate.broker.apis.api_row import ApiRow
from quorate.broker.apis.context import ServingNode, answer_later, check_answer, respond
from quorate.broker.apis.raft_voters import DEFAULT_TIMEOUT_MS, wait_changed
from quorate.broker.controller.permits import NEEDS
from quorate.broker.controller.rpc import FeatureUpdate, UpdateFeaturesRequest, UpgradeType
from quorate.broker.metadata.supported_features import KRAFT_VERSION, SUPPORTED_FEATURES
from quorate.broker.metadata_cache import MetadataCache
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.exchanges import Refusal, RequestContext, Response
from quorate.broker.wire.feature_levels import Features, SupportedFeature
from quorate.broker.wire.wire_errors import KafkaError
from quorate.raft import Quorum

if TYPE_CHECKING:
    from kio.schema.update_features.v2.request import FeatureUpdateKey
    from kio.schema.update_features.v2.request import UpdateFeaturesRequest as WireRequest

_SUPPORTED: Final = (
    *(SupportedFeature(each.name, each.min_level, each.max_level) for each in SUPPORTED_FEATURES),
    SupportedFeature(KRAFT_VERSION, 0, 1),
)
_DYNAMIC_VOTERS: Final = 1
"""The level of `kraft.version` at which the voters are in the log (KIP-853)."""
_LAST_VERSION_WITH_ROWS: Final = 1
_MOST_UPDATES: Final = 1000


def features_of(metadata: MetadataCache, quorum: Quorum[None]) -> Features:
    """Return the features in this node's metadata."""
    image = metadata.image
    levels = dict(image.features)
    if quorum.has_dynamic_voters:
        levels[KRAFT_VERSION] = 1
    return Features(
        supported=_SUPPORTED,
        finalized=tuple(sorted((name, level) for name, level in levels.items() if level > 0)),
        epoch=image.offset,
    )


@answer_later
async def handle_update_features(
    node: ServingNode, context: RequestContext, request: "WireRequest"
) -> Response:
    """Make all of the updates, or none. Raises `KafkaError` for an impossible `kraft.version`."""
    if len(request.feature_updates) > _MOST_UPDATES:
        raise KafkaError(
            WireErrorCode.invalid_request,
            f"The request has {len(request.feature_updates)} updates; at most {_MOST_UPDATES} are taken.",
        )
    timeout_seconds = max(request.timeout.total_seconds(), 0)
    updates = tuple(_update(each) for each in request.feature_updates)
    upgrades_quorum = any(_upgrades_quorum(node, each) for each in updates if each.name == KRAFT_VERSION)
    others = tuple(each for each in updates if each.name != KRAFT_VERSION)
    if others:
        asked = UpdateFeaturesRequest(updates=others, validate_only=request.validate_only)
        check_answer(await node.ask_controller(context, asked, timeout_seconds=timeout_seconds))
    if upgrades_quorum and not request.validate_only:
        await wait_changed(node, context, node.quorum.adopt_voters(timeout_ms=DEFAULT_TIMEOUT_MS))
    return respond(context, _outcome(request, Refusal(context.version, WireErrorCode.none)))


def _update(wire: "FeatureUpdateKey") -> FeatureUpdate:
    try:
        return FeatureUpdate(
            name=wire.feature,
            level=int(wire.max_version_level),
            upgrade_type=UpgradeType(wire.upgrade_type),
        )
    except ValueError:
        raise KafkaError(
            WireErrorCode.invalid_update_version,
            f"Feature {wire.feature}: upgrade type {wire.upgrade_type} is none of 1, 2 and 3.",
        ) from None


def _upgrades_quorum(node: ServingNode, update: FeatureUpdate) -> bool:
    present = _DYNAMIC_VOTERS if node.quorum.has_dynamic_voters else 0
    if not 0 <= update.level <= _DYNAMIC_VOTERS:
        why = f"this quorum supports levels 0 to {_DYNAMIC_VOTERS} (inclusive)"
    elif update.level < present:
        why = f"it is at {present}, and the voters can't leave the log again"
    elif update.level > present and update.upgrade_type is not UpgradeType.UPGRADE:
        why = f"it is at {present}; a higher level takes an upgrade"
    else:
        return update.level > present
    raise KafkaError(
        WireErrorCode.invalid_update_version,
        f"Feature {update.name} can't be set to level {update.level}: {why}.",
    )


def _outcome(request: "WireRequest", outcome: Refusal) -> answers.UpdateFeaturesResponse:
    """Return the one outcome of all updates. Below version 2 each has a row of its own, too."""
    code, message = outcome.code, outcome.message
    said: answers.UpdateFeaturesResponse = {"error_code": code, "error_message": message}
    if outcome.version <= _LAST_VERSION_WITH_ROWS:
        said["results"] = (
            {"error_code": code, "error_message": message, "feature": each.feature}
            for each in request.feature_updates
        )
    return said


ROWS: Final = (
    ApiRow["WireRequest"](
        ApiKey.UPDATE_FEATURES.api,
        _outcome,
        needs=NEEDS[UpdateFeaturesRequest],
        brokers=handle_update_features,
        controllers=handle_update_features,
    ),
)
