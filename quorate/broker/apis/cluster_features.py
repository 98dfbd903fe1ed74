"""The features of this broker, and the levels at which the cluster works."""

from typing import Final

from quorate.broker.controller import LATEST_METADATA_VERSION, METADATA_VERSION
from quorate.broker.metadata_cache import MetadataCache
from quorate.broker.wire import Features, SupportedFeature
from quorate.raft import Quorum

_KRAFT_VERSION: Final = "kraft.version"
_SUPPORTED: Final = (
    SupportedFeature(METADATA_VERSION, 1, LATEST_METADATA_VERSION),
    SupportedFeature(_KRAFT_VERSION, 0, 1),
    # Consumer groups of KIP-848 and transactions with KIP-890 can't be switched on.
    SupportedFeature("group.version", 0, 0),
    SupportedFeature("transaction.version", 0, 0),
)


def features_of(metadata: MetadataCache, quorum: Quorum[None]) -> Features:
    """Return the features in this node's metadata."""
    image = metadata.image
    levels = dict(image.features)
    if quorum.has_dynamic_voters:
        levels[_KRAFT_VERSION] = 1
    return Features(
        supported=_SUPPORTED,
        finalized=tuple(sorted((name, level) for name, level in levels.items() if level > 0)),
        epoch=image.offset,
    )
