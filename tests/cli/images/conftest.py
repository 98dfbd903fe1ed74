"""The sample of a metadata log and its snapshots, for images."""

from pathlib import Path

import pytest
from metadata_folder import MetadataFolder, story_folder


@pytest.fixture
def written(tmp_path: Path) -> MetadataFolder:
    """Return the sample, not written yet."""
    return story_folder(tmp_path / "data")
