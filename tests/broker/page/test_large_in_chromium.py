"""The page of 10,000 partitions with hostile names in a browser, behind a token."""

import threading
import time
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import trio
from metadata_folder import MetadataFolder, registered
from prometheus_client import CollectorRegistry

from quorate.broker.metadata.metadata_records import (
    BrokerRegistrationChange,
    Partition,
    PartitionChange,
    Topic,
)
from quorate.broker.page.page_server import Page
from quorate.broker.page.replayed import Past
from quorate.cli.console.connections import network
from quorate.cli.images.files_page import FilesLog
from quorate.health import PageDiagnosis
from quorate.history import FolderLog
from quorate.metrics import TokenFile, serve_metrics
from quorate.runtime import Address
from quorate.runtime.real import RealDisk, SyncStrategy
from tests.kit.chromium import chromium_tab

pytestmark = [pytest.mark.slow, pytest.mark.real_time]

TOKEN = "a-token-of-sixteen-or-more"
HOSTILE = "<img src=x onerror=document.title='owned'>"
TOPICS, EACH = 500, 20
FIRST_PAINT_S, STEP_S, LONGEST_STEP_S = 1.5, 0.3, 1.0
"""The goals are 1 s, and 0.3 s for each step; other tests may run beside."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> MetadataFolder:
    folder = MetadataFolder(tmp_path_factory.mktemp("large") / "node")
    folder.append()
    for broker in (1, 2):
        folder.append(registered(broker))
        change = BrokerRegistrationChange(broker_id=broker, broker_epoch=broker, fenced=False)
        folder.append(change)
    for number in range(TOPICS):
        topic_id = uuid.UUID(int=number + 1)
        made = [
            Partition(topic_id=topic_id, partition_id=index, replicas=(1, 2), isr=(1, 2), leader=1)
            for index in range(EACH)
        ]
        folder.append(Topic(name=f"{HOSTILE}{number}", topic_id=topic_id), *made)
    for number in range(50):
        folder.append(PartitionChange(topic_id=uuid.UUID(int=number + 1), partition_id=0, isr=(1,)))
    folder.write()
    return folder


@pytest.fixture
def address(folder: MetadataFolder, tmp_path: Path) -> Iterator[Address]:
    """Serve the page in a thread of its own."""
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text(TOKEN)
    found: list[Address] = []
    scope = trio.CancelScope()
    listening = threading.Event()

    async def serve() -> None:
        held = TokenFile(RealDisk(sync=SyncStrategy.INLINE), str(token))
        past = Past(FilesLog(FolderLog(path=str(folder.path)), print))
        # As `serve_files` does; a running node has its image.
        await past.at(past.latest)
        page = Page(past, live=None, place="a folder", health=PageDiagnosis())
        listener = await network().listen(Address("127.0.0.1", 0))
        with scope:
            found.append(listener.address)
            listening.set()
            await serve_metrics(listener, CollectorRegistry(), token=held, site=page)
        listener.close()

    async def run() -> None:
        tokens.append(trio.lowlevel.current_trio_token())
        await serve()

    tokens: list[trio.lowlevel.TrioToken] = []
    thread = threading.Thread(target=partial(trio.run, run))
    thread.start()
    try:
        assert listening.wait(20)
        yield found[0]
    finally:
        tokens[0].run_sync_soon(scope.cancel)
        thread.join()


def test_a_large_page_behind_a_token_is_shown_soon_and_runs_no_stranger(
    address: Address, folder: MetadataFolder, tmp_path: Path
) -> None:
    with chromium_tab(tmp_path / "profile") as tab:
        tab.size(1280, 900)
        tab.open(f"http://{address}/")
        tab.wait("document.querySelector('#token-form:not([hidden])') !== null")
        assert tab.text("#counts") == "" and not tab.value("document.cookie")
        asked = "document.getElementById('token').value = '{}';" + (
            "document.getElementById('token-form').requestSubmit()"
        )
        tab.value(asked.format("another-token-of-sixteen"))
        tab.wait("document.getElementById('token-problem').innerText === 'The node takes another one.'")
        began = time.monotonic()
        tab.value(asked.format(TOKEN))
        tab.wait("document.body.dataset.shown")
        first = time.monotonic() - began
        tab.wait("document.body.dataset.healthy")
        print(f"with the health {time.monotonic() - began:.2f} s")
        counts = tab.text("#counts").replace("\n", " ")
        assert "partitions 10,000 " in counts and "not in sync 50 " in counts
        assert tab.value("document.querySelectorAll('table.sick-behind tbody tr').length") == 50
        assert HOSTILE in tab.text("table.sick-behind")
        tab.value("document.getElementById('topic').value = document.querySelector('datalist option').value")
        tab.value("document.getElementById('topic-form').requestSubmit()")
        tab.wait("document.querySelectorAll('#topic-table tbody tr').length === 20")

        steps = []
        # As one drags, then step by step.
        far = range(folder.end - 500, folder.end - 9000, -1400)
        for offset in (*far, *range(folder.end - 2, folder.end - 14, -1)):
            began = time.monotonic()
            tab.value(
                f"(() => {{ const slider = document.getElementById('slider'); slider.value = {offset};"
                " slider.dispatchEvent(new Event('input', {bubbles: true})); })()"
            )
            tab.wait(f"document.body.dataset.shown === '{offset}'")
            steps.append(time.monotonic() - began)
        assert "not in sync 38 " in tab.text("#counts").replace("\n", " ")
        print(f"first paint {first:.2f} s, steps {steps}")
        assert first < FIRST_PAINT_S
        assert sorted(steps)[len(steps) // 2] < STEP_S and max(steps) < LONGEST_STEP_S
        # The map is drawn as if it were drawn for the first time.
        same = "document.getElementById('map').toDataURL()"
        drawn = tab.value(same)
        tab.value("window.dispatchEvent(new Event('resize'))")
        time.sleep(0.3)
        assert tab.value(same) == drawn
        tab.wait(f"document.body.dataset.healthy === '{offset}'")
        # No name ran, and the page refused nothing of its own.
        assert (
            tab.value("document.title").startswith("● quorate") and tab.value("document.images.length") == 0
        )
        assert not tab.complaints
