"""Images as they were: the same as on a node at that offset, from the log and from snapshots."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from metadata_folder import LOGS, ORDERS, T0, MetadataFolder, partition

from quorate.broker.metadata.metadata_records import FeatureLevel, Topic
from quorate.cli.images.replay import LATEST, Moment, Replay, ReplayError
from quorate.history import FolderLog, SnapshotFile
from quorate.log.batches.batch import Batch
from quorate.quorum_state import SKIPPED_BATCHES


def replay_of(path: Path, said: list[str] | None = None) -> Replay:
    return Replay(FolderLog(path=str(path)), warn=([] if said is None else said).append)


def at(path: Path, moment: Moment) -> Replay:
    replay = replay_of(path)
    replay.move_to(moment)
    return replay


@pytest.mark.parametrize("snapshots", [(), (9,), (9, 14, 22)], ids=["log alone", "one snapshot", "three"])
def test_the_image_at_an_offset_is_what_the_records_up_to_it_make(
    written: MetadataFolder, snapshots: tuple[int, ...]
) -> None:
    path = written.write()
    for end in snapshots:
        written.snapshot(end)
    for offset in range(written.end):
        replay, expected = at(path, Moment(last_offset=offset)), written.loader_at(offset + 1)
        assert replay.image == expected.image, f"offset {offset}"
        assert replay.in_transaction == expected.in_transaction, f"offset {offset}"
        assert (replay.end_offset, replay.timestamp_ms) == (offset + 1, written.time_of(offset))
    assert at(path, LATEST).image == written.loader_at(written.end).image


def test_a_transaction_is_seen_from_its_end_on(written: MetadataFolder) -> None:
    path = written.write()
    begun = next(
        base for base, records in written.batches if records[:1] == (Topic(name="logs", topic_id=LOGS),)
    )
    during, after = (at(path, Moment(last_offset=begun + offset)) for offset in (1, 2))
    assert during.in_transaction and during.image.topic("logs") is None
    assert not after.in_transaction and after.image.partition(LOGS, 0) is not None


def test_a_time_stands_for_every_record_before_the_first_later_one(written: MetadataFolder) -> None:
    path = written.write()
    for number, (base, records) in enumerate(written.batches):
        end = base + max(1, len(records))
        for late in (0, 999):
            assert at(path, Moment(timestamp_ms=T0 + 1000 * number + late)).end_offset == end
    assert at(path, Moment(timestamp_ms=T0 + 10**9)).end_offset == written.end


def test_a_clock_that_went_back_does_not_lead_past_a_later_record(written: MetadataFolder) -> None:
    """A new leader's clock may be behind. The image as of a time ends at the first record that is later."""
    path = written.write()
    assert at(path, Moment(timestamp_ms=T0 + 1500)).end_offset == 2
    written.snapshot(9)
    assert at(path, Moment(timestamp_ms=T0 + 1500)).end_offset == 2, "the snapshot is later"
    assert at(path, Moment(timestamp_ms=written.time_of(8))).end_offset == 9


def test_a_moment_before_the_first_record_is_refused_with_the_earliest(written: MetadataFolder) -> None:
    path = written.write()
    with pytest.raises(
        ReplayError, match=r"is before all that .* has: the earliest is offset 0, of 2023-11-1"
    ):
        at(path, Moment(timestamp_ms=T0 - 1))


def test_a_history_that_is_gone_is_refused_with_the_oldest_snapshot(written: MetadataFolder) -> None:
    path = written.write(start=9)
    written.snapshot(9)
    written.snapshot(14)
    for moment in (Moment(last_offset=7), Moment(timestamp_ms=written.time_of(8) - 1)):
        with pytest.raises(
            ReplayError, match=r"the earliest is offset 8, of 2023-11-1.* \(the oldest snapshot\)"
        ):
            at(path, moment)
    for offset in range(8, written.end):
        assert at(path, Moment(last_offset=offset)).image == written.loader_at(offset + 1).image


def test_a_snapshot_spares_the_log_before_it(
    written: MetadataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written.write()
    written.snapshot(14)
    asked: list[int] = []
    read = FolderLog.batches

    def batches(history: FolderLog, start: int, end: int) -> Iterator[Batch]:
        asked.append(start)
        return read(history, start, end)

    monkeypatch.setattr(FolderLog, "batches", batches)
    at(path, Moment(last_offset=15))
    assert asked == [14]
    at(path, Moment(last_offset=12))
    assert asked == [14, 0], "the snapshot holds more than was asked for"


def test_a_damaged_snapshot_is_told_and_an_earlier_one_read(written: MetadataFolder) -> None:
    path = written.write(start=9)
    written.snapshot(9)
    newest = written.snapshot(14)
    data = bytearray(newest.read_bytes())
    data[-100] ^= 1
    newest.write_bytes(data)
    said: list[str] = []
    replay = replay_of(path, said)
    replay.move_to(LATEST)
    assert replay.image == written.loader_at(written.end).image
    assert len(said) == 1 and newest.name in said[0]


@pytest.mark.slow
def test_damage_far_back_in_a_snapshot_leaves_nothing_of_it_in_the_image(written: MetadataFolder) -> None:
    many = uuid.UUID(int=3)
    written.append(Topic(name="many", topic_id=many), *(partition(many, number) for number in range(20_000)))
    path = written.write()
    written.snapshot(9)
    newest = written.snapshot(written.end)
    data = bytearray(newest.read_bytes())
    data[-1000] ^= 1
    newest.write_bytes(data)
    said: list[str] = []
    replay = replay_of(path, said)
    replay.move_to(LATEST)
    assert replay.image == written.loader_at(written.end).image
    assert len(said) == 1 and newest.name in said[0]


def test_a_record_that_is_not_committed_is_not_shown(written: MetadataFolder) -> None:
    path = written.write(committed=11)
    assert at(path, LATEST).end_offset == 11
    with pytest.raises(ReplayError, match=r"offset 11 is not there yet: the last that is known .* is 10"):
        at(path, Moment(last_offset=11))


def test_a_snapshot_says_that_what_it_holds_is_committed(written: MetadataFolder) -> None:
    """The node writes its high watermark now and then, and a snapshot may be later."""
    path = written.write(committed=4)
    written.snapshot(14)
    assert at(path, LATEST).end_offset == 14


def test_the_image_follows_what_is_appended(written: MetadataFolder) -> None:
    path = written.write()
    replay = at(path, LATEST)
    written.append(FeatureLevel(name="group.version", level=1))
    written.write()
    replay.move_to(LATEST)
    assert replay.image.features["group.version"] == 1
    assert replay.image == written.loader_at(written.end).image


def test_an_image_that_fell_behind_the_log_goes_on_from_a_snapshot(written: MetadataFolder) -> None:
    path = written.write()
    replay = at(path, Moment(last_offset=3))
    for file in written.home.iterdir():
        file.unlink()
    written.write(start=16)
    written.snapshot(16)
    replay.move_to(LATEST)
    assert replay.image == written.loader_at(written.end).image


def test_an_image_does_not_go_back(written: MetadataFolder) -> None:
    replay = at(written.write(), Moment(last_offset=9))
    for moment in (Moment(last_offset=8), Moment(timestamp_ms=written.time_of(8))):
        with pytest.raises(ReplayError, match=r"is before offset 9, of .*: give the earlier one first"):
            replay.move_to(moment)


def test_a_batch_that_the_node_skips_is_left_out(written: MetadataFolder) -> None:
    """The skip is one of `quorate log skip`: the topic's second creation does not fit the image."""
    written.append(Topic(name="orders", topic_id=ORDERS))
    written.append(FeatureLevel(name="group.version", level=1))
    path = written.write()
    with pytest.raises(ReplayError, match=f"the batch at offset {written.end - 2} .* can't be applied"):
        at(path, LATEST)
    skipped = {"version": 1, "skipped": [{"offset": written.end - 2, "epoch": 1}]}
    (written.home / SKIPPED_BATCHES).write_text(json.dumps(skipped))
    assert at(path, LATEST).image.features["group.version"] == 1


def test_a_snapshot_file_is_an_image_by_itself(written: MetadataFolder, tmp_path: Path) -> None:
    copied = tmp_path / written.snapshot(14).name
    (written.home / copied.name).rename(copied)
    copied.chmod(0o400)
    replay = Replay(SnapshotFile(path=str(copied)), warn=pytest.fail)
    replay.move_to(LATEST)
    assert replay.image == written.loader_at(14).image
    assert (replay.end_offset, replay.timestamp_ms) == (14, written.time_of(13))


def test_reading_leaves_every_file_as_it_is(written: MetadataFolder) -> None:
    path = written.write()
    written.snapshot(14)
    before = {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in written.home.iterdir()}
    at(path, LATEST)
    assert {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in written.home.iterdir()} == before
