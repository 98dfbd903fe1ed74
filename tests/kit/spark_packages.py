"""Packages for Spark from Maven, as jars."""

import importlib
from pathlib import Path

import pytest
from documents import ROOT


def spark_package(name: str) -> list[Path]:
    """Return the jars of `scripts/kafka_tools/spark`/`name`. Skips the test where they are not to be had."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts" / "kafka_tools")
        jars = importlib.import_module("jars")
    try:
        found: list[Path] = jars.of_spark(name)
    except jars.CantRunHereError as why:
        pytest.skip(str(why))
    return found
