"""A broker's life: registered, unfenced, shut down, back again."""

from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from captured_logs import captured_logs

from quorate.broker.controller.rpc import UnregisterBrokerRequest
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.node_config.properties_file import ServerConfigError
from quorate.broker.replication.storage.proofs import CLEAN_SHUTDOWN
from quorate.broker.server import BrokerServer
from quorate.broker.settings.authorizer_settings import STANDARD
from quorate.broker.wire.api import ApiKey
from quorate.error_code import ErrorCode
from quorate.runtime.disk import DiskLockedError
from quorate.runtime.real import SyncStrategy, real_runtime
from tests.broker.server.client_requests import batch, fetch, produce, values_of
from tests.broker.server.conftest import MakeNodes, Nodes


def active(broker_id: int, *, after_epoch: int = -1) -> Callable[[MetadataImage], bool]:
    def holds(image: MetadataImage) -> bool:
        broker = image.broker(broker_id)
        return broker is not None and broker.active and broker.epoch > after_epoch

    return holds


async def test_a_broker_that_was_unregistered_registers_again(nodes: Nodes) -> None:
    server = nodes.servers[1]
    epoch = server.metadata.image.broker(1).epoch
    answer = await server.controller.controller.answer(UnregisterBrokerRequest(broker_id=1))
    assert answer.error is ErrorCode.NONE
    with trio.fail_after(10):
        await server.metadata.wait_until(active(1, after_epoch=epoch))
    assert server.broker.lifecycle.broker_epoch == server.metadata.image.broker(1).epoch


async def test_an_orderly_restart_proves_itself_and_keeps_the_records(nodes: Nodes) -> None:
    async with nodes.client(1) as client:
        await nodes.servers[1].broker.lifecycle.wait_unfenced()
        await client.call(
            ApiKey.METADATA, topics=[{"name": "t", "topic_id": None}], allow_auto_topic_creation=True
        )
        assert (await produce(client, "t", batch(b"kept"))).error == 0
    epoch = nodes.servers[1].broker.lifecycle.broker_epoch
    await nodes.stop(1)
    server = await nodes.start(1)
    assert server.broker.replicas.directories.proof.broker_epoch == epoch
    await server.wait_ready()
    async with nodes.client(1) as client:
        with trio.fail_after(5):
            part = await fetch(client, "t", 0, max_wait_ms=1000)
            while not part.records:  # the leader may still be opening its log
                part = await fetch(client, "t", 0, max_wait_ms=1000)
    assert values_of(part) == [b"kept"]


async def test_a_crashed_broker_comes_back_without_proof_and_under_a_new_epoch(
    make_nodes: MakeNodes,
) -> None:
    nodes = await make_nodes(3)
    leader = nodes.servers[1].quorum.leader
    victim = next(node for node in (1, 2, 3) if node != leader)
    epoch = nodes.servers[victim].broker.lifecycle.broker_epoch
    await nodes.crash(victim)
    server = await nodes.start(victim)
    assert server.broker.replicas.directories.proof.broker_epoch == -1
    with trio.fail_after(15):
        await server.wait_ready()
    assert server.broker.lifecycle.broker_epoch > epoch


async def test_the_metrics_of_a_node_name_its_brokers_and_replicas(make_nodes: MakeNodes) -> None:
    nodes = await make_nodes(1, {"metrics.http.port": "0"})
    server = nodes.servers[1]
    async with nodes.client(1) as client:
        await client.call(
            ApiKey.METADATA, topics=[{"name": "t", "topic_id": None}], allow_auto_topic_creation=True
        )

    def value(name: str) -> float | None:
        held: float | None = server.registry.get_sample_value(name)
        return held

    assert value("kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert value("kafka_controller_kafkacontroller_activebrokercount") == 1
    assert value("kafka_controller_kafkacontroller_globaltopiccount") == 1
    assert value("kafka_server_brokermetadatametrics_last_applied_record_offset") == server.metadata.offset
    assert value("quorate_producer_duplicate_batches_total") == 0
    assert server.metrics_address is not None


@pytest.mark.bug("CVE-2019-12399")
async def test_the_passwords_of_keystores_are_described_without_their_values(make_nodes: MakeNodes) -> None:
    nodes = await make_nodes(1, {"ssl.keystore.type": "PKCS12", "ssl.keystore.password": "hidden-1"})
    async with nodes.client(1) as client:
        answer = await client.call(
            ApiKey.DESCRIBE_CONFIGS,
            resources=[{"resource_type": 4, "resource_name": "1", "configuration_keys": None}],
            include_synonyms=True,
            include_documentation=False,
        )
    (found,) = [each for each in answer.results[0].configs if each.name == "ssl.keystore.password"]
    assert (found.value, found.is_sensitive, found.synonyms[0].value) == (None, True, None)
    assert "hidden-1" not in repr(answer)
    (form,) = [each for each in answer.results[0].configs if each.name == "ssl.keystore.type"]
    assert (form.value, form.is_sensitive) == ("PKCS12", False)


async def test_every_folder_of_a_running_node_is_its_own(make_nodes: MakeNodes, tmp_path: Path) -> None:
    folders = [str(tmp_path / "node-1"), str(tmp_path / "other")]
    nodes = await make_nodes(1, {"log.dirs": ",".join(folders)})
    disk = real_runtime(sync=SyncStrategy.INLINE).disk
    for folder in folders:
        with pytest.raises(DiskLockedError, match="another process is using this folder"):
            disk.lock(f"{folder}/.lock")
    await nodes.stop(1)
    for folder in folders:
        disk.lock(f"{folder}/.lock").release()


@pytest.mark.slow
@pytest.mark.bug("KAFKA-13907")
async def test_a_broker_stops_in_order_though_no_controller_is_there(
    make_nodes: MakeNodes, tmp_path: Path
) -> None:
    nodes = await make_nodes(3)
    for other in (2, 3):
        await nodes.crash(other)
    with captured_logs() as lines, trio.fail_after(15):
        await nodes.stop(1)
    assert "controlled shutdown was not granted" in [line["event"] for line in lines]
    assert (tmp_path / "node-1" / CLEAN_SHUTDOWN).exists()


@pytest.mark.bug("CVE-2020-15113")
@pytest.mark.parametrize("which", ["node-1", "other"])
async def test_a_protected_node_does_not_start_in_a_folder_that_others_may_write_to(
    make_nodes: MakeNodes, tmp_path: Path, which: str
) -> None:
    other = tmp_path / "other"
    other.mkdir(mode=0o755)
    settings = {"authorizer.class.name": STANDARD, "log.dirs": f"{tmp_path / 'node-1'},{other}"}
    nodes = await make_nodes(1, settings, start=False)
    await nodes.format()
    (tmp_path / which).chmod(0o770)
    with pytest.raises(ServerConfigError, match=rf"{which} \(its mode is 0770\); chmod go-w it"):
        async with BrokerServer.open(nodes.config(1)):
            pass
    (tmp_path / which).chmod(0o755)
    await nodes.start(1)
