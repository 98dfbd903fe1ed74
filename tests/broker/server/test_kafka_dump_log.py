"""Kafka's own kafka-dump-log on the files of a node. Needs java and mvn, which fetches Kafka's jars."""

import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from kio.schema.errors import ErrorCode

from quorate.broker.wire.kafka_client import WireClient
from quorate.log.batches.records import build_batch
from tests.broker.server.client_requests import create, produce_request
from tests.broker.server.conftest import Nodes

pytestmark = pytest.mark.slow

DumpLog = Callable[..., subprocess.CompletedProcess[str]]
KAFKA = "4.1.0"
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>quorate</groupId><artifactId>kafka-tools</artifactId><version>1</version><packaging>pom</packaging>
<dependencies><dependency>
<groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{KAFKA}</version>
</dependency></dependencies>
</project>"""
METADATA_LOG = "__cluster_metadata-0/00000000000000000000.log"
FIRST_STAMP_MS = 1_700_000_000_000
MISMATCHES = ("timestamp mismatch", "out of order", "not found in the log", "Mismatches in")


@pytest.fixture(scope="module")
def dump_log(tmp_path_factory: pytest.TempPathFactory) -> DumpLog:
    """`dump_log("--files", path, ...)` runs Kafka's tool."""
    java, maven = shutil.which("java"), shutil.which("mvn")
    if java is None or maven is None:
        pytest.skip("needs java and mvn: apt-get install default-jre-headless maven")
    folder = tmp_path_factory.mktemp("kafka-tools")
    (folder / "pom.xml").write_text(POM)
    classpath = folder / "classpath"
    ask = ["dependency:build-classpath", f"-Dmdep.outputFile={classpath}", "-DincludeScope=runtime"]
    for offline in (["-o"], []):
        fetched = subprocess.run(
            [maven, "-q", "-B", *offline, *ask], cwd=folder, capture_output=True, text=True, check=False
        )
        if fetched.returncode == 0:
            break
    else:
        pytest.skip(f"Kafka's jars could not be fetched: {fetched.stdout[-500:]}")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [java, "-cp", classpath.read_text(), "kafka.tools.DumpLogSegments", *arguments],
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def passes(done: subprocess.CompletedProcess[str]) -> bool:
    """Whether the tool found nothing wrong: it names mismatches and exits 0 all the same."""
    said = done.stdout + done.stderr
    return done.returncode == 0 and not any(each in said for each in MISMATCHES)


async def fill(client: WireClient) -> None:
    """Two segments with sparse indexes, and timestamps that go back and forth."""
    await create(client, segment_bytes="100000", index_interval_bytes="500", timeout_s=10)
    for number in range(400):
        data = build_batch(
            base_offset=0,
            epoch=0,
            timestamp_ms=FIRST_STAMP_MS + number * 100 + (number * 37 % 50) * 10,
            values=[b"x" * 100] * (1 + number % 5),
        )
        produced = (await client.produce(produce_request("t", data)))[0].partitions[0]
        assert produced.error is ErrorCode.none


@pytest.fixture
async def folders(nodes: Nodes, tmp_path: Path) -> tuple[Path, Path]:
    """A node's folder as it was while the node ran, and after its orderly end."""
    async with nodes.client(1) as client:
        with trio.fail_after(60):
            await fill(client)
    running = tmp_path / "running"
    shutil.copytree(tmp_path / "node-1", running)
    await nodes.stop(1)
    return running, tmp_path / "node-1"


async def test_kafkas_dump_log_reads_segments_and_both_indexes(
    dump_log: DumpLog, folders: tuple[Path, Path]
) -> None:
    for folder in folders:
        files = sorted(folder.glob("t-0/*.timeindex")) + sorted(folder.glob("t-0/*.index"))
        assert len(files) == (4 if folder is folders[1] else 2), "the newest is written at a close"
        for file in files:
            for check in ((), ("--verify-index-only",), ("--index-sanity-check",)):
                done = dump_log("--files", str(file), *check)
                assert passes(done), f"{file} {check}: {done.stdout[-1000:]}{done.stderr[-1000:]}"
                assert check != ("--index-sanity-check",) or "passed sanity check" in done.stdout
        segments = ",".join(map(str, sorted(folder.glob("t-0/*.log"))))
        done = dump_log("--files", segments, "--deep-iteration")
        assert passes(done)
        assert done.stdout.count("CreateTime:") >= 1200
    wrong = bytearray((first := sorted(folders[1].glob("t-0/*.timeindex"))[0]).read_bytes())
    struct.pack_into(">i", wrong, 12 * 2 + 8, 7)
    first.write_bytes(wrong)
    assert not passes(dump_log("--files", str(first), "--verify-index-only")), "the tool looks at entries"


async def test_the_metadata_log_of_a_running_node_ends_in_room_that_a_stopped_one_has_not(
    dump_log: DumpLog, folders: tuple[Path, Path]
) -> None:
    """Kafka's tool prints every batch, takes the zeros for a damaged one and exits 1: documented in
    docs/how-to/inspect-a-log.md. After an orderly end nothing is left of them."""
    running, stopped = (dump_log("--files", str(folder / METADATA_LOG)) for folder in folders)
    assert running.returncode == 1
    assert "Found record size 0" in running.stderr
    assert running.stdout.count("baseOffset:") >= 5
    assert passes(stopped)
    assert stopped.stdout.count("baseOffset:") >= running.stdout.count("baseOffset:")
    assert any((folders[1] / METADATA_LOG).read_bytes()[-61:])
