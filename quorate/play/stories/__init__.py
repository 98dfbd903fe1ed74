"""The stories that come with teaching mode, as scripts."""

from importlib.resources import files
from typing import Final

from quorate.play.script import Script, parse_script

STORIES: Final = (
    "figure-8",
    "a-vote-that-was-forgotten",
    "an-early-acknowledgement",
    "a-log-that-differs",
    "a-stale-read",
    "two-majorities",
)


def load_story(name: str) -> Script:
    """Return a story of `STORIES`. Raises `KeyError` for another name."""
    if name not in STORIES:
        raise KeyError(name)
    return parse_script((files("quorate.play.stories") / f"{name}.jsonl").read_text("utf-8"))
