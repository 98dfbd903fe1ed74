"""The page of a running node: on by default, off by its key, and at each offset what the node had applied."""

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import trio

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.node_config.server_config import ServerConfig
from quorate.broker.page.node_view import NodeLog
from quorate.broker.page.replayed import Past
from quorate.broker.server import BrokerServer
from quorate.cli.node.free_ports import free_ports
from quorate.health import PageDiagnosis
from quorate.raft.storage.storage import format_folder
from quorate.runtime.real import SyncStrategy, real_runtime
from quorate.types import NodeId

pytestmark = pytest.mark.real_time


async def configured(folder: Path, **settings: str) -> ServerConfig:
    controller, client = free_ports(2)
    values = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "controller.quorum.election.timeout.ms": "100",
        "listeners": f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
        "log.dirs": str(folder),
        "metrics.http.port": "0",
    } | {name.replace("_", "."): value for name, value in settings.items()}
    await format_folder(
        real_runtime(sync=SyncStrategy.THREAD), str(folder), cluster_id="c", node_id=NodeId(1)
    )
    return ServerConfig.parse("\n".join(f"{key}={value}" for key, value in values.items()))


async def get(server: BrokerServer, target: str) -> tuple[int, bytes]:
    def ask() -> tuple[int, bytes]:
        try:
            with urllib.request.urlopen(f"http://{server.metrics_address}{target}", timeout=20) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    return await trio.to_thread.run_sync(ask)


async def test_a_node_shows_itself_and_each_offset_as_it_was(tmp_path: Path) -> None:
    config = await configured(tmp_path / "node")
    async with BrokerServer.open(config, health=PageDiagnosis()) as server:
        had: dict[int, MetadataImage] = {}
        server.metadata.subscribe(lambda delta, image: had.update({delta.end_offset - 1: image.copy()}))
        await server.wait_ready()
        status, html = await get(server, "/")
        assert status == 200 and html.startswith(b"<!doctype html>")
        told: dict[str, Any] = json.loads((await get(server, "/page/api/summary"))[1])
        assert [(each["id"], each["state"]) for each in told["brokers"]] == [(1, "up")]
        health = json.loads((await get(server, "/page/api/health"))[1])["health"]
        assert (health["total"], health["problems"]) == (0, [])
        known = {each["source"]: each["problem"] for each in health["sources"]}
        assert known == {
            "the metadata log": None,
            "the leader of the quorum": None,
            "the disks of broker 1": None,
        }
        assert told["quorum"]["leader"] == 1
        assert [each["id"] for each in told["quorum"]["replicas"]] == [1]
        (folder,) = told["directories"]
        assert folder["path"] == str(tmp_path / "node") and not folder["failed"]
        # From the log, and then from a snapshot.
        for _ in range(2):
            past = Past(NodeLog(server.quorum))
            assert had
            for offset, image in had.items():
                assert (await past.at(offset)).image == image
            seen = await past.at(past.latest)
            assert seen.image == server.metadata.image
            assert seen.elected is not None and seen.elected.leader == 1
            await server.quorum.take_snapshot()
        assert [each for each in server.quorum.snapshots() if each.end_offset]
        changes = json.loads((await get(server, "/page/api/changes"))[1])["changes"]
        assert "broker 1 unfenced" in [each["what"] for each in changes]


async def test_without_its_key_there_are_metrics_alone(tmp_path: Path) -> None:
    config = await configured(tmp_path / "node", metrics_http_page="false")
    async with BrokerServer.open(config) as server:
        await server.wait_ready()
        for target in ("/", "/page/app.js", "/page/api/summary"):
            assert (await get(server, target))[0] == 404
        assert (await get(server, "/metrics"))[0] == 200
