"""The types of answers follow from kio's classes."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.real_time

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_the_written_types_are_current() -> None:
    """After another version of kio, or of an API: scripts/generate_answers.py."""
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/generate_answers.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
