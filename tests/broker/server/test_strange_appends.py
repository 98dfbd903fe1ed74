"""Records of the metadata log are the controller's alone."""

import pytest
import trio

from quorate.broker.metadata.metadata_records import NoOp
from quorate.broker.metadata.record_codec import RecordDecodeError, encode
from quorate.broker.metadata_cache import MetadataCache
from quorate.raft.quorum_errors import InvalidAppendError
from quorate.raft.state_machine.interface import CommittedBatch
from quorate.raft.transport.channel import Channel
from quorate.runtime.real import SyncStrategy, real_runtime
from quorate.types import Epoch, Offset
from tests.broker.server.conftest import Nodes


@pytest.mark.parametrize("record", [b"\xde\xad\xbe\xef", b"", encode(NoOp())])
async def test_an_append_from_the_network_changes_nothing(nodes: Nodes, record: bytes) -> None:
    server = nodes.servers[1]
    end = server.quorum.log.end_offset
    address = server.quorum.endpoint_of(1)
    with trio.fail_after(10):
        channel = await Channel.connect(
            real_runtime(sync=SyncStrategy.INLINE).network,
            address,
            cluster_id="test-cluster",
            max_frame_bytes=1 << 20,
            max_append_bytes=1 << 20,
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(channel.run)
            with pytest.raises(InvalidAppendError, match="remote_appends"):
                await channel.append([record])
            nursery.cancel_scope.cancel()
    assert server.quorum.log.end_offset == end


async def test_undecodable_records_are_refused_from_the_own_program_too(nodes: Nodes) -> None:
    quorum = nodes.servers[1].quorum
    end = quorum.log.end_offset
    with pytest.raises(InvalidAppendError, match="RecordDecodeError"):
        quorum.append_nowait([encode(NoOp()), b"\xde\xad\xbe\xef"])
    assert quorum.log.end_offset == end


def test_records_decoded_by_the_check_are_applied_once_per_append() -> None:
    metadata = MetadataCache()
    records = [encode(NoOp()), encode(NoOp())]
    metadata.check(records)
    batch = CommittedBatch(base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=5, records=records)
    assert metadata.apply(batch) == [None, None]
    assert metadata.offset == 1
    with pytest.raises(RecordDecodeError):
        metadata.check([b"\xde\xad\xbe\xef"])
