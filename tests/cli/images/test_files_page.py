"""The page of a folder and of a snapshot, over real sockets."""

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import trio
from metadata_folder import MetadataFolder, story_folder

from quorate.cli.console.connections import network
from quorate.cli.images.files_page import serve_files
from quorate.history import FolderLog, MetadataHistory, SnapshotFile
from quorate.runtime import Address

pytestmark = pytest.mark.real_time


async def ask(history: MetadataHistory, *targets: str) -> list[tuple[int, Any]]:
    def get(address: Address, target: str) -> tuple[int, Any]:
        try:
            with urllib.request.urlopen(f"http://{address}{target}", timeout=20) as answer:
                body = answer.read()
                return answer.status, json.loads(body) if body.startswith(b"{") else body
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    found: list[tuple[int, Any]] = []
    addresses: list[Address] = []
    listening = trio.Event()

    def told(address: Address) -> None:
        addresses.append(address)
        listening.set()

    async def serve() -> None:
        await serve_files(history, network(), 0, warn=print, listening=told)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        await listening.wait()
        for target in targets:
            found.append(await trio.to_thread.run_sync(get, addresses[0], target))
        nursery.cancel_scope.cancel()
    return found


@pytest.fixture
def folder(tmp_path: Path) -> MetadataFolder:
    return story_folder(tmp_path / "node")


def test_a_folder_is_shown_at_its_end_and_at_any_offset(folder: MetadataFolder) -> None:
    folder.write()
    html, end, early, *only_live = trio.run(
        ask, FolderLog(path=str(folder.path)), "/", "/page/api/summary", "/page/api/summary?offset=6",
        "/page/events", "/page/api/recent", "/page/api/groups", "/page/api/moves",
    )  # fmt: skip
    assert html[0] == 200 and html[1].startswith(b"<!doctype html>")
    assert end[1]["offset"] == end[1]["latest"] == folder.end - 1
    assert end[1]["node"] is None and not end[1]["live"]
    assert early[1]["counts"] == {
        "brokers": 2, "topics": 1, "partitions": 0, "offline": 0, "behind": 0, "displaced": 0, "moving": 0,
    }  # fmt: skip
    for status, told in only_live:
        assert status == 404
        assert "; open " in told["error"], "what has it"


def test_a_snapshot_alone_is_shown_at_its_end(folder: MetadataFolder) -> None:
    path = folder.snapshot(14)
    told, shown, before = trio.run(
        ask, SnapshotFile(path=str(path)), "/page/api/summary", "/page/api/partitions?offset=13",
        "/page/api/summary?offset=12",
    )  # fmt: skip
    assert (told[1]["earliest"], told[1]["latest"], told[1]["offset"]) == (13, 13, 13)
    assert [each[0] for each in shown[1]["topics"]] == ["orders"]
    assert (before[0], before[1]["earliest"]) == (404, 13)
