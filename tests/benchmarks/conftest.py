"""The benchmarks are programs, not a package: their modules import each other by plain names."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
