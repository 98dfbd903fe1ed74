"""What a program meets that has a quorum in it: forks, names, types."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from quorate.client import Client
from quorate.quorum_state.meta_properties import load_meta_properties
from quorate.quorum_state.quorum_state_errors import ForeignStateError, MissingStateError
from quorate.raft.quorum import Quorum
from quorate.raft.quorum_config import QuorumConfig
from quorate.raft.quorum_errors import QuorumForkedError
from quorate.runtime import Address
from quorate.types import NodeId
from tests.raft.conftest import Journal

ROOT = Path(__file__).parents[2]


def in_child(look) -> str:
    """The outcome of `look` in a child of this process."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # Of threads that the child won't have: that is what this is about.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            os.write(writer, str(look()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as said:
        return said.read()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize(
    "name", ["append", "append_nowait", "wait_read_index", "wait_leader", "leader", "health", "take_snapshot"]
)
async def test_a_forked_child_is_told_so_at_once(autojump_clock, world, name):
    quorum = await world.start_one()

    def look():
        try:
            getattr(quorum, name)
        except QuorumForkedError as error:
            return error
        return "nothing"

    assert "forked after the quorum was opened" in in_child(look)
    assert (await quorum.append([b"the parent goes on"])).results == (18,)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.bug("kazoo issue 554")
async def test_a_forked_copy_of_a_client_is_told_so_at_once(autojump_clock, world):
    where = Address("node-1", 9099)
    await world.start_one(client_listen=where)
    async with Client.open([where], sessions=False, network=world.network.for_node("outside")) as client:
        await client.append([b"before"])

        def look():
            try:
                client.append([b"in the child"]).send(None)
            except QuorumForkedError as error:
                return error
            return "nothing"

        assert "open another client in this process" in in_child(look)
        await client.append([b"the parent goes on"])
    assert world.journals[1].records == [b"before", b"the parent goes on"]


async def test_messages_name_what_the_embedder_can_change(autojump_clock, world, log_lines):
    with pytest.raises(MissingStateError, match=r"format_folder\(\)"):
        config = QuorumConfig(node_id=NodeId(1), cluster_id="c", folder="nowhere", voters=world.voters)
        await world.start(1)
        async with Quorum.open(config, Journal(), runtime=world.runtime(1)):
            pass
    await world.stop(1)
    for wrong, named in (
        ({"node_id": NodeId(2)}, "Correct node_id, or point folder"),
        ({"cluster_id": "x"}, "folder"),
    ):
        world.overrides.update(wrong)
        with pytest.raises(ForeignStateError) as refused:
            async with Quorum.open(world.config(1), Journal(), runtime=world.runtime(1)):
                pass
        assert named in str(refused.value)
        assert "log.dirs" not in str(refused.value) and "node.id" not in str(refused.value)
        world.overrides.clear()


async def test_a_brokers_reader_is_told_of_its_keys(autojump_clock, world):
    await world.start(1)
    disk = world.runtime(1).disk
    with pytest.raises(ForeignStateError, match=r"Correct node\.id, or point log\.dirs"):
        load_meta_properties(disk, "data").check("data", node_id=9)
    with pytest.raises(MissingStateError, match="`quorate storage format`"):
        load_meta_properties(disk, "nowhere")


PROGRAM = """
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from quorate.raft import CommittedBatch, Quorum, QuorumConfig, SnapshotId, SnapshotLoader


@dataclass
class Answer:
    length: int


class Lengths:
    def apply(self, batch: CommittedBatch) -> Sequence[Answer]:
        return [Answer(len(record)) for record in batch.records]

    def take_snapshot(self) -> Iterator[bytes]:
        return iter([])

    def load_snapshot(self, snapshot: SnapshotId) -> SnapshotLoader:
        raise NotImplementedError


async def main(config: QuorumConfig) -> int:
    async with Quorum.open(config, Lengths()) as quorum:
        appended = await quorum.append([b"x"])
        reveal_type(quorum)
        reveal_type(appended.results[0])
        reveal_type((await quorum.append_nowait([b"x"]).wait()).results)
        return appended.results[0].length
"""


@pytest.mark.slow
def test_pyright_knows_what_a_quorum_returns(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    settings = {"typeCheckingMode": "strict", "include": ["program.py"], "extraPaths": [str(ROOT)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    found = json.loads(done.stdout)["generalDiagnostics"]
    told = [each["message"] for each in found if each["severity"] == "information"]
    assert told == [
        'Type of "quorum" is "Quorum[Answer]"',
        'Type of "appended.results[0]" is "Answer"',
        'Type of "(await quorum.append_nowait([b"x"]).wait()).results" is "tuple[Answer, ...]"',
    ]
    assert [each["message"] for each in found if each["severity"] == "error"] == []
