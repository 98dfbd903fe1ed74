"""Files that are damaged, or made to harm: each command ends with one line that says what and where.

Damage is drawn: flipped bits and other bytes, hostile values in a batch's header or records under a CRC that
fits, hostile numbers in text, parts that are cut out, doubled or zeroed. Whatever it is, there is one line of
printable text, and no stack trace.
"""

import re
import shutil
import struct
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from crc32c import crc32c
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorate.broker.metadata.metadata_records import Topic
from quorate.broker.metadata.record_codec import encode
from quorate.cli.console.cli_errors import ExitCode
from quorate.cli.node.free_ports import free_ports
from quorate.log.batches.batch import CRC_START, HEADER, HEADER_BYTES, LENGTH_END
from quorate.log.batches.records import RecordContent, build_keyed_batch
from quorate.raft import (
    CommittedBatch,
    Endpoint,
    NodeId,
    Quorum,
    QuorumConfig,
    ReplicaKey,
    SnapshotId,
    SnapshotLoader,
    Voter,
    VoterSet,
    format_folder,
)
from quorate.runtime.real import SyncStrategy, real_runtime
from tests.cli.command import Quorate

METADATA = "__cluster_metadata-0"
SKIPPED = f"{METADATA}/skipped-batches"
PARTITION = "orders-0/00000000000000000000.log"
EXAMPLES = settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
PLACE = re.compile(r"\bbyte \d+|\bat offset \d+|\brecord at offset \d+")
NUMBERS = (0, 1, -1, 2, 7, 127, 128, 2**15 - 1, 2**16, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63))
_HEADER_FIELDS = "qiibIhiqqqhii"
_CRC_FIELD = 4


class Topics:
    """A state machine that decodes the records and keeps none."""

    def apply(self, batch: CommittedBatch) -> list[None]:
        return [None] * len(batch.records)

    def take_snapshot(self) -> Iterator[bytes]:
        return iter([topic(0), topic(1)])

    def load_snapshot(self, snapshot: SnapshotId) -> SnapshotLoader:
        raise AssertionError("nothing starts here")


def topic(number: int) -> bytes:
    return encode(Topic(name=f"topic-{number}", topic_id=uuid.UUID(int=number + 1)))


async def write(folder: Path) -> None:
    runtime = real_runtime(sync=SyncStrategy.INLINE)
    voters = VoterSet((Voter(ReplicaKey(NodeId(1)), Endpoint("127.0.0.1", free_ports(1)[0])),))
    await format_folder(runtime, str(folder), cluster_id="c", node_id=NodeId(1), voters=voters)
    config = QuorumConfig(node_id=NodeId(1), cluster_id="c", folder=str(folder))
    async with Quorum.open(config, Topics(), runtime=runtime) as quorum:
        await quorum.wait_leader()
        await quorum.append([topic(0), topic(1)])
        await quorum.take_snapshot()
        for number in range(2, 6):
            await quorum.append([topic(number)] * number)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a stopped node with a snapshot, and a partition beside its metadata log."""
    folder = tmp_path_factory.mktemp("whole") / "data"
    trio.run(write, folder)
    (folder / "orders-0").mkdir()
    batches = [
        build_keyed_batch(
            base_offset=10 * number,
            epoch=number,
            timestamp_ms=1_700_000_000_000,
            records=[RecordContent(key=b"k", value=b"v" * size) for size in range(10)],
        )
        for number in range(4)
    ]
    (folder / PARTITION).write_bytes(b"".join(batches))
    return folder


def files_of(folder: Path) -> list[str]:
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file())


def is_of_batches(name: str) -> bool:
    return name.endswith((".log", ".checkpoint"))


@st.composite
def damaged(draw: st.DrawFn, data: bytes, *, batches: bool) -> bytes:
    """Return `data` after one to three kinds of damage."""
    spoiled = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        kinds = ["flip", "bytes", "cut", "drop", "double", "zeros", "grow"]
        kinds += ["header", "records"] * 3 if batches else ["number"] * 3
        _spoil(draw, spoiled, draw(st.sampled_from(kinds)))
    return bytes(spoiled)


def _spoil(draw: st.DrawFn, data: bytearray, kind: str) -> None:
    size = len(data)
    at = draw(st.integers(0, max(size - 1, 0)))
    length = draw(st.integers(0, min(size - at, 64)))
    match kind:
        case "flip" if size:
            data[at] ^= 1 << draw(st.integers(0, 7))
        case "bytes":
            data[at : at + length] = draw(st.binary(min_size=length, max_size=length))
        case "cut":
            del data[at:]
        case "drop":
            del data[at : at + length]
        case "double":
            data[at:at] = data[at : at + length]
        case "zeros":
            data[at : at + length] = bytes(length)
        case "grow":
            data += draw(st.binary(max_size=100))
        case "header" | "records":
            _spoil_batch(draw, data, in_header=kind == "header")
        case "number":
            found = [*re.finditer(rb"\d+", data)]
            if found:
                number = draw(st.sampled_from(found))
                hostile = ["", "-1", "1e9", "x", "9" * 20, "9" * 5000, "٣", "null", '{"a":[]}', "\0\x1b[2J"]
                hostile.append("[" * 100_000)
                data[slice(*number.span())] = draw(st.sampled_from(hostile)).encode()


def _spoil_batch(draw: st.DrawFn, data: bytearray, *, in_header: bool) -> None:
    """Damage a batch's fields and make its CRC fit, as any writer of the file could."""
    starts, position = [], 0
    while position + HEADER_BYTES <= len(data):
        length = int.from_bytes(data[position + 8 : position + 12], "big", signed=True) + LENGTH_END
        if length < HEADER_BYTES or position + length > len(data):
            break
        starts.append((position, length))
        position += length
    if not starts:
        return
    start, length = draw(st.sampled_from(starts))
    if in_header:
        fields = list(HEADER.unpack_from(data, start))
        number = draw(st.integers(0, len(fields) - 1))
        if number == _CRC_FIELD:
            return
        form = ">" + _HEADER_FIELDS[number]
        value = draw(st.sampled_from(NUMBERS)) % 256 ** struct.calcsize(form)
        place = start + struct.calcsize(">" + _HEADER_FIELDS[:number])
        data[place : place + struct.calcsize(form)] = value.to_bytes(struct.calcsize(form), "big")
    else:
        for _ in range(draw(st.integers(1, 3))):
            body = start + HEADER_BYTES
            if length > HEADER_BYTES:
                place = draw(st.integers(body, start + length - 1))
                data[place] = draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF, 0x9B, 0x5F, 0xBF, 0xC2, 0xFB]))
    crc = crc32c(memoryview(data)[start + CRC_START : start + length])
    data[start + 17 : start + 21] = crc.to_bytes(4, "big")


def outcome(*arguments: object) -> str:
    """Return the message of a command that ends in error. It is empty if the command succeeds."""
    ended = Quorate()(*arguments)
    assert ended.exception is None or isinstance(ended.exception, SystemExit), repr(ended.exception)
    assert ended.exit_code in (ExitCode.OK, ExitCode.FAILED, ExitCode.STORAGE), ended.stderr
    if ended.exit_code == ExitCode.OK:
        return ""
    said = ended.stderr
    assert "Traceback" not in said
    assert len(said) < 1500, "more than anybody reads"
    assert said.startswith("quorate: ") and said.endswith("\n") and said[:-1].isprintable(), said
    return said


def batch_files() -> list[str]:
    return [PARTITION, f"{METADATA}/{0:020}.log", "snapshot"]


def named(whole: Path, name: str) -> str:
    if name != "snapshot":
        return name
    return max(each for each in files_of(whole) if each.endswith(".checkpoint"))


@pytest.mark.slow
@pytest.mark.parametrize("name", batch_files())
@EXAMPLES
@given(draw=st.data())
def test_a_hostile_file_of_batches_is_dumped_up_to_where_it_is_damaged(
    whole: Path, name: str, draw: st.DataObject
) -> None:
    relative = named(whole, name)
    command = "snapshot" if relative.endswith(".checkpoint") else "log"
    with tempfile.TemporaryDirectory() as home:
        file = Path(home) / relative
        file.parent.mkdir(parents=True)
        file.write_bytes(draw.draw(damaged((whole / relative).read_bytes(), batches=True)))
        options = draw.draw(st.sampled_from([(), ("--json",), ("--no-records",)]))
        said = outcome(command, "dump", file, *options)
        if said:
            assert str(file) in said
            assert PLACE.search(said) or "its end is missing" in said, said


@pytest.mark.slow
@settings(EXAMPLES)
@given(draw=st.data())
def test_a_node_with_a_hostile_file_says_which_and_opens_or_refuses(whole: Path, draw: st.DataObject) -> None:
    """`log skip` opens the folder as a node does. What it leaves is as good as what it found."""
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "data"
        shutil.copytree(whole, folder)
        (folder / SKIPPED).write_text('{"version": 1, "skipped": [{"offset": 9, "epoch": 1}]}')
        names = [each for each in files_of(folder) if not each.startswith("orders") and ".lock" not in each]
        name = draw.draw(st.sampled_from(names))
        file = folder / name
        file.write_bytes(draw.draw(damaged(file.read_bytes(), batches=is_of_batches(name))))
        said = outcome("log", "skip", folder, "--offset", 7, "--epoch", 1)
        if said:
            assert str(folder) in said or "offset" in said, said
        again = outcome("log", "skip", folder, "--offset", 7, "--epoch", 1)
        assert bool(again) == bool(said), (said, again)
        listed = outcome("snapshot", "list", folder)
        if listed:
            assert str(folder) in listed and PLACE.search(listed), listed


def meta(**changes: str) -> bytes:
    fields = {"version": "1", "cluster.id": "c", "node.id": "1", "directory.id": "A" * 22, **changes}
    return "".join(f"{key}={value}\n" for key, value in fields.items()).encode()


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("meta.properties", meta(**{"node.id": "9" * 5000}), "node.id"),
        ("meta.properties", meta(**{"node.id": str(2**31)}), "node.id"),
        ("meta.properties", meta(version="9" * 5000), "version"),
        ("meta.properties", meta(version="\x1b[2J"), r"version is \x1b[2J"),
        (f"{METADATA}/quorum-state", b"[" * 100_000, "not valid JSON"),
        (f"{METADATA}/quorum-state", b'{"data_version": %s}' % (b"9" * 5000), "not valid JSON"),
        (SKIPPED, b"[" * 100_000, "can't be read"),
        (f"{METADATA}/recovery-point-offset-checkpoint", b"0\n1\n%s 0 %s\n" % (b"m", b"9" * 5000), "is not"),
    ],
)
def test_a_hostile_identity_or_checkpoint_is_named_in_one_line(
    whole: Path, tmp_path: Path, name: str, content: bytes, told: str
) -> None:
    folder = tmp_path / "data"
    shutil.copytree(whole, folder)
    (folder / name).write_bytes(content)
    said = outcome("log", "skip", folder, "--offset", 7, "--epoch", 1)
    assert str(folder / name) in said and told in said


def test_undamaged_files_are_read_without_a_word(whole: Path, tmp_path: Path) -> None:
    for name in batch_files():
        relative = named(whole, name)
        command = "snapshot" if relative.endswith(".checkpoint") else "log"
        assert outcome(command, "dump", whole / relative) == ""
    folder = tmp_path / "data"
    shutil.copytree(whole, folder)
    assert outcome("snapshot", "list", folder) == ""
    assert outcome("log", "skip", folder, "--offset", 7, "--epoch", 1) == ""
