"""The README as package indexes show it: its relative links lead to the repository on the web."""

import re
import tomllib
from pathlib import Path

from setuptools import setup

home = tomllib.loads(Path("pyproject.toml").read_text())["project"]["urls"]["Homepage"]
setup(
    long_description=re.sub(r"\]\((?!https?:|#)", f"]({home}/blob/main/", Path("README.md").read_text()),
    long_description_content_type="text/markdown",
)
