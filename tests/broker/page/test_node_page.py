"""The page of a running node: on by default, off by its key, and at each offset what the node had applied."""

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import trio
from confluent_kafka import Consumer, Producer, TopicPartition

from quorate.broker.groups.group_lags import GroupLag, GroupLags
from quorate.broker.groups.group_state import GroupState
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.node_config.server_config import ServerConfig
from quorate.broker.page import recent_groups
from quorate.broker.page.node_view import NodeLog, NodeView
from quorate.broker.page.recent import Recent
from quorate.broker.page.recent_groups import RecentGroups
from quorate.broker.page.replayed import Past
from quorate.broker.page.votes import Votes
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


async def test_a_group_is_shown_with_the_records_that_it_has_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent_groups, "SAMPLE_SECONDS", 0.1)
    config = await configured(
        tmp_path / "node", offsets_topic_num_partitions="3", offsets_topic_replication_factor="1"
    )
    (listener,) = config.client_listeners
    names = {"bootstrap.servers": str(listener.address), "group.id": "billing"}

    def write_and_commit() -> None:
        producer = Producer(names)
        for _ in range(10):
            producer.produce("orders", b"x", partition=0)
        assert producer.flush(20) == 0
        consumer = Consumer(names)
        consumer.commit(offsets=[TopicPartition("orders", 0, 4)], asynchronous=False)
        consumer.close()

    async with BrokerServer.open(config, health=PageDiagnosis()) as server:
        await server.wait_ready()
        await trio.to_thread.run_sync(write_and_commit)
        told: dict[str, Any] = {"groups": []}
        with trio.fail_after(20):
            while not told["groups"] or told["groups"][0]["lag"] != 6:
                await trio.sleep(0.1)
                told = json.loads((await get(server, "/page/api/groups"))[1])
        (group,) = told["groups"]
        assert (group["group"], group["state"], group["members"]) == ("billing", "Empty", 0)
        assert (group["known"], group["unknown"], told["coordinators"]) == (1, 0, {"1": 3})
        assert told["series"]["billing"][-1] == 6
        one = json.loads((await get(server, "/page/api/groups?name=nobody"))[1])
        assert (one["coordinator"], one["found"]) == (1, None)


async def test_a_group_that_rebalances_without_end_is_a_problem(tmp_path: Path) -> None:
    config = await configured(tmp_path / "node")
    async with BrokerServer.open(config) as server:
        await server.wait_ready()
        assert server.broker is not None
        began = real_runtime(sync=SyncStrategy.INLINE).wall_clock.now_ms()
        state = GroupState.STABLE

        async def look() -> GroupLags:
            return GroupLags((GroupLag(group_id="g", state=state, members=1),), 0)

        times = [0]
        groups = RecentGroups(look, now_ms=lambda: began + times[0])
        live = NodeView(
            node_id=1,
            cluster_id="c",
            metadata=server.metadata,
            quorum=server.quorum,
            replicas=server.broker.replicas,
            recent=Recent(rates={}, gauges={}, now_ms=lambda: began),
            now_ms=lambda: began,
            votes=Votes(lambda: began),
            groups=groups,
        )

        async def problems() -> list[tuple[str, str, int | None]]:
            view = await PageDiagnosis().of_present(live, NodeLog(server.quorum))
            return [(each.name, each.where, each.since_ms) for each in view.problems]

        for times[0], was in ((-90_000, GroupState.STABLE), (-61_000, GroupState.PREPARING_REBALANCE)):
            state = was
            await groups.sample()
        times[0], state = 0, GroupState.COMPLETING_REBALANCE
        await groups.sample()
        assert ("group-rebalancing", "group g", began - 61_000) in await problems()
        state = GroupState.STABLE
        await groups.sample()
        assert "group-rebalancing" not in [each[0] for each in await problems()]


async def test_without_its_key_there_are_metrics_alone(tmp_path: Path) -> None:
    config = await configured(tmp_path / "node", metrics_http_page="false")
    async with BrokerServer.open(config) as server:
        await server.wait_ready()
        for target in ("/", "/page/app.js", "/page/api/summary"):
            assert (await get(server, target))[0] == 404
        assert (await get(server, "/metrics"))[0] == 200
