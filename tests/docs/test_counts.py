"""What docs/explanation/verification.md counts is as many as there are."""

import re
import sys
from collections import Counter
from pathlib import Path

from quorate.simulation.explorer.suites import SUITES
from quorate.simulation.isr_explorer.isr_suites import ISR_SUITES

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from mutate_table import MUTATIONS, Finder  # noqa: E402

PAGE = (ROOT / "docs" / "explanation" / "verification.md").read_text()


def row(name: str) -> str:
    """Of the table of counts: its last cell."""
    table = PAGE[PAGE.index("<!-- counts -->") :]
    (found,) = re.findall(rf"^\| {name}[^|]*\|[^|]*\|(.*)\|$", table, re.M)
    return found.strip()


def say(name: str, count: str) -> None:
    assert row(name).startswith(count), f"say {count!r} of the {name} in docs/explanation/verification.md"


def test_stories_faults_and_explorations_are_counted_right() -> None:
    stories = len(list((ROOT / "tests" / "traces").glob("*.txt")))
    say("golden stories", f"{stories} stories")
    finders = Counter(each.finder for each in MUTATIONS)
    names = {
        Finder.EXPLORER: "the explorer",
        Finder.ISR_EXPLORER: "the ISR explorer",
        Finder.UNIT: "unit tests",
        Finder.TRACE: "stories",
        Finder.SIMULATION: "simulation",
    }
    faults = ", ".join(f"{finders[finder]} for {name}" for finder, name in names.items())
    say("mutations", f"{len(MUTATIONS)} faults: {faults}")
    say("explorer, CI's bound", f"{len(SUITES['ci'])} explorations")
    say("explorer, large bound", f"{len(SUITES['large'])} explorations")
    say("ISR explorer, CI's bound", f"{len(ISR_SUITES['ci'])} explorations")
    say("ISR explorer, large bound", f"{len(ISR_SUITES['large'])} explorations")
