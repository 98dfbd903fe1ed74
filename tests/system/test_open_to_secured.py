"""An open cluster becomes a protected one by the rolling restarts of its how-to, under load."""

import json
import re
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import confluent_kafka.admin
import pytest

from quorate.certs import CertificateFolder, keystore_of
from quorate.cli.node.free_ports import free_ports
from quorate.cli.node.local_cluster import LocalCluster
from quorate.raft.transport.frames import PREFACE
from quorate.types import NodeId
from tests.kit.clusters import running_cluster
from tests.kit.steady_client import SteadyClient
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "from-open-to-secured.md"
NODES = (1, 2, 3)


def steps() -> list[dict[str, str]]:
    """The keys that each restart of the how-to sets, those of the client left out."""
    blocks = re.findall(r"```properties\n(.*?)```", PAGE.read_text(), re.DOTALL)
    found = [dict(line.split("=", 1) for line in block.splitlines()) for block in blocks]
    return [each for each in found if "security.protocol" not in each]


class Rolling:
    """The cluster with the keys of its nodes, and a listener of each for every name."""

    def __init__(self, cluster: LocalCluster, secrets: Path) -> None:
        self._cluster = cluster
        self._secrets = secrets
        self._keys: dict[str, str] = {}
        self.ports = {name: free_ports(len(NODES)) for name in ("BROKERS", "CLIENTS")}

    def port(self, name: str, node: int) -> int:
        plan = self._cluster.node(node)
        own = {"PLAINTEXT": plan.client_port, "CONTROLLER": plan.controller_port}
        return own[name] if name in own else self.ports[name][node - 1]

    def at(self, name: str) -> str:
        return ",".join(f"127.0.0.1:{self.port(name, node)}" for node in NODES)

    def restart(self, keys: Mapping[str, str]) -> None:
        """Restart every node in turn with these keys beside the earlier ones, as the how-to says."""
        self._keys.update(keys)
        for node in NODES:
            self._write(node)
            self._cluster.stop(node)
            self._cluster.start(node)
            wait_until(lambda: not self.lagging(), lambda: f"in sync, but {self.lagging()}", seconds=60)

    def _write(self, node: int) -> None:
        file = self._cluster.node(node).config_file
        lines = dict(line.split("=", 1) for line in file.read_text().splitlines())
        for key, value in self._keys.items():
            own = re.sub(r"(\w+)://[^:]*:\d+", lambda m: f"{m[1]}://127.0.0.1:{self.port(m[1], node)}", value)
            own = own.replace("node-1-", f"node-{node}-").replace("/etc/quorate", str(self._secrets))
            lines[key] = own
        file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))

    def lagging(self) -> list[object]:
        """The partitions that lack replicas, by the command of the how-to; until then what it said."""
        secured = self._keys.get("inter.broker.listener.name") == "BROKERS"
        said = self.run("topics", "describe", "--under-replicated-partitions", "--json", secured=secured)
        return [said.stderr] if said.returncode else json.loads(said.stdout)

    def run(self, *arguments: str, secured: bool = True) -> "subprocess.CompletedProcess[str]":
        way = ["--command-config", str(self._secrets / "admin.properties")] if secured else []
        where = self.at("BROKERS" if secured else "PLAINTEXT")
        return subprocess.run(
            [sys.executable, "-m", "quorate.cli.main", *arguments, *way, "-b", where],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip


def first_answer(port: int, said: bytes) -> bytes:
    """What a stranger without TLS is answered first; nothing: the connection ends."""
    with socket.create_connection(("127.0.0.1", port), 5) as stranger:
        stranger.sendall(said)
        try:
            return stranger.recv(1)
        except OSError:
            return b""


@pytest.mark.timeout(600)
def test_an_open_cluster_is_secured_by_three_rolling_restarts_under_load(tmp_path: Path) -> None:
    overrides = {"offsets.topic.num.partitions": "1", "controlled.shutdown.enable": "true"}
    with running_cluster(tmp_path / "cluster", overrides=overrides) as cluster:
        secrets = tmp_path / "secrets"
        certificates = CertificateFolder(secrets, now=datetime.now(UTC))
        meta = (cluster.node(1).folder / "data" / "meta.properties").read_text()
        certificates.create_authority(re.findall(r"cluster.id=(\S+)", meta)[0])
        for node in NODES:
            certificates.create_node(NodeId(node), hosts=["127.0.0.1"])
        keystore = keystore_of(certificates.create_client("admin").certificate)
        rolling = Rolling(cluster, secrets)
        made = subprocess.run(
            [sys.executable, "-m", "quorate.cli.main", "users", "create-key", str(secrets / "sealing.key")],
            check=False,
        )
        assert made.returncode == 0
        (secrets / "admin.properties").write_text(
            f"security.protocol=SSL\nssl.keystore.location={keystore}\nssl.truststore.location={secrets}/ca.pem\n"
        )
        (secrets / "admin.properties").chmod(0o600)
        topic, other = f"t{uuid.uuid4().hex[:8]}", f"o{uuid.uuid4().hex[:8]}"
        open_ = {"bootstrap.servers": rolling.at("PLAINTEXT")}
        admin = confluent_kafka.admin.AdminClient(open_)
        topics = [confluent_kafka.admin.NewTopic(each, 3, 3) for each in (topic, other)]
        for future in admin.create_topics(topics).values():
            future.result(timeout=30)
        first, second, third = steps()
        logging_in = {
            "bootstrap.servers": rolling.at("CLIENTS"), "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "shop",
            "sasl.password": "a-password-of-shops",
            "ssl.ca.location": str(secrets / "ca.pem"),
        }  # fmt: skip
        before = [SteadyClient(open_, topic) for _ in range(2)]
        after = [SteadyClient(logging_in, topic) for _ in range(2)]
        running = _begin(before)
        try:
            wait_until(lambda: len(before[1].numbers) > 200, "records are read")
            rolling.restart(first)
            rolling.restart(second)
            (tmp_path / "shop.password").write_text("a-password-of-shops\n")
            (tmp_path / "shop.password").chmod(0o600)
            said = rolling.run("users", "set", "shop", "--password-file", str(tmp_path / "shop.password"))
            assert said.returncode == 0, said.stderr
            # The application moves: its first clients end, those that log in go on.
            _end(before, running)
            running = _begin(after)
            for rights in (["--producer"], ["--consumer", "--group", f"g-{topic}"]):
                said = rolling.run("acls", "add", "--allow-principal", "User:shop", "--topic", topic, *rights)
                assert said.returncode == 0, said.stderr
            wait_until(lambda: len(after[0].numbers) > 200, "records are written by who has logged in")
            wait_until(lambda: _describes(admin, topic) is False, "who has not logged in may not use it")
            assert _describes(admin, other) is True, "no ACL speaks of it yet"
            rolling.restart(third)
            sent = len(after[0].numbers)
            wait_until(lambda: len(after[0].numbers) > sent + 200, "records are written after all")
        finally:
            _end([*before, *after], running)
        said = rolling.run("acls", "unused", "--json")
        assert said.returncode == 0, said.stderr
        unused = json.loads(said.stdout)
        assert [each["broker"] for each in unused["brokers"]] == list(NODES)
        assert not [each for each in unused["acls"] if each["operation"] == "WRITE"], "the producer needs it"
        for producer, consumer in (before, after):
            assert len(producer.numbers) == producer.sent, "not all was acknowledged"
            assert set(producer.numbers) <= set(consumer.numbers), "acknowledged, and not read"
        for node in NODES:
            assert first_answer(cluster.node(node).controller_port, PREFACE) == b"", "the quorum is open"
            assert "it does not speak TLS" in cluster.node(node).log_file.read_text()
            assert first_answer(rolling.port("BROKERS", node), b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff") == b""
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", cluster.node(node).client_port), 5)
        stranger = confluent_kafka.admin.AdminClient(logging_in)
        assert _describes(stranger, topic) is True
        assert _describes(stranger, other) is False, "no ACL allows it"


def _begin(pair: list[SteadyClient]) -> list[threading.Thread]:
    threads = [threading.Thread(target=pair[0].produce), threading.Thread(target=pair[1].consume)]
    for each in threads:
        each.start()
    return threads


def _end(clients: list[SteadyClient], threads: list[threading.Thread]) -> None:
    """End the producer, wait until the consumer has read what was acknowledged, and end it too."""
    producer, consumer = clients[-2:]
    producer.stop()
    threads[0].join(90)
    deadline = time.monotonic() + 60
    while not set(producer.numbers) <= set(consumer.numbers) and time.monotonic() < deadline:
        time.sleep(0.1)
    for each in clients:
        each.stop()
    threads[1].join(90)


def _describes(admin: confluent_kafka.admin.AdminClient, topic: str) -> bool:
    return topic in admin.list_topics(timeout=20).topics
