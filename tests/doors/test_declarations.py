"""The doors for threads and asyncio beside `quorate.raft`: each public method there is one here."""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

from quorate import aio, blocking, raft
from quorate.raft import Knowledge

ROOT = Path(__file__).parents[2]
TRIO_ONLY = {
    "log": "its reads are awaited on trio",
    "next_offset": "another task's append may take it before the caller hears of it",
    "serve_requests": "its handler runs on trio",
    "serve_callers": "its handler runs on trio",
    "serve_kafka": "its handler runs on trio",
    "request_leader": "the handler that answers it runs on trio",
    "lost_connections": "it is about `request_leader`",
    "read_snapshot": "it reads by plain calls, between which its caller pauses on trio",
}
"""The members of `raft.Quorum` that the doors do not have, each with the reason."""


NOT_CARRIED = {
    "append_nowait": "the object that it returns is in the child",
    **dict.fromkeys(
        (name for name, member in vars(Knowledge).items() if isinstance(member, property)),
        "a property of the child's memory; `ask_health` has most of them",
    ),
    "forked": "its thread has that",
}
"""The members of a door's Quorum that its ChildQuorum does not have, each with the reason."""


def public(of: type) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_")}


@pytest.mark.parametrize("door", [aio, blocking])
def test_a_door_has_the_members_of_rafts_quorum_with_their_signatures_and_docstrings(door) -> None:
    assert public(door.Quorum) == public(raft.Quorum) - TRIO_ONLY.keys()
    assert public(door.PendingAppend) == public(raft.PendingAppend)
    for name in public(door.Quorum) - {"open", "append_nowait", "leadership_changes", "while_leading"}:
        ours, declared = getattr(door.Quorum, name), getattr(raft.Quorum, name)
        assert inspect.getdoc(ours) == inspect.getdoc(declared), name
        if callable(declared):
            assert inspect.signature(ours) == inspect.signature(declared), name
    for name in ("open", "append_nowait"):
        ours, declared = getattr(door.Quorum, name), getattr(raft.Quorum, name)
        assert (
            str(inspect.signature(ours)).partition(" ->")[0]
            == str(inspect.signature(declared)).partition(" ->")[0]
        )


@pytest.mark.parametrize("door", [aio, blocking])
def test_a_quorum_in_a_child_process_has_the_calls_of_one_in_this(door) -> None:
    assert public(door.ChildQuorum) == (public(door.Quorum) - NOT_CARRIED.keys()) | {"ask_health"}
    for name in public(door.ChildQuorum) - {"open", "ask_health"}:
        ours, declared = (inspect.signature(getattr(of, name)) for of in (door.ChildQuorum, door.Quorum))
        assert ours.parameters.keys() == declared.parameters.keys(), name
        if name not in ("append", "read", "serve_reads"):
            assert ours == declared, name


@pytest.mark.parametrize("door", [aio, blocking])
def test_every_method_of_asyncios_door_is_awaited_and_none_of_that_for_threads(door) -> None:
    methods = {name for name in public(door.Quorum) if callable(getattr(door.Quorum, name))}
    methods -= {"open", "forked", "leadership_changes", "while_leading"}
    awaited = {name for name in methods if inspect.iscoroutinefunction(getattr(door.Quorum, name))}
    assert awaited == (methods if door is aio else set())


PROGRAM = """
from collections.abc import Sequence
from dataclasses import dataclass

from quorate import aio, blocking
from quorate.raft import CommittedBatch, NodeId, QuorumConfig


@dataclass
class Answer:
    length: int


@dataclass
class Lengths:
    longest: int = 0

    def apply(self, batch: CommittedBatch) -> Sequence[Answer]:
        return [Answer(len(record)) for record in batch.records]


def longest(lengths: Lengths) -> Answer:
    return Answer(lengths.longest)


class NotADataclass:
    def apply(self, batch: CommittedBatch) -> Sequence[Answer]:
        return []


async def main(config: QuorumConfig) -> None:
    await aio.format_folder("f", cluster_id="c", node_id=NodeId(1))
    async with aio.Quorum.open(config, Lengths()) as quorum:
        reveal_type(quorum)
        reveal_type((await quorum.append([b"x"], timeout_ms=1)).results[0])
        reveal_type((await (await quorum.append_nowait([b"x"])).wait()).results[0])
        reveal_type(await quorum.wait_leader())
        reveal_type(await quorum.read(lambda: Answer(1)))
        async with quorum.while_leading() as epoch:
            reveal_type(epoch)
        async for leadership in quorum.leadership_changes():
            reveal_type(leadership)
    async with aio.ChildQuorum.open(config, Lengths) as child:
        reveal_type(child)
        reveal_type(await child.read(longest))


def threads(config: QuorumConfig) -> None:
    blocking.format_folder("f", cluster_id="c", node_id=NodeId(1))
    with blocking.Quorum.open(config, Lengths()) as quorum:
        reveal_type(quorum)
        reveal_type(quorum.append([b"x"], timeout_ms=1).results[0])
        reveal_type(quorum.append_nowait([b"x"]).wait().results[0])
        reveal_type(quorum.wait_leader())
        reveal_type(quorum.read(lambda: Answer(1)))
        with quorum.while_leading() as leading:
            reveal_type(leading.epoch)
        for leadership in quorum.leadership_changes():
            reveal_type(leadership)
    with blocking.ChildQuorum.open(config, Lengths) as child:
        reveal_type(child)
        reveal_type(child.read(longest))
"""
WRONG = """
        child.append(3)
        child.read(len)
        child.transfer_leadership("2")
        quorum.append(3)
        quorum.append([b"x"], timeout=1)
        quorum.transfer_leadership("2")
    blocking.Quorum.open(config, NotADataclass())
"""
TYPES = ["Quorum[Answer]", "Answer", "Answer", "NodeId", "Answer", "Epoch", "Leadership"]
TYPES += ["ChildQuorum[Lengths]", "Answer"]


@pytest.mark.slow
def test_pyright_knows_the_types_of_both_doors(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM + WRONG)
    settings = {"typeCheckingMode": "strict", "include": ["program.py"], "extraPaths": [str(ROOT)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    found = json.loads(done.stdout)["generalDiagnostics"]
    told = [each["message"] for each in found if each["severity"] == "information"]
    assert [each.rpartition(' is "')[2].rstrip('"') for each in told] == TYPES * 2
    errors = [each["message"] for each in found if each["severity"] == "error"]
    assert len(errors) == 7, errors


@pytest.mark.slow
def test_mypy_knows_the_types_of_both_doors(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM + WRONG)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-incremental", str(tmp_path / "program.py")],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    told = [line for line in done.stdout.splitlines() if "Revealed type" in line]
    assert [line.rpartition('"')[0].rpartition(".")[2].rstrip("]") for line in told] == [
        each.rpartition("[")[2].rstrip("]") for each in TYPES
    ] * 2
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 7, errors
