"""Programs in processes of their own, which draw their hash seeds otherwise."""

import os
import subprocess
import sys


def same_in_two_processes(program: str) -> str:
    """Run the program in two fresh processes with other hash seeds. Return what both print."""
    first, second = (
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    )
    assert first == second
    return first
