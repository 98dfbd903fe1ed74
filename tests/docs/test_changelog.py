"""The changelog and the version agree, so that the commit can be tagged."""

import datetime
import re
from pathlib import Path

import quorate

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"


def test_the_newest_release_in_the_changelog_is_the_version() -> None:
    sections = re.findall(r"^## (.+)$", CHANGELOG.read_text(), re.M)
    assert sections[0] == "Unreleased"
    releases = [re.fullmatch(r"(\d+\.\d+\.\d+) \((\d{4}-\d\d-\d\d)\)", section) for section in sections[1:]]
    assert all(releases), "each release is: version (date)"
    versions = [release[1] for release in releases if release is not None]
    assert versions[0] == quorate.__version__
    assert versions == sorted(
        versions, key=lambda text: [int(part) for part in text.split(".")], reverse=True
    )
    for release in releases:
        if release is not None:
            datetime.date.fromisoformat(release[2])
