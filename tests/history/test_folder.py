"""Reading a folder: up to the high watermark, past no damage, and without an event loop."""

import json
import pickle
import struct
from collections.abc import Callable
from pathlib import Path

import cbor2
import pytest
from metadata_folder import MetadataFolder
from written_log import WrittenLog

from quorate.broker.metadata.metadata_records import NoOp
from quorate.broker.metadata.record_codec import encode
from quorate.history import (
    DamagedRecordError,
    Entry,
    FolderLog,
    LogUnavailableError,
    MetadataHistory,
    SnapshotFile,
    SnapshotNameError,
    UnknownHighWatermarkError,
    UnreadableFilesError,
    entries_of,
    record_json,
)
from quorate.log.snapshots.snapshot_file import BOOTSTRAP, name_of
from quorate.quorum_state import SKIPPED_BATCHES, SkippedBatch
from quorate.types import Epoch, Offset, SnapshotId

NewLog = Callable[..., WrittenLog]


def records_in(history: MetadataHistory, snapshot: SnapshotId) -> list[bytes]:
    with history.opened(snapshot) as reader:
        return list(reader)


def log_in(path: Path, *, read_uncommitted: bool = False) -> FolderLog:
    """Return the log, after a way through pickle as to a Spark worker."""
    log = FolderLog(path=str(path), read_uncommitted=read_uncommitted)
    copied = pickle.loads(pickle.dumps(log))
    assert copied == log
    return log


def entries(log: FolderLog, *, start: int = 0) -> list[Entry]:
    """The metadata records from `start` on."""
    end = log.extent().end_offset
    return [
        entry
        for batch in log.batches(start, end)
        for entry in entries_of(batch, start=start, end=end)
        if not entry.control
    ]


def flip_a_bit(file: Path, position: int) -> None:
    damaged = bytearray(file.read_bytes())
    damaged[position] ^= 4
    file.write_bytes(damaged)


def test_the_records_are_those_that_were_written(sample: WrittenLog) -> None:
    log = log_in(sample.folder)
    extent = log.extent()
    assert (extent.cluster, extent.start_offset, extent.end_offset) == (sample.cluster, 0, sample.end)
    read = [(each.offset, each.epoch, each.timestamp_ms, each.value) for each in entries(log)]
    assert read == [(offset, epoch, at, encode(record)) for offset, epoch, at, record in sample.records]


def test_the_logs_own_folder_may_be_given(sample: WrittenLog) -> None:
    assert entries(log_in(sample.log_folder)) == entries(log_in(sample.folder))


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFilesError, match="nowhere is not a folder"):
        log_in(tmp_path / "nowhere").extent()
    with pytest.raises(UnreadableFilesError, match="no segment"):
        log_in(tmp_path).extent()


def test_the_log_ends_at_the_persisted_high_watermark(new_log: NewLog) -> None:
    log = new_log()
    log.new_epoch(1)
    log.append(*[NoOp()] * 10)
    log.write(committed=5)
    assert log_in(log.folder).extent().end_offset == 5
    assert [each.offset for each in entries(log_in(log.folder))] == [1, 2, 3, 4]
    assert len(entries(log_in(log.folder, read_uncommitted=True))) == 10


def test_without_a_high_watermark_only_an_empty_log_has_an_end(new_log: NewLog) -> None:
    log = new_log()
    log.write(committed=None)
    assert log_in(log.folder).extent().end_offset == 0
    log.new_epoch(1)
    log.write(committed=None)
    with pytest.raises(UnknownHighWatermarkError, match="it is not known which records are committed"):
        log_in(log.folder).extent()
    assert log_in(log.folder, read_uncommitted=True).extent().end_offset == 1


def test_a_flipped_bit_is_found_and_named(sample: WrittenLog) -> None:
    (file,) = sample.log_folder.glob("*.log")
    flip_a_bit(file, 300)
    for uncommitted in (False, True):
        with pytest.raises(DamagedRecordError, match=r"\.log, byte \d+"):
            entries(log_in(sample.folder, read_uncommitted=uncommitted))


@pytest.mark.parametrize("uncommitted", [False, True])
def test_the_metadata_log_of_a_kafka_node_is_named_as_that(new_log: NewLog, uncommitted: bool) -> None:
    """Its records were called damaged."""
    log = new_log()
    log.new_epoch(1)
    log.append_raw(bytes.fromhex("010c000e6d657461646174612e76657273696f6e001700"))
    log.write(committed=None)
    with pytest.raises(LogUnavailableError, match="is the metadata log of an Apache Kafka node"):
        FolderLog(path=str(log.folder), read_uncommitted=uncommitted).extent()


def test_damage_above_the_high_watermark_ends_an_uncommitted_read(
    new_log: NewLog, caplog: pytest.LogCaptureFixture
) -> None:
    log = new_log()
    log.new_epoch(1)
    log.append(NoOp())
    log.append(NoOp())
    log.write(committed=2)
    (file,) = log.log_folder.glob("*.log")
    flip_a_bit(file, -3)
    assert [each.offset for each in entries(log_in(log.folder, read_uncommitted=True))] == [1]
    assert f"damage is taken for the end of the log path={file}" in caplog.text


def test_a_wrong_index_misleads_nobody(sample: WrittenLog) -> None:
    log = log_in(sample.folder)
    expected = entries(log, start=20)
    (index,) = sample.log_folder.glob("*.index")
    positions = list(struct.iter_unpack(">ii", index.read_bytes()))
    assert len(positions) > 2
    index.write_bytes(b"".join(struct.pack(">ii", last, position + 8) for last, position in positions))
    assert entries(log, start=20) == expected
    index.unlink()
    assert entries(log, start=20) == expected


def test_a_record_of_a_later_version_is_shown_as_it_is(new_log: NewLog) -> None:
    log = new_log()
    log.new_epoch(1)
    log.append_raw(cbor2.dumps([99, 3, {0: "x", 1: b"\x01"}]), cbor2.dumps([4, 200, {}]))
    first, second = entries(log_in(log.write()))
    assert (first.type, first.version, first.record) == ("Unknown", 3, None)
    assert (second.type, second.version, second.record) == ("Unknown", 200, None)
    assert json.loads(record_json(first) or "") == {"type": 99, "fields": {"0": "x", "1": "01"}}


@pytest.mark.parametrize("value", [b"", b"\xff\xff", cbor2.dumps([4, 0, {0: 1}]), cbor2.dumps([1, 2])])
def test_bytes_that_are_no_record_are_named_by_offset(new_log: NewLog, value: bytes) -> None:
    log = new_log()
    log.new_epoch(1)
    log.append_raw(value)
    with pytest.raises(DamagedRecordError, match="the record at offset 1"):
        entries(log_in(log.write()))


def test_the_snapshots_of_a_folder_are_listed_and_read(story: MetadataFolder) -> None:
    path = story.write()
    files = [story.snapshot(end) for end in (14, 9)]
    # The first voters of a quorum, and no record: opening it would warn.
    (story.home / name_of(BOOTSTRAP)).write_bytes(b"")
    log = log_in(path)
    found = log.snapshots(pytest.fail)
    assert [(each.end_offset, each.last_timestamp_ms) for each in found] == [
        (9, story.time_of(8)),
        (14, story.time_of(13)),
    ]
    for each, file in zip(reversed(found), files, strict=True):
        expected = [encode(record) for record in story.loader_at(each.end_offset).records()]
        assert records_in(log, each.snapshot) == expected
        alone = SnapshotFile(path=str(file))
        assert list(alone.snapshots(pytest.fail)) == [each]
        assert records_in(alone, each.snapshot) == expected
        assert (alone.extent().start_offset, alone.extent().end_offset) == (each.end_offset,) * 2


def test_a_damaged_snapshot_is_named_and_the_others_are_listed(story: MetadataFolder) -> None:
    path = story.write()
    damaged = story.snapshot(14)
    story.snapshot(9)
    flip_a_bit(damaged, 30)
    problems: list[str] = []
    assert [each.end_offset for each in log_in(path).snapshots(problems.append)] == [9]
    assert len(problems) == 1 and damaged.name in problems[0], problems


def test_a_snapshot_says_that_what_it_holds_is_committed(story: MetadataFolder) -> None:
    """The node writes its high watermark now and then, and a snapshot may be later."""
    path = story.write(committed=4)
    assert log_in(path).extent().end_offset == 4
    story.snapshot(14)
    assert log_in(path).extent().end_offset == 14


def test_a_snapshot_that_is_gone_is_refused(story: MetadataFolder) -> None:
    log = log_in(story.write())
    with pytest.raises(LogUnavailableError, match=r"00014-0000000001\.checkpoint is gone; .* try again"):
        records_in(log, SnapshotId(Offset(14), Epoch(1)))
    with pytest.raises(SnapshotNameError, match=r"a\.log is no snapshot; give a file named END-EPOCH"):
        SnapshotFile(path="a.log").extent()


def test_the_batches_that_the_node_skips_are_known(story: MetadataFolder) -> None:
    log = log_in(story.write())
    assert log.skipped().as_tuple() == ()
    file = story.home / SKIPPED_BATCHES
    file.write_text(json.dumps({"version": 1, "skipped": [{"offset": 9, "epoch": 1}]}))
    assert log.skipped().as_tuple() == (SkippedBatch(Offset(9), Epoch(1)),)
    file.write_text("{")
    with pytest.raises(UnreadableFilesError, match=f"{SKIPPED_BATCHES}.* it can't be read"):
        log.skipped()
