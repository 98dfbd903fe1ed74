"""A log whose beginning is in a snapshot: state, changes and records from it, time travel, and streams whose
place is gone. The nodes' own image, as `quorate metadata at` replays it, says what is right."""

import json
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metadata_folder import T0, MetadataFolder, story_folder
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from quorate.broker.metadata.metadata_records import Config, ConfigType
from quorate.broker.metadata.record_codec import decode
from quorate.cli.images.replay import Moment, Replay, ReplayError
from quorate.history import FolderLog
from quorate.history import folder as folder_module
from quorate.spark_source import MetadataLogSource, chunks
from quorate.spark_source.changes import feed as feed_module
from quorate.spark_source.changes.entities import Entity
from quorate.spark_source.spark_errors import DataLossError, OptionError
from quorate.spark_source.stream_reader import MetadataStreamReader
from tests.kit.metadata_histories import HistoryMaker
from tests.spark_source.conftest import in_order, read_rows
from tests.spark_source.metadata_states import METADATA, State, by_key, fold, key_of, state_in

BEFORE = 12
"""An end of the story's records before its first transaction."""
FEED = {"readChangeFeed": True}
VIEWS = {entity: f"{entity.value}s" for entity in METADATA}


def trimmed(path: Path, start: int = BEFORE, *snapshots: int) -> MetadataFolder:
    """The story, of which the log has what is from `start` on, and snapshots the rest."""
    folder = story_folder(path)
    folder.write(start=start)
    for end in snapshots or (start,):
        folder.snapshot(end)
    return folder


def state_at(folder: MetadataFolder, **options: object) -> State:
    return {
        entity: by_key(entity, read_rows(path=folder.path, view=view, **options))
        for entity, view in VIEWS.items()
    }


def stream(folder: MetadataFolder, **options: object) -> MetadataStreamReader:
    given = {"path": folder.path, "view": "changes", "startingOffsets": "earliest"} | options
    source = MetadataLogSource({name: str(value) for name, value in given.items()})
    return source.streamReader(source.schema())


def stored(position: Any) -> Any:
    """Through Spark's checkpoint."""
    return json.loads(json.dumps(position))


def run(
    folder: MetadataFolder, position: Any = None, *, limit: Callable[[], int] | None = None, **options: object
) -> tuple[list[dict[str, Any]], Any]:
    """All batches there are: their rows, and the last position."""
    reader = stream(folder, **options)
    position = stored(reader.initialOffset()) if position is None else position
    rows: list[dict[str, Any]] = []
    while True:
        bound = ReadAllAvailable() if limit is None else ReadMaxRows(limit())
        end = stored(reader.latestOffset(position, bound))
        if end == position:
            return rows, position
        rows += in_order(rows_of(reader, position, end))
        position = end


def rows_of(reader: MetadataStreamReader, start: Any, end: Any) -> list[dict[str, Any]]:
    parts = [pickle.loads(pickle.dumps(part)) for part in reader.partitions(start, end)]
    return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


def folded(rows: list[dict[str, Any]]) -> State:
    state: State = {entity: {} for entity in METADATA}
    fold(rows, state)
    return state


# Batches


def test_records_from_the_earliest_begin_with_those_of_the_snapshot(tmp_path: Path) -> None:
    folder = trimmed(tmp_path / "node")
    rows = read_rows(path=folder.path)
    held = [row for row in rows if row["snapshot"]]
    assert [decode(row["value"]) for row in held] == list(folder.loader_at(BEFORE).records())
    places = {(row["offset"], row["epoch"], row["batchOffset"], row["timestamp"].timestamp()) for row in held}
    assert places == {(BEFORE - 1, 1, None, folder.time_of(BEFORE - 1) / 1000)}
    assert [row["offset"] for row in rows if not row["snapshot"]] == list(range(BEFORE, folder.end))
    decoded = [row["type"] for row in read_rows(path=folder.path, view="decoded") if row["snapshot"]]
    assert sorted(decoded) == sorted(type(each).__name__ for each in folder.loader_at(BEFORE).records())


def test_changes_from_the_earliest_begin_with_the_state_as_inserts(tmp_path: Path) -> None:
    folder = trimmed(tmp_path / "node")
    rows = in_order(read_rows(path=folder.path, view="changes"))
    held = [row for row in rows if row["snapshot"]]
    assert {(row["_change_type"], row["offset"], row["batch_offset"]) for row in held} == {
        ("insert", BEFORE - 1, None)
    }
    assert len({row["row"] for row in held}) == len(held)
    assert folded(held) == state_in(folder.loader_at(BEFORE).image)
    assert folded(rows) == state_in(folder.loader_at(folder.end).image)
    (quorum,) = [row["quorum"] for row in held if row["entity"] == "quorum"]
    assert (quorum["leader"], quorum["leader_epoch"]) == (1, 1)
    assert [voter["id"] for voter in quorum["voters"]] == [1]
    for entity, view in VIEWS.items():
        own = in_order(read_rows(path=folder.path, view=view, **FEED))
        assert [row["_change_type"] for row in own] == [
            row["_change_type"] for row in rows if row["entity"] == entity.value
        ]


def test_a_start_time_that_records_in_the_snapshot_may_have_begins_with_the_snapshot(tmp_path: Path) -> None:
    folder = trimmed(tmp_path / "node")
    earliest = in_order(read_rows(path=folder.path, view="changes"))
    for time_ms in (T0, folder.time_of(BEFORE - 1)):
        assert in_order(read_rows(path=folder.path, view="changes", startingTimestamp=time_ms)) == earliest
    since = read_rows(path=folder.path, view="changes", startingTimestamp=folder.time_of(BEFORE - 1) + 1)
    assert in_order(since) == [row for row in earliest if not row["snapshot"]]


@pytest.mark.slow
def test_the_state_of_a_moment_is_the_same_with_and_without_the_beginning(tmp_path: Path) -> None:
    whole = story_folder(tmp_path / "whole")
    whole.write()
    short = trimmed(tmp_path / "short")
    for offset in range(BEFORE - 1, whole.end):
        assert state_at(short, versionAsOf=offset) == state_at(whole, versionAsOf=offset), offset
    assert state_at(short) == state_at(whole) == state_in(whole.loader_at(whole.end).image)


def test_a_moment_before_what_is_kept_is_refused_with_the_earliest(tmp_path: Path) -> None:
    folder = trimmed(tmp_path / "node")
    with pytest.raises(OptionError, match=f"versionAsOf is 5, .* {BEFORE - 1}, which is the earliest"):
        read_rows(path=folder.path, view="topics", versionAsOf=5)
    with pytest.raises(OptionError, match=f"the earliest is versionAsOf={BEFORE - 1}"):
        read_rows(path=folder.path, view="topics", timestampAsOf=T0 + 1)
    with pytest.raises(OptionError, match=f"the last that is committed .* is {folder.end - 1}"):
        read_rows(path=folder.path, view="topics", versionAsOf=folder.end)
    assert state_at(folder, timestampAsOf=folder.time_of(BEFORE - 1)) == state_in(
        folder.loader_at(BEFORE).image
    )


def test_an_end_before_what_is_kept_is_refused(tmp_path: Path) -> None:
    """The rows of the snapshot were given, which are later."""
    folder = trimmed(tmp_path / "node")
    for view in ("records", "changes"):
        with pytest.raises(OptionError, match=f"the end, offset 8, .* was before {BEFORE}"):
            read_rows(path=folder.path, view=view, endingOffsets=8)
        only = read_rows(path=folder.path, view=view, endingOffsets=BEFORE)
        assert {row["snapshot"] for row in only} == {True}


def test_a_start_in_a_snapshot_is_refused_or_begins_with_it(tmp_path: Path) -> None:
    folder = trimmed(tmp_path / "node")
    for view in ("records", "changes"):
        with pytest.raises(DataLossError, match=f"offset 5 is gone, the log starts at {BEFORE}"):
            read_rows(path=folder.path, view=view, startingOffsets=5)
        rows = read_rows(path=folder.path, view=view, startingOffsets=5, failOnDataLoss=False)
        assert rows == read_rows(path=folder.path, view=view)


def test_a_damaged_snapshot_is_passed_over_for_an_earlier_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = trimmed(tmp_path / "node", BEFORE, BEFORE, 16)
    file = folder.home / f"{16:020}-{1:010}.checkpoint"
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2] ^= 4
    file.write_bytes(damaged)
    assert state_at(folder) == state_in(folder.loader_at(folder.end).image)
    assert file.name in caplog.text


@pytest.mark.parametrize("tasks", [1, 2, 5])
def test_any_number_of_tasks_has_the_same_rows_and_those_of_a_thing_in_order(
    tmp_path: Path, tasks: int
) -> None:
    folder = trimmed(tmp_path / "node")
    source = MetadataLogSource({"path": str(folder.path), "view": "changes", "minPartitions": str(tasks)})
    reader = source.reader(source.schema())
    parts = reader.partitions()
    assert len(parts) == tasks
    rows = []
    for part in parts:
        places: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for row in [row for batch in reader.read(part) for row in batch.to_pylist()]:
            kind = row["entity"]
            thing = kind, "" if kind == "quorum" else key_of(Entity(kind), row[kind])
            places.setdefault(thing, []).append((row["offset"], row["row"]))
            rows.append(row)
        assert places == {thing: sorted(of) for thing, of in places.items()}
    assert in_order(rows) == in_order(read_rows(path=folder.path, view="changes"))


# Any history


def drawn_folder(path: Path, draw: random.Random, count: int) -> MetadataFolder:
    """A history in batches, with snapshots where no transaction is open, of which the log may lack what the
    earliest has."""
    folder = MetadataFolder(path)
    folder.append()
    maker = HistoryMaker(draw)
    calm = [folder.end]
    while folder.end < count:
        if draw.random() < 0.05:
            folder.append()
        folder.append(*[maker.next() for _ in range(draw.randint(1, 6))])
        if not folder.loader_at(folder.end).in_transaction:
            calm.append(folder.end)
    ends = sorted(draw.sample(calm, min(len(calm), draw.randint(0, 3))))
    folder.write(start=ends[0] if ends and draw.random() < 0.7 else 0)
    for end in ends:
        folder.snapshot(end)
    return folder


@pytest.mark.slow
@settings(max_examples=20)
@given(seed=st.integers(0, 1 << 32))
def test_the_state_at_any_moment_is_that_of_the_replayed_image(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    draw = random.Random(seed)
    folder = drawn_folder(tmp_path_factory.mktemp("history"), draw, 80)
    moments: list[tuple[Moment, dict[str, object]]] = [(Moment(), {})]
    for _ in range(2):
        offset = draw.randrange(folder.end)
        moments.append((Moment(last_offset=offset), {"versionAsOf": offset}))
        at = folder.time_of(draw.randrange(folder.end)) + draw.choice([-1, 0, 1])
        moments.append((Moment(timestamp_ms=at), {"timestampAsOf": at}))
    for moment, options in moments:
        replay = Replay(FolderLog(path=str(folder.path)), warn=pytest.fail)
        try:
            replay.move_to(moment)
        except ReplayError:
            with pytest.raises(OptionError, match="earliest"):
                state_at(folder, **options)
            continue
        assert state_at(folder, **options) == state_in(replay.image), f"at {moment}"


@pytest.mark.slow
@settings(max_examples=20)
@given(seed=st.integers(0, 1 << 32))
def test_changes_in_a_batch_and_in_a_stream_lead_to_the_image(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    draw = random.Random(seed)
    folder = drawn_folder(tmp_path_factory.mktemp("history"), draw, 80)
    wanted = state_in(folder.loader_at(folder.end).image)
    batch = in_order(read_rows(path=folder.path, view="changes"))
    assert folded(batch) == wanted
    tasks = draw.randint(1, 4)
    rows, _ = run(folder, limit=lambda: draw.randint(1, 30), minPartitions=tasks)
    assert in_order(rows) == batch
    assert in_order(read_rows(path=folder.path, view="changes", minPartitions=tasks)) == batch


# Streams


def test_a_stream_whose_place_is_in_a_snapshot_fails_and_names_both(tmp_path: Path) -> None:
    whole = story_folder(tmp_path / "whole")
    whole.write()
    reader = stream(whole)
    place = stored(reader.latestOffset(stored(reader.initialOffset()), ReadMaxRows(5)))
    short = trimmed(tmp_path / "short")
    with pytest.raises(
        DataLossError,
        match=f"offset 5 is gone, the log starts at {BEFORE}.*failOnDataLoss=false to start over",
    ):
        stream(short).latestOffset(place, ReadAllAvailable())


@pytest.mark.parametrize("tasks", [1, 3])
def test_with_tolerated_loss_it_starts_over_from_the_snapshot_after_a_row_that_says_so(
    tmp_path: Path, tasks: int
) -> None:
    whole = story_folder(tmp_path / "whole")
    whole.write()
    reader = stream(whole)
    start = stored(reader.initialOffset())
    place = stored(reader.latestOffset(start, ReadMaxRows(5)))
    first = rows_of(reader, start, place)
    short = trimmed(tmp_path / "short")
    rows, _ = run(short, place, limit=lambda: 2, failOnDataLoss=False, minPartitions=tasks)
    (marker,) = [row for row in rows if row["_change_type"] == "snapshot"]
    assert (rows[0], marker["offset"], marker["entity"]) == (marker, BEFORE - 1, None)
    assert rows[1:] == in_order(read_rows(path=short.path, view="changes"))
    assert folded(in_order(first) + rows) == state_in(whole.loader_at(whole.end).image)


def test_a_stream_that_stands_where_the_log_begins_now_goes_on(tmp_path: Path) -> None:
    whole = story_folder(tmp_path / "whole")
    whole.write()
    reader = stream(whole)
    place = stored(reader.latestOffset(stored(reader.initialOffset()), ReadMaxRows(BEFORE)))
    rows, end = run(trimmed(tmp_path / "short"), place)
    assert rows == in_order(read_rows(path=whole.path, view="changes", startingOffsets=BEFORE))
    assert rows[0]["offset"] >= BEFORE
    # It is idle, and the whole log goes into a snapshot.
    empty = trimmed(tmp_path / "empty", whole.end)
    assert run(empty, end) == ([], end)
    empty.append(Config(resource_type=ConfigType.TOPIC, resource_name="orders", name="k", value="1"))
    empty.write()
    rows, _ = run(empty, end)
    assert [(row["offset"], row["_change_type"]) for row in rows] == [(whole.end, "insert")]


@pytest.mark.parametrize("view", ["changes", "records"])
def test_a_stream_between_the_logs_start_and_its_oldest_snapshot(tmp_path: Path, view: str) -> None:
    """A segment may begin before the snapshot: of the records the stream misses none, but the state before
    them is gone."""
    whole = story_folder(tmp_path / "whole")
    whole.write()
    reader = stream(whole, view=view)
    # The leader's first record makes a row of changes only.
    place = stored(
        reader.latestOffset(stored(reader.initialOffset()), ReadMaxRows(9 if view == "records" else 10))
    )
    assert place["offset"] == 10
    short = trimmed(tmp_path / "short", 9, BEFORE)
    if view == "records":
        reader = stream(short, view=view)
        rows = rows_of(reader, place, reader.latestOffset(place, ReadAllAvailable()))
        assert [row["offset"] for row in rows] == list(range(10, whole.end))
        return
    with pytest.raises(DataLossError, match="the state at offset 10 is gone, the log starts at 9"):
        stream(short).latestOffset(place, ReadAllAvailable())
    rows, _ = run(short, place, failOnDataLoss=False)
    assert rows[0]["_change_type"] == "snapshot"
    assert folded(rows) == state_in(whole.loader_at(whole.end).image)


def test_a_batch_whose_snapshot_was_deleted_meanwhile_can_not_be_had_again(tmp_path: Path) -> None:
    folder = trimmed(tmp_path / "node", BEFORE, BEFORE, 16)
    for tolerant in (False, True):
        reader = stream(folder, failOnDataLoss=not tolerant)
        start = stored(reader.initialOffset())
        end = stored(reader.latestOffset(start, ReadMaxRows(3)))
        assert end["opening"] == f"{BEFORE:020}-{1:010}.checkpoint"
        assert reader.partitions(start, end)
        file = folder.home / f"{BEFORE:020}-{1:010}.checkpoint"
        kept = file.read_bytes()
        file.unlink()
        with pytest.raises(DataLossError, match=f"the snapshot at {BEFORE}, .* is gone.*new checkpoint"):
            stream(folder, failOnDataLoss=not tolerant).partitions(start, end)
        file.write_bytes(kept)


def test_a_batch_from_the_beginning_is_not_planned_again_without_it(tmp_path: Path) -> None:
    """What the log had lost was left out, without a word."""
    whole = story_folder(tmp_path / "whole")
    whole.write()
    reader = stream(whole)
    start = stored(reader.initialOffset())
    end = stored(reader.latestOffset(start, ReadMaxRows(20)))
    short = trimmed(tmp_path / "short")
    with pytest.raises(DataLossError, match=f"from the log's beginning, and the log starts at {BEFORE} now"):
        stream(short).partitions(start, end)


# Sizes


def test_batches_are_bounded_by_bytes_and_by_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    largest = 8_000
    folder = MetadataFolder(tmp_path / "node")
    folder.append()
    for number in range(60):
        folder.append(
            Config(
                resource_type=ConfigType.TOPIC,
                resource_name=f"t{number}",
                name="k",
                value="x" * (largest - 100),
            )
        )
    folder.write(start=40)
    folder.snapshot(40)
    monkeypatch.setattr(chunks, "_CHUNK_BYTES", 50_000)
    monkeypatch.setattr(folder_module, "_CHUNK_BYTES", 50_000)
    for view in ("records", "decoded", "changes"):
        sizes = batch_sizes(folder, view=view)
        assert sum(rows for rows, _ in sizes) >= 60
        assert max(size for _, size in sizes) < 50_000 + 2 * largest, view
    monkeypatch.setattr(chunks, "CHUNK_RECORDS", 2)
    begun = read_rows(path=folder.path, endingOffsets=40)
    assert len(begun) == 39
    assert max(rows for rows, _ in batch_sizes(folder, view="records", endingOffsets=40)) == 2


def test_a_record_that_concerns_many_partitions_makes_several_batches(
    story: MetadataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.write()
    whole = read_rows(path=story.path, view="partitions", **FEED)
    monkeypatch.setattr(feed_module, "_ROWS_MAX", 2)
    assert read_rows(path=story.path, view="partitions", **FEED) == whole
    assert max(rows for rows, _ in batch_sizes(story, view="partitions", **FEED)) == 2
    assert max(rows for rows, _ in batch_sizes(story, view="partitions")) == 2


def batch_sizes(folder: MetadataFolder, **options: object) -> list[tuple[int, int]]:
    """The rows and bytes of each batch."""
    given = {"path": folder.path} | options
    source = MetadataLogSource({name: str(value) for name, value in given.items()})
    reader = source.reader(source.schema())
    found = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [(batch.num_rows, batch.nbytes) for batch in found]
