"""The controller on a real quorum of one voter."""

import random
import uuid
from collections.abc import Sequence
from pathlib import Path

import trio

from quorate.broker.controller.controller import Controller
from quorate.broker.controller.controller_settings import ControllerSettings
from quorate.broker.controller.rpc import (
    BrokerHeartbeatRequest,
    CreateTopicsRequest,
    NewTopic,
    RegisterBrokerRequest,
)
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import BrokerEndpoint
from quorate.broker.metadata.record_codec import decode
from quorate.broker.metadata.supported_features import SUPPORTED_FEATURES
from quorate.cli.node.free_ports import free_ports
from quorate.error_code import ErrorCode
from quorate.raft.quorum import Quorum
from quorate.raft.quorum_config import QuorumConfig, parse_voters
from quorate.raft.state_machine.interface import CommittedBatch
from quorate.raft.storage.storage import format_folder
from quorate.runtime.entropy import Entropy
from quorate.runtime.real import SyncStrategy, real_runtime
from quorate.types import NodeId


class Metadata:
    def __init__(self) -> None:
        self.image = MetadataImage()

    def apply(self, batch: CommittedBatch) -> Sequence[None]:
        for offset, data in enumerate(batch.records, batch.base_offset):
            self.image.apply(decode(data), offset=offset, epoch=batch.epoch)
        return [None] * len(batch.records)

    def take_snapshot(self):
        raise NotImplementedError

    def load_snapshot(self, snapshot):
        raise NotImplementedError


async def test_an_answered_request_is_applied_and_survives_a_restart(tmp_path: Path) -> None:
    runtime = real_runtime(sync=SyncStrategy.INLINE)
    with trio.fail_after(20):
        await format_folder(runtime, str(tmp_path), cluster_id="c", node_id=NodeId(1))
        for start in range(2):
            metadata = Metadata()
            config = QuorumConfig(
                node_id=NodeId(1),
                cluster_id="c",
                folder=str(tmp_path),
                voters=parse_voters(f"1@127.0.0.1:{free_ports(1)[0]}"),
            )
            async with Quorum.open(config, metadata, runtime=runtime) as quorum:
                assert await quorum.wait_leader() == 1
                controller = Controller(
                    quorum,
                    settings=ControllerSettings(cluster_id="c"),
                    entropy=Entropy(random.Random(start)),
                )
                controller.activate(metadata.image.copy(), epoch=quorum.epoch)
                assert len(metadata.image.topics) == start
                registered = await controller.answer(
                    RegisterBrokerRequest(
                        broker_id=1,
                        cluster_id="c",
                        incarnation_id=uuid.UUID(int=7),
                        listeners=(BrokerEndpoint(name="PLAINTEXT", host="h", port=1),),
                        log_dirs=(uuid.UUID(int=1000),),
                        features=SUPPORTED_FEATURES,
                    )
                )
                assert registered.error is ErrorCode.NONE
                broker = metadata.image.broker(1)
                assert broker is not None
                assert broker.epoch == registered.broker_epoch
                if start == 0:
                    await _unfence_and_create(controller, registered.broker_epoch)
                    assert metadata.image.topic("t") is not None


async def _unfence_and_create(controller: Controller, epoch: int) -> None:
    beat = await controller.answer(
        BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch, current_metadata_offset=epoch)
    )
    assert not beat.is_fenced
    created = await controller.answer(CreateTopicsRequest(topics=(NewTopic(name="t"),)))
    assert created.topics[0].error is ErrorCode.NONE
