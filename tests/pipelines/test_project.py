"""The files of a project."""

from pathlib import Path

import pytest
from pyspark.pipelines.cli import load_pipeline_spec

from quorate.pipelines.pipeline_errors import PipelineError
from quorate.pipelines.project import (
    DEFAULTS,
    SPEC,
    at_place,
    create_project,
    session_defaults,
    source_settings,
)
from quorate.pipelines.tables import BRONZE, TABLES


def test_spark_reads_the_project_that_is_created(tmp_path: Path) -> None:
    folder = tmp_path / "a project: of mine"
    create_project(folder, {"bootstrapServers": "a:9092,b:9092"}, table_format="delta")
    spec = load_pipeline_spec(folder / SPEC)
    assert spec.name == "a project: of mine"
    assert spec.storage == (folder / "storage").as_uri()
    assert spec.configuration == {
        "spark.quorate.source.bootstrapServers": "a:9092,b:9092",
        "spark.sql.sources.default": "delta",
    }
    assert [each.include for each in spec.libraries] == ["transformations/**/*"]
    compile((folder / "transformations" / "tables.py").read_text(), "tables.py", "exec")


def test_a_run_may_read_the_log_at_another_place() -> None:
    brokers = source_settings({"bootstrapServers": "a:9092", "retries": "3"})
    assert at_place(brokers, {}) == brokers
    assert at_place(brokers, {"path": "/data"}) == source_settings({"path": "/data", "retries": "3"})


def test_the_catalog_and_the_tables_stay_in_the_project(tmp_path: Path) -> None:
    create_project(tmp_path / "history", {"path": "/data"})
    defaults = session_defaults(tmp_path / "history")
    assert defaults["spark.sql.catalogImplementation"] == "hive"
    assert defaults["spark.sql.warehouse.dir"] == (tmp_path / "history" / "tables").as_uri()
    assert str(tmp_path / "history" / "catalog") in defaults["spark.hadoop.javax.jdo.option.ConnectionURL"]
    # Spark sets these in each flow, and refuses settings that a session must know before it starts.
    assert not set(defaults) & set(load_pipeline_spec(tmp_path / "history" / SPEC).configuration)


def test_a_folder_with_files_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    with pytest.raises(PipelineError, match="is not empty; name a new folder"):
        create_project(tmp_path, {})
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]


def test_a_project_without_defaults_has_none(tmp_path: Path) -> None:
    create_project(tmp_path / "history", {})
    (tmp_path / "history" / DEFAULTS).unlink()
    assert session_defaults(tmp_path / "history") == {}


def test_each_table_reads_tables_before_it() -> None:
    known = {*BRONZE}
    for table in TABLES:
        assert set(table.reads) <= known, f"{table.name} reads {table.reads}"
        assert table.comment.endswith("."), f"{table.name}: {table.comment!r} is no sentence"
        known.add(table.name)
