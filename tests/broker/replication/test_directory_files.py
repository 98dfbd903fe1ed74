"""A directory of `log.dirs` tells of the broker's earlier life, also with files that are damaged."""

import pytest

from quorate.broker.replication.storage.proofs import (
    CLEAN_SHUTDOWN,
    PAGE_CACHE,
    load_clean_shutdown,
    load_page_cache,
)
from quorate.runtime.disk import write_file_atomically
from quorate.simulation.world.simulated_disk import SimulatedDisk


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"brokerEpoch": %s, "bootId": "b"}' % (b"9" * 5000),
        b'{"brokerEpoch": "1", "bootId": "b"}',
        b'{"brokerEpoch": 1, "bootId": "b", "directories": 5}',
        b'{"brokerEpoch": 1, "bootId": "b", "directories": ["no id"]}',
        b"[1, 2]",
    ],
)
async def test_a_proof_that_is_no_proof_proves_nothing(content: bytes) -> None:
    disk = SimulatedDisk()
    disk.make_folder("data")
    for name in (CLEAN_SHUTDOWN, PAGE_CACHE):
        await write_file_atomically(disk, f"data/{name}", content)
    assert load_clean_shutdown(disk, "data") is None
    assert load_page_cache(disk, "data", boot_id="b") is None
