"""What the Spark suite's table rests on: its ceiling, its account of processor time, and its ratios."""

import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable
from spark import measure
from spark.cases import AVAILABLE_NOW, BATCH, CEILING, FORMAT, LAST_ONES, Figures
from spark.ceiling import CeilingSource, take_sample
from spark.make_log import make_log
from spark.spark_processes import PeakMemory, cpu_seconds

from quorate.spark_source import MetadataLogSource
from quorate.spark_source.java import NoJavaError, find_java

RUN = Path(__file__).parents[2] / "benchmarks" / "run.py"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log") / "node"
    make_log(folder, records=3_000, partitions=200)
    return folder


def read(reader: object, parts: object) -> list[pa.RecordBatch]:
    """As Spark does: in another process."""
    assert isinstance(parts, list)
    copies: Iterator[InputPartition] = map(pickle.loads, map(pickle.dumps, parts))
    other = pickle.loads(pickle.dumps(reader))
    return [batch for part in copies for batch in other.read(part)]


def test_the_ceiling_has_the_columns_of_the_view_and_as_many_rows_as_asked_for(
    log: Path, tmp_path: Path
) -> None:
    source = MetadataLogSource({"path": str(log)})
    sample = take_sample(source, tmp_path / "sample.arrow")
    ceiling = CeilingSource(sample.options(rows=200_000, tasks=3))
    schema = ceiling.schema()
    assert schema == source.schema()
    (first, *_) = source.reader(schema).read(source.reader(schema).partitions()[0])

    batch = ceiling.reader(schema)
    stream = ceiling.streamReader(schema)
    end = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    assert stream.latestOffset(end, ReadAllAvailable()) == end, "AvailableNow ends"
    for reader, parts in (
        (batch, batch.partitions()),
        (stream, stream.partitions(stream.initialOffset(), end)),
    ):
        assert len(parts) == 3
        batches = read(reader, parts)
        assert sum(each.num_rows for each in batches) == 200_000
        assert {each.schema for each in batches} == {first.schema}


def test_a_sample_of_a_source_without_rows_is_refused(tmp_path: Path) -> None:
    make_log(tmp_path / "node", records=1, partitions=1)
    with pytest.raises(ValueError, match="no rows"):
        take_sample(MetadataLogSource({"path": str(tmp_path / "node")}), tmp_path / "sample.arrow")


def figures(source: str, mode: str, *, wall_s: float, view: str = "records") -> Figures:
    return Figures(
        view=view,
        source=source,
        mode=mode,
        master="local[2]",
        log_records=2_000,
        rows=1_000,
        wall_s=wall_s,
        jvm_cpu_s=1.5,
        python_cpu_s=0.5,
        worker_mib=100.0,
    )


def test_the_table_compares_medians_with_the_ceiling_of_the_same_view_and_mode() -> None:
    rounds = [
        *(figures(FORMAT, BATCH, wall_s=wall_s) for wall_s in (2.0, 90.0, 1.0)),
        figures(CEILING, BATCH, wall_s=1.7),
        figures(CEILING, AVAILABLE_NOW, wall_s=0.1),
        figures(CEILING, BATCH, wall_s=0.1, view="decoded"),
        figures(LAST_ONES, BATCH, wall_s=1.1),
        replace(figures("Parquet", BATCH, wall_s=1.0), wall_s=None, rows=None, problem="no disk"),
    ]
    columns = measure.TABLE_COLUMNS
    rows = {row[0]: dict(zip(columns, row, strict=True)) for row in measure.table_rows(rounds)}
    assert list(rows) == [
        "records: ceiling, AvailableNow",
        "records: ceiling, batch",
        "records: quorate, batch",
        "records: quorate, the last 1,000 offsets, batch",
        "decoded: ceiling, batch",
    ]
    ours = rows["records: quorate, batch"]
    assert (ours["s"], ours["rows/s"], ours["log records/s"]) == ("2", "500", "1,000")
    assert (ours["of ceiling"], ours["aim"], ours["met"]) == ("0.85", "0.8", "met")
    assert ours["CPU us/row"] == "2,000"
    last = rows["records: quorate, the last 1,000 offsets, batch"]
    assert (last["of ceiling"], last["aim"], last["met"]) == ("-", "1 s", "missed")


BURN = """
import time
held, end = bytearray(60 << 20), time.process_time() + 0.3
while time.process_time() < end:
    pass
"""
AS_JAVA = """
import subprocess, sys, time
while time.process_time() < 0.15:
    pass
subprocess.run([sys.argv[1], "-c", sys.argv[2]])
print("ended", flush=True)
sys.stdin.read()
"""


@pytest.mark.system
def test_processor_time_of_python_below_java_counts_also_after_it_has_ended(tmp_path: Path) -> None:
    """A process is a JVM by its name. One that is not below a JVM does not count."""
    (tmp_path / "java").symlink_to(sys.executable)
    before = cpu_seconds()
    with PeakMemory() as peak:
        jvm = subprocess.Popen(
            [str(tmp_path / "java"), "-c", AS_JAVA, sys.executable, BURN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        subprocess.run([sys.executable, "-c", BURN], check=True)
        assert jvm.stdout is not None and jvm.stdout.readline(), "its child has ended"
    spent = cpu_seconds().since(before)
    jvm.communicate()
    assert 0.3 <= spent.python < 0.6, spent
    assert 0.1 <= spent.jvm < 0.3, spent
    assert 60 < peak.worker_mib < 120


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.spark
def test_the_suite_measures_a_view_beside_its_bounds(tmp_path: Path) -> None:
    try:
        find_java()
    except NoJavaError as error:
        pytest.skip(str(error))
    file = tmp_path / "spark.json"
    run = [sys.executable, str(RUN), "spark", "--quick", "--records", "3000", "--partitions", "200"]
    done = subprocess.run(
        [*run, "--views", "records", "--folder", str(tmp_path), "--json", str(file)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text())
    rows = {(each["source"], each["mode"]): each["rows"] for each in found["rounds"]}
    wanted = [(source, mode) for source in (CEILING, FORMAT) for mode in (BATCH, AVAILABLE_NOW)]
    assert {*wanted, ("Parquet", BATCH), (LAST_ONES, BATCH)} == rows.keys(), found["notes"]
    assert len({rows[each] for each in wanted}) == 1, rows
    assert all(each["wall_s"] > 0 for each in found["rounds"] if not each["problem"])
