"""Snapshots on a real disk: their syncs and cold reads leave the event loop, wherever the log's are done."""

import threading

import pytest

from quorate.cli.node.free_ports import free_ports
from quorate.raft.quorum import Quorum
from quorate.raft.quorum_config import QuorumConfig, parse_voters
from quorate.raft.storage.storage import format_folder
from quorate.runtime.real import SyncStrategy, real_disk, real_runtime
from quorate.types import NodeId


class Blob:
    """A state of 40 MiB."""

    def __init__(self):
        self.chunks = [bytes([number]) * 1024 * 1024 for number in range(40)]

    def apply(self, batch):
        return [None] * len(batch.records)

    def take_snapshot(self):
        return iter(self.chunks)

    def load_snapshot(self, snapshot):
        self.loaded = []
        self.add = self.loaded.append
        return self

    def install(self):
        self.chunks = self.loaded


@pytest.fixture
def syncing_threads(monkeypatch):
    """Names of the files that were synced, with the thread that did it."""
    seen = []
    real = real_disk.os

    def watched(name):
        call = getattr(real, name)

        def synced(fd):
            seen.append((real.readlink(f"/proc/self/fd/{fd}"), threading.current_thread()))
            call(fd)

        return staticmethod(synced)

    fake = type("os", (), {**vars(real), **{name: watched(name) for name in ("fdatasync", "fsync")}})
    monkeypatch.setattr(real_disk, "os", fake)
    return seen


@pytest.fixture
def writes(monkeypatch):
    """Names of the files that were written to, with the bytes of each write."""
    seen = []
    append = real_disk.RealFile.append

    def watched(file, buffers):
        seen.append((file.path, sum(map(len, buffers))))
        return append(file, buffers)

    monkeypatch.setattr(real_disk.RealFile, "append", watched)
    return seen


async def test_the_loop_writes_a_snapshot_to_the_page_cache_in_small_pieces(tmp_path, writes):
    """That is all it does of it: what waits for the device is done elsewhere (below)."""
    runtime = real_runtime(sync=SyncStrategy.INLINE)
    folder = str(tmp_path / "1")
    await format_folder(runtime, folder, cluster_id="c", node_id=NodeId(1))
    config = QuorumConfig(
        node_id=NodeId(1),
        cluster_id="c",
        folder=folder,
        voters=parse_voters(f"1@127.0.0.1:{free_ports(1)[0]}"),
    )
    async with Quorum.open(config, Blob(), runtime=runtime) as quorum:
        await quorum.append([b"x"])
        await quorum.take_snapshot()
    of_snapshot = [size for path, size in writes if ".checkpoint" in path]
    assert sum(of_snapshot) > 40 * 1024 * 1024
    assert max(of_snapshot) < 1024 * 1024 + 1024


@pytest.mark.slow
async def test_a_snapshot_is_synced_off_the_loop_bit_by_bit_and_read_back(tmp_path, syncing_threads):
    runtime = real_runtime(sync=SyncStrategy.INLINE)
    folder = str(tmp_path / "1")
    await format_folder(runtime, folder, cluster_id="c", node_id=NodeId(1))
    config = QuorumConfig(
        node_id=NodeId(1),
        cluster_id="c",
        folder=folder,
        voters=parse_voters(f"1@127.0.0.1:{free_ports(1)[0]}"),
    )
    blob = Blob()
    async with Quorum.open(config, blob, runtime=runtime) as quorum:
        syncing_threads.clear()
        await quorum.append([b"x"])
        snapshot = await quorum.take_snapshot()
    loop = threading.main_thread()
    of_snapshot = [thread for path, thread in syncing_threads if ".checkpoint" in path]
    assert len(of_snapshot) >= 4  # not all of it at the end
    assert loop not in of_snapshot
    assert loop in [thread for path, thread in syncing_threads if path.endswith(".log")]
    before = blob.chunks
    async with Quorum.open(config, blob, runtime=runtime) as quorum:
        assert quorum.snapshots() == (snapshot,)
        assert quorum.applied_offset == snapshot.end_offset
    assert blob.chunks is not before
    assert blob.chunks == before
