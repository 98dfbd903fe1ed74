"""A fourth node joins a protected cluster by a token while it runs: no key is copied to it."""

import shutil
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import confluent_kafka.admin
import pytest
import trio

from quorate.certs import JoinTokens, join, serve_joins
from quorate.cli.node.local_cluster import LocalCluster
from quorate.runtime import Address
from quorate.runtime.real import RealNetwork, SyncStrategy, real_runtime
from quorate.types import NodeId
from tests.kit.clusters import wait_in_sync
from tests.system.test_rotation import settings_of

pytestmark = pytest.mark.slow


async def join_by_token(authority: Path, node: int, folder: Path) -> None:
    token, _, _ = JoinTokens(authority, now=datetime.now(UTC)).create(
        NodeId(node), hosts=["localhost", "127.0.0.1"]
    )
    bound: list[Address] = []
    async with trio.open_nursery() as nursery:
        started = trio.Event()

        def note(address: Address) -> None:
            bound.append(address)
            started.set()

        serve = partial(serve_joins, runtime=real_runtime(sync=SyncStrategy.INLINE), started=note)
        nursery.start_soon(serve, authority, Address("127.0.0.1", 0))
        await started.wait()
        await join(token, bound[0], folder, network=RealNetwork())
        nursery.cancel_scope.cancel()


def test_a_node_that_joined_replicates(tmp_path: Path) -> None:
    cluster = LocalCluster.plan(
        tmp_path / "cluster",
        nodes=4,
        client_port=0,
        voters=3,
        secure=True,
        overrides={"offsets.topic.num.partitions": "1"},
    )
    secrets = cluster.secrets.folder
    authority = tmp_path / "authority"
    try:
        cluster.prepare()
        for each in secrets.glob("node-4*"):
            each.unlink()
        authority.mkdir(mode=0o700)
        shutil.copy(secrets / "ca.pem", authority)
        shutil.move(secrets / "ca-key.pem", authority)
        cluster.start(1, 2, 3)
        cluster.wait_ready()
        assert cluster.live_brokers() == {1, 2, 3}
        trio.run(join_by_token, authority, 4, secrets)
        cluster.start(4)
        cluster.wait_ready()
        assert cluster.live_brokers() == {1, 2, 3, 4}
        admin = confluent_kafka.admin.AdminClient(settings_of(cluster))
        made = admin.create_topics([confluent_kafka.admin.NewTopic("orders", 2, 4)])
        made["orders"].result(timeout=30)
        producer = confluent_kafka.Producer({**settings_of(cluster), "acks": "all"})
        for number in range(100):
            producer.produce("orders", str(number))
        assert producer.flush(30) == 0
        wait_in_sync(cluster, "orders")
        partitions = cluster.describe_topic("orders")["partitions"]
        assert [sorted(each["isr"]) for each in partitions] == [[1, 2, 3, 4]] * 2
        assert not (authority / "node-4-key.pem").exists()
    finally:
        cluster.kill_all()
