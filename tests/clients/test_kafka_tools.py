"""Kafka's own tools and clients, all of them: docs/compatibility.md says what passes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.clients, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "kafka_tools"
SKIPPED = 77

sys.path.insert(0, str(SCRIPT))

import page  # noqa: E402


def test_each_command_and_call_ends_as_the_page_says(tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--json", str(found)], capture_output=True, text=True, timeout=800
    )
    if done.returncode == SKIPPED:
        pytest.skip(done.stdout.strip())
    assert found.exists(), done.stdout + done.stderr
    rows = json.loads(found.read_text())
    now = {(row["group"], row["area"], row["call"]): row for row in rows}
    told = page.told()
    worse = {
        " / ".join(key): f"{told[key]}, now {now[key]['result']}: {now[key]['detail']}"
        for key in told.keys() & now.keys()
        if told[key] != now[key]["result"]
    }
    assert not worse, "run scripts/kafka_tools --write if that is as it should be"
    assert told.keys() == now.keys(), "there are others: run scripts/kafka_tools --write"
