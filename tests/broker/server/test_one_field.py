"""A setting is one field: the change in CONTRIBUTING.md, applied to a copy, is all that a new key needs."""

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from quorate.broker.settings.config_key import REQUIRED, int_key, list_key, seconds, text_key
from quorate.broker.settings.setting import keys_of, nested, read, setting, shared

ROOT = Path(__file__).parents[3]
KEY = "quorate.metrics.scrapes.max"
DOC = "The maximum number of requests that the metrics endpoint serves at once."
TRY = '''
import sys
from types import SimpleNamespace

from quorate.broker.apis.describe_configs import _entries
from quorate.broker.metadata import MetadataImage
from quorate.broker.node_config import ServerConfig, ServerConfigError
from quorate.cli.node.local_cluster import NodeSettingError, parse_settings

NODE = """
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
controller.quorum.voters=1@localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://localhost:9093
"""
print("default", ServerConfig.parse(NODE).metrics.scrapes_max)
config = ServerConfig.parse(NODE + "quorate.metrics.scrapes.max=7")
print("read", config.metrics.scrapes_max)
for line in ("quorate.metrics.scrapes.max=1001", "quorate.metric.scrapes.max=7"):
    try:
        ServerConfig.parse(NODE + line)
    except ServerConfigError as error:
        print("refused", error)
try:
    parse_settings(["quorate.metrics.scrapes.max=0"])
except NodeSettingError as error:
    print("command", error)
broker = SimpleNamespace(config=config, image=MetadataImage())
request = SimpleNamespace(include_synonyms=True, include_documentation=True)
for entry in _entries(broker, 4, "1", request):
    if entry["name"] == "quorate.metrics.scrapes.max":
        print("described", entry["value"], entry["config_source"], entry["config_type"], entry["read_only"])
        print("synonyms", [each["value"] for each in entry["synonyms"]], entry["documentation"])
sys.path.insert(0, "scripts")
import generate_docs

rows = generate_docs.server_keys().splitlines()
print("row", *(row for row in rows if "quorate.metrics.scrapes.max" in row))
'''
"""Run in the copy, it prints what users see of the key."""


def apply(diff: str, to: Path) -> None:
    """Apply a diff of one file, whose lines of context are in it once."""
    (name,) = re.findall(r"^\+\+\+ b/(.+)$", diff, re.MULTILINE)
    lines = [line for line in diff.splitlines() if not line.startswith("+++")]
    before = "\n".join(line[1:] for line in lines if not line.startswith("+"))
    after = "\n".join(line[1:] for line in lines)
    text = (to / name).read_text()
    assert text.count(before) == 1, f"the diff of CONTRIBUTING.md does not fit {name}"
    (to / name).write_text(text.replace(before, after))


def test_the_change_in_contributing_is_all_that_a_setting_needs(tmp_path: Path) -> None:
    for folder in ("quorate", "scripts"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    text = (ROOT / "CONTRIBUTING.md").read_text()
    (diff,) = re.findall(r"^```diff\n(.+?)^```$", text, re.MULTILINE | re.DOTALL)
    apply(diff, tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", TRY],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "default 16",
        "read 7",
        f"refused line 7: {KEY} is '1001'; it must be between 1 and 1000. {DOC}",
        f"refused line 7: quorate.metric.scrapes.max is not a known key; did you mean {KEY}?",
        f"command --config {KEY} is '0'; it must be between 1 and 1000. {DOC}",
        "described 7 4 3 True",
        f"synonyms ['7', '16'] {DOC}",
        f"row | `{KEY}` | int | `16` | {DOC} | Kafka has no such key. |",
    ]


TIMEOUT = int_key("timeout.ms", 1500, "The timeout.", low=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    timeout_s: float = setting(TIMEOUT.into(seconds))


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    name: str = setting(text_key("name", "n", "The name."))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer(Base):
    ROLES = list_key("roles", REQUIRED, "The roles.")
    first: int = setting(int_key("first", 1, "The first.", low=0))
    inner: Inner = nested(Inner)
    timeout_ms: int = shared(TIMEOUT)
    ours: int = 3


def test_a_class_of_settings_has_the_defaults_of_its_keys() -> None:
    assert Outer() == Outer(name="n", first=1, inner=Inner(timeout_s=1.5), timeout_ms=1500, ours=3)


def test_a_class_of_settings_is_read_from_the_texts_of_its_keys() -> None:
    held = read(Outer, {"name": "m", "first": " 2 ", "timeout.ms": "250"})
    assert held == Outer(name="m", first=2, inner=Inner(timeout_s=0.25), timeout_ms=250)


def test_each_key_is_collected_from_the_class_that_declares_it() -> None:
    assert [key.name for key in keys_of(Outer)] == ["roles", "first", "timeout.ms"]
    assert [key.name for key in keys_of(Base)] == ["name"]


@pytest.mark.parametrize(("text", "says"), [("0", "between 1 and"), ("1s", "a whole number")])
def test_a_key_in_another_unit_keeps_its_check(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        TIMEOUT.into(seconds).check(text)
