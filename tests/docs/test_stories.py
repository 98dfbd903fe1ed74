"""The pages whose blocks follow from each other, in order, on a cluster of their own."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from documents import BLOCKS, STORY, Terminals, blocks_of, write_files_of

pytestmark = pytest.mark.system
STORIES = sorted({block.file.name for block in BLOCKS if block.mark.startswith(STORY)})


@pytest.mark.slow
@pytest.mark.timeout(1800)  # Pages with pipelines start Spark again and again.
@pytest.mark.parametrize("story", STORIES)
def test_a_page_does_what_it_says(
    story: str, need_programs: Callable[..., None], terminals: Terminals, tmp_path: Path
) -> None:
    """A mark `story, opens a terminal` is of a command that goes on, and `story, opens the terminal that has
    ended` of its repetition. `story, prints X` has all that a command prints."""
    need_programs(blocks_of(story))
    write_files_of(story, tmp_path)
    addresses: dict[str, str] = {}
    write_files_of(story, tmp_path, own_ports=True)

    def here(script: str) -> str:
        for documented, address in addresses.items():
            script = script.replace(documented, address)
        return re.sub(r"(\./|/)quorate-data\b", str(tmp_path / "quorate-data"), script)

    ran = 0
    for block in blocks_of(story):
        kind, _, detail = block.mark.partition(", ")
        if kind != STORY:
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
            said = terminals.open(script)
            assert " listens: " in said if script.startswith("quorate") else said, block.name
        elif detail == "opens the terminal that has ended":
            assert terminals.reopen(), block.name
        else:
            said = terminals.run(script)
            if detail.startswith("prints "):
                assert said.strip() == detail.removeprefix("prints "), block.name
    assert ran >= 3
