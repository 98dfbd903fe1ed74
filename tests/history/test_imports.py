"""The modules that a reader of a folder takes with it."""

import subprocess
import sys

from metadata_folder import MetadataFolder


def test_reading_a_folder_needs_no_event_loop_and_no_client(story: MetadataFolder) -> None:
    """Spark starts several Python processes for an action, and gives each about ten seconds."""
    path = story.write()
    story.snapshot(14)
    program = """
import sys
from quorate.history import FolderLog
log = FolderLog(path=sys.argv[1])
extent = log.extent()
assert sum(batch.header.count for batch in log.batches(extent.start_offset, extent.end_offset)) > 20
(stored,) = log.snapshots(print)
with log.opened(stored.snapshot) as reader:
    assert list(reader)
assert not log.skipped()
print(sorted({"trio", "kio", "pyspark", "hypothesis", "typer", "quorate.raft"} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
