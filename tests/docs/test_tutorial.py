"""docs/tutorial.md, every block in its order, on a cluster that the tutorial itself starts."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from documents import SECONDS, TUTORIAL, Terminals, blocks_of

pytestmark = pytest.mark.system

FOREGROUND = "runs until Ctrl-C"


@pytest.mark.slow
def test_the_tutorial_from_its_first_block_to_its_last(
    terminals: Terminals, need_programs: Callable[..., None], tmp_path: Path
) -> None:
    blocks = blocks_of(TUTORIAL)
    need_programs(blocks)
    ports: dict[str, str] = {}

    def here(script: str) -> str:
        for port, address in ports.items():
            script = script.replace(f"localhost:{port}", address)
        # Absolute, so that a path that merely ends like this keeps its processes.
        return re.sub(r"(\./|/)quorate-data\b", str(tmp_path / "quorate-data"), script)

    ran = 0
    for block in blocks:
        script = here(block.body.strip())
        if "installs packages" in block.mark:
            continue
        ran += 1
        if FOREGROUND not in block.mark:
            said = terminals.run(script)
            if block.mark.startswith("prints "):
                assert said.strip() == block.mark.removeprefix("prints ")
        elif script.startswith("quorate cluster start"):
            ready = json.loads(terminals.open(f"{script} --port 0 --json"))
            ports |= {str(9092 + at): node["client"] for at, node in enumerate(ready["nodes"])}
        else:
            assert terminals.open(script).startswith("node 1 of cluster ")
            wait_in_sync(terminals, ports["9093"])
    assert ran == 9
    assert terminals.ctrl_c() == [0, 0]


def wait_in_sync(terminals: Terminals, broker: str) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        (topic,) = json.loads(terminals.run(f"quorate topics describe -t tutorial --json -b {broker}"))
        if all(sorted(partition["isr"]) == [1, 2, 3] for partition in topic["partitions"]):
            return
        assert time.monotonic() < deadline, topic
