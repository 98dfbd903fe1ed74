"""The features of this version of quorate, and the levels that it can work at (KIP-584)."""

from typing import Final

from quorate.broker.metadata.metadata_records import FeatureRange

METADATA_VERSION: Final = "metadata.version"
LATEST_METADATA_VERSION: Final = 1
SUPPORTED_FEATURES: Final = (
    FeatureRange(name=METADATA_VERSION, min_level=1, max_level=LATEST_METADATA_VERSION),
    # Consumer groups of KIP-848 and transactions with KIP-890 can't be switched on.
    FeatureRange(name="group.version", min_level=0, max_level=0),
    FeatureRange(name="transaction.version", min_level=0, max_level=0),
)
"""The features beside `kraft.version`."""
KRAFT_VERSION: Final = "kraft.version"
"""The quorum's own feature. Its level is in control records; one in the metadata counts for nothing
(KAFKA-18979)."""
