"""The features of this broker, and the levels at which the cluster works."""

from typing import Final

from quorate.broker.metadata import KRAFT_VERSION, SUPPORTED_FEATURES
from quorate.broker.metadata_cache import MetadataCache
from quorate.broker.wire import Features, SupportedFeature
from quorate.raft import Quorum

_SUPPORTED: Final = (
    *(SupportedFeature(each.name, each.min_level, each.max_level) for each in SUPPORTED_FEATURES),
    SupportedFeature(KRAFT_VERSION, 0, 1),
)


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
