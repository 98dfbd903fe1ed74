"""A protected cluster under load, whose certificates, authority and sealing key are replaced, twice.

Lost are neither records nor connections of clients, and no election is held.
"""

import threading
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path

import confluent_kafka.admin
import pytest
import trio

from quorate.broker.access.sealing import prepend_key
from quorate.broker.admin.admin_client import open_admin
from quorate.broker.admin.users import Sealed, seal_again
from quorate.certs import CertificateFolder
from quorate.cli.console.command_config import network_by
from quorate.cli.node.local_cluster import LocalCluster
from quorate.runtime import Address
from quorate.runtime.real import SyncStrategy, real_runtime
from tests.kit.clusters import running_cluster, wait_in_sync
from tests.kit.steady_client import SteadyClient
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.slow

STATED_SECONDS = 10.0
"""After that, connections of a removed authority have ended."""


def settings_of(cluster: LocalCluster) -> dict[str, object]:
    return {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "admin",
        "sasl.password": cluster.secrets.password,
        "ssl.ca.location": str(cluster.secrets.folder / "ca.pem"),
    }


def term_of(cluster: LocalCluster) -> tuple[object, object]:
    described = cluster.describe_quorum()
    return described["leaderId"], described["leaderEpoch"]


def leaders_of(cluster: LocalCluster, topic: str) -> list[tuple[object, object]]:
    partitions = cluster.describe_topic(topic)["partitions"]
    assert isinstance(partitions, list)
    return [(each["leader"], each["leaderEpoch"]) for each in partitions]


def ended_in(cluster: LocalCluster) -> list[int]:
    """The times that each node has ended connections of a removed authority."""
    return [
        sum("whose authority was removed" in line for line in node.log_file.read_text().splitlines())
        for node in cluster.nodes
    ]


async def seal_by_a_new_key(cluster: LocalCluster) -> Sealed:
    """Replace the sealing key as the manual says, and leave the earlier one nowhere."""
    runtime = real_runtime(sync=SyncStrategy.INLINE)
    keys = cluster.secrets.sealing_keys
    await prepend_key(runtime.disk, str(keys), runtime.entropy)
    addresses = [Address.parse(each) for each in cluster.bootstrap.split(",")]
    async with open_admin(network_by(cluster.secrets.client_file), addresses, client_id="t") as admin:
        sealed = await seal_again(admin)
    keys.write_text(keys.read_text().splitlines(keepends=True)[0])
    return sealed


def settled(cluster: LocalCluster) -> None:
    """Wait as the manual says."""
    time.sleep(STATED_SECONDS)
    assert cluster.running() == [1, 2, 3]


@pytest.mark.timeout(600)
def test_certificates_authority_and_sealing_key_are_replaced_twice_under_load(tmp_path: Path) -> None:
    overrides = {"offsets.topic.num.partitions": "1"}
    with running_cluster(tmp_path / "cluster", secure=True, overrides=overrides) as cluster:
        topic = f"t{uuid.uuid4().hex[:8]}"
        admin = confluent_kafka.admin.AdminClient(settings_of(cluster))
        made = admin.create_topics([confluent_kafka.admin.NewTopic(topic, 3, 3)])
        made[topic].result(timeout=30)
        wait_in_sync(cluster, topic)
        producer, consumer = (SteadyClient(settings_of(cluster), topic) for _ in range(2))
        threads = [threading.Thread(target=each) for each in (producer.produce, consumer.consume)]
        for each in threads:
            each.start()
        try:
            wait_until(lambda: len(consumer.numbers) > 500, "records are read")
            term, leaders = term_of(cluster), leaders_of(cluster, topic)
            before = dict(producer.disconnects), dict(consumer.disconnects)
            certificates = CertificateFolder(cluster.secrets.folder, now=datetime.now(UTC))
            for round_ in (1, 2):
                acknowledged = len(producer.numbers)
                for step in (
                    certificates.add_authority,
                    certificates.renew,
                    certificates.drop_earlier_authorities,
                ):
                    step()
                    settled(cluster)
                    assert term_of(cluster) == term, step.__name__
                assert min(ended_in(cluster)) >= round_, "a node has ended nothing"
                assert len(producer.numbers) > acknowledged + 500
                sealed = trio.run(seal_by_a_new_key, cluster)
                assert (sealed.kept, sealed.unopened) == (0, 0)
                assert sealed.sealed >= 1
                assert term_of(cluster) == term
                # Who comes now sees the new authority and needs the new key, and nothing else.
                late = confluent_kafka.admin.AdminClient(settings_of(cluster))
                assert topic in late.list_topics(timeout=20).topics
            assert leaders_of(cluster, topic) == leaders
            wait_in_sync(cluster, topic)
            lost = dict(producer.disconnects), dict(consumer.disconnects)
        finally:
            producer.stop()
            threads[0].join(90)
            wait_until(lambda: set(producer.numbers) <= set(consumer.numbers), "all is read", seconds=60)
            consumer.stop()
            threads[1].join(90)
        assert not producer.errors
        assert not consumer.errors
        for now, earlier in zip(lost, before, strict=True):
            assert {name: now[name] for name in earlier} == earlier, "a client's connection was lost"
        assert len(producer.numbers) == producer.sent, "not all was acknowledged"
        assert set(producer.numbers) <= set(consumer.numbers)
        assert term_of(cluster) == term
