"""The past of the page is what `quorate metadata at` has, at every offset, from log and snapshots."""

import uuid
from pathlib import Path

import pytest
import trio
from metadata_folder import MetadataFolder, story_folder

from quorate.broker.metadata.metadata_records import Topic
from quorate.broker.page.page_state import Seen, summary
from quorate.broker.page.replayed import AT_ONCE, OffsetAheadError, OffsetGoneError, Past
from quorate.cli.images.files_page import FilesLog
from quorate.cli.images.replay import Moment, Replay
from quorate.history import FolderLog


def ignore(problem: str) -> None:
    del problem


def story(path: Path, *, snapshots: tuple[int, ...] = (), start: int = 0) -> MetadataFolder:
    folder = story_folder(path / "node")
    for end in snapshots:
        folder.snapshot(end)
    folder.write(start=start)
    return folder


def past_of(folder: MetadataFolder) -> Past:
    return Past(FilesLog(FolderLog(path=str(folder.path)), ignore))


def at_by_command(folder: MetadataFolder, offset: int) -> Replay:
    replay = Replay(FolderLog(path=str(folder.path)), warn=ignore)
    replay.move_to(Moment(last_offset=offset))
    return replay


@pytest.mark.parametrize("snapshots", [(), (8,), (6, 14)])
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("stride", [4, 256])
def test_every_offset_is_as_the_command_has_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    snapshots: tuple[int, ...],
    backwards: bool,
    stride: int,
) -> None:
    monkeypatch.setattr("quorate.broker.page.replayed._STRIDE", stride)
    folder = story(tmp_path, snapshots=snapshots)
    past = past_of(folder)
    offsets = list(range(folder.end))
    assert past.earliest == 0 and past.latest == folder.end - 1
    for offset in reversed(offsets) if backwards else offsets:
        seen: Seen = trio.run(past.at, offset)
        replay = at_by_command(folder, offset)
        assert seen.image == replay.image, offset
        assert seen.time_ms == replay.timestamp_ms
        assert seen.epoch == replay.epoch


def single_records(path: Path) -> MetadataFolder:
    folder = MetadataFolder(path / "node")
    folder.append()
    for number in range(30):
        folder.append(Topic(name=f"t{number}", topic_id=uuid.UUID(int=number + 1)))
    folder.write()
    return folder


def starts_of(past: Past) -> list[int]:
    """Note where the log is read from."""
    starts: list[int] = []
    read = past.log.read

    async def noted(start: int, end: int) -> object:
        starts.append(start)
        return await read(start, end)

    past.log.read = noted  # type: ignore[method-assign]
    return starts


def test_who_goes_back_step_by_step_begins_at_the_same_image_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quorate.broker.page.replayed._KEPT", 3)
    monkeypatch.setattr("quorate.broker.page.replayed._STRIDE", 8)
    past = past_of(single_records(tmp_path))
    trio.run(past.at, 15)
    starts = starts_of(past)
    for offset in range(14, 8, -1):
        trio.run(past.at, offset)
    assert starts == [8] * 6


def test_who_drags_back_begins_near_each_offset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.broker.page.replayed._LONG_STRIDE", 4)
    past = past_of(single_records(tmp_path))
    trio.run(past.at, past.latest)
    starts = starts_of(past)
    for offset in (22, 14, 9):
        trio.run(past.at, offset)
    assert starts == [20, 12, 8]


def test_what_is_kept_stays_as_it_was(tmp_path: Path) -> None:
    folder = story(tmp_path)
    past = past_of(folder)
    early = trio.run(past.at, 6)
    told = summary(early, earliest=0, latest=9)
    for offset in range(6, folder.end):
        trio.run(past.at, offset)
    assert summary(early, earliest=0, latest=9) == told
    assert early.image == at_by_command(folder, 6).image


def test_an_offset_that_is_gone_names_the_earliest(tmp_path: Path) -> None:
    folder = story(tmp_path, snapshots=(9, 14), start=9)
    past = past_of(folder)
    assert past.earliest == 8
    assert trio.run(past.at, 8).image == at_by_command(folder, 8).image
    with pytest.raises(OffsetGoneError) as gone:
        trio.run(past.at, 7)
    assert gone.value.earliest == 8
    assert str(gone.value) == "offset 7 is no longer there: the earliest is 8"


def test_an_offset_of_the_future_names_the_latest(tmp_path: Path) -> None:
    folder = story(tmp_path)
    with pytest.raises(OffsetAheadError) as ahead:
        trio.run(past_of(folder).at, folder.end)
    assert ahead.value.latest == folder.end - 1


def test_many_viewers_of_one_offset_cost_one_replay(tmp_path: Path) -> None:
    past = past_of(story(tmp_path))
    running = 0
    highest = 0

    async def look() -> None:
        nonlocal running, highest
        read = past.log.read

        async def slowly(start: int, end: int) -> object:
            nonlocal running, highest
            running += 1
            highest = max(highest, running)
            await trio.sleep(0.001)
            running -= 1
            return await read(start, end)

        past.log.read = slowly  # type: ignore[method-assign]
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(past.at, 9)
        assert past.replays == 1
        async with trio.open_nursery() as nursery:
            for offset in range(9):
                nursery.start_soon(past.at, offset)

    trio.run(look)
    assert past.replays == 10
    assert highest == AT_ONCE


def test_changes_have_their_reasons_and_names(tmp_path: Path) -> None:
    folder = story(tmp_path)
    past = past_of(folder)

    async def look() -> list[dict[str, object]]:
        found, names = await past.changes(past.latest)
        return [each.as_dict(names) for each in found]

    told = trio.run(look)
    assert told[0]["what"] == "node 1 became the leader of the quorum, by the votes of 1"
    assert [each["offset"] for each in told] == sorted(each["offset"] for each in told)
    texts = [(each["topic"], each["partition"], each["what"]) for each in told]
    assert (None, None, "broker 1 unfenced") in texts
    assert ("orders", None, "topic created") in texts
    assert ("orders", 1, "leader 2, ISR 2") in texts
    assert (None, None, "retention.ms is set for topic orders") in texts
    assert not any("1000" in each["what"] for each in told)
    around = trio.run(past.changes, 3)[0]
    assert max(each.offset for each in around) > 3 >= min(each.offset for each in around)
