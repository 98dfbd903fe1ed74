"""How-tos whose blocks follow from each other: each page in order, on the cluster that its first starts."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system


@pytest.mark.slow
def test_a_page_does_what_it_says(
    story: str,
    blocks_of: Callable[[str], list[Any]],
    need_programs: Callable[..., None],
    terminals: Any,
    tmp_path: Path,
) -> None:
    """A mark `story, opens a terminal` is of a command that goes on; `story, prints X` has all it prints."""
    need_programs(blocks_of(story))
    addresses: dict[str, str] = {}

    def here(script: str) -> str:
        for documented, address in addresses.items():
            script = script.replace(documented, address)
        return re.sub(r"(\./|/)quorate-data\b", str(tmp_path / "quorate-data"), script)

    ran = 0
    for block in blocks_of(story):
        kind, _, detail = block.mark.partition(", ")
        if kind != "story":
            continue
        ran += 1
        script = here(block.body.strip())
        if detail == "opens a terminal" and script.startswith("quorate cluster start"):
            ready = json.loads(terminals.open(f"{script} --port 0 --json"))
            for at, node in enumerate(ready["nodes"]):
                addresses[f"localhost:{9092 + at}"] = node["client"]
                addresses[f"localhost:{19092 + at}"] = node["controller"]
            addresses["CLUSTER_ID"] = ready["clusterId"]
        elif detail == "opens a terminal":
            assert " listens: " in terminals.open(script)
        else:
            said = terminals.run(script)
            if detail.startswith("prints "):
                assert said.strip() == detail.removeprefix("prints "), block.name
    assert ran >= 3
