"""The systems that quorate is compared with, as clusters of processes, with their defaults."""

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from clusters import HERE, Cluster

from quorate.cli.node.free_ports import free_ports

ZOOKEEPER_JAR = Path("/usr/share/java/zookeeper.jar")


class Rival(Cluster):
    """`client`: the command of `build_client`, or of door_client.py."""

    def __init__(self, folder: Path, client: Sequence[str], *, size: int = 3) -> None:
        super().__init__(folder, size=size)
        self._client_program = client
        ports = iter(free_ports(3 * size))
        self.client_ports = {number: next(ports) for number in self.numbers}
        self.peer_ports = {number: next(ports) for number in self.numbers}
        self.election_ports = {number: next(ports) for number in self.numbers}

    def client_command(self) -> list[str]:
        addresses = ",".join(f"127.0.0.1:{port}" for port in self.client_ports.values())
        return [*self._client_program, self.name, addresses]


class Etcd(Rival):
    name = "etcd"

    def node_command(self, number: int) -> list[str]:
        peers = {each: f"http://127.0.0.1:{port}" for each, port in self.peer_ports.items()}
        client = f"http://127.0.0.1:{self.client_ports[number]}"
        return [
            "etcd", "--name", f"n{number}", "--data-dir", str(self.folder / f"n{number}"),
            "--listen-peer-urls", peers[number], "--initial-advertise-peer-urls", peers[number],
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--initial-cluster", ",".join(f"n{each}={peer}" for each, peer in peers.items()),
            "--initial-cluster-state", "new", "--log-level", "error",
        ]  # fmt: skip


class ZooKeeper(Rival):
    name = "zookeeper"

    def node_command(self, number: int) -> list[str]:
        folder = self.folder / str(number)
        folder.mkdir(exist_ok=True)
        (folder / "myid").write_text(f"{number}\n")
        servers = "".join(
            f"server.{each}=127.0.0.1:{self.peer_ports[each]}:{self.election_ports[each]}\n"
            for each in self.numbers
        )
        # tickTime, initLimit and syncLimit as in Debian's zoo.cfg.
        (folder / "zoo.cfg").write_text(
            f"tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir={folder}\n"
            f"clientPort={self.client_ports[number]}\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\n"
            f"admin.enableServer=false\n{servers}"
        )
        (folder / "log4j.properties").write_text(
            "log4j.rootLogger=WARN, console\nlog4j.appender.console=org.apache.log4j.ConsoleAppender\n"
            "log4j.appender.console.layout=org.apache.log4j.SimpleLayout\n"
        )
        return [
            "java", "-cp", f"{folder}:{ZOOKEEPER_JAR}",
            "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(folder / "zoo.cfg"),
        ]  # fmt: skip


class PySyncObj(Rival):
    name = "pysyncobj"

    def node_command(self, number: int) -> list[str]:
        own = f"127.0.0.1:{self.peer_ports[number]}"
        peers = [f"127.0.0.1:{port}" for each, port in self.peer_ports.items() if each != number]
        return [
            sys.executable, str(HERE / "pysyncobj_node.py"),
            str(self.client_ports[number]), str(self.folder / f"{number}.journal"), own, *peers,
        ]  # fmt: skip


def available(*, in_python: bool = False) -> tuple[list[type[Rival]], list[str]]:
    """The rivals that can be run, with a client in Go or in Python, and why each of the others can't."""
    go = {} if in_python else {"Go": shutil.which("go") is not None}
    needs: dict[type[Rival], dict[str, bool]] = {
        Etcd: {**go, "apt install etcd-server": shutil.which("etcd") is not None},
        ZooKeeper: {
            **go,
            "Java": shutil.which("java") is not None,
            "apt install zookeeper": ZOOKEEPER_JAR.exists(),
        },
        PySyncObj: {**go, "pip install pysyncobj": _has("pysyncobj")},
    }
    if in_python:
        needs[Etcd]["pip install grpcio"] = _has("grpc")
        needs[ZooKeeper]["pip install kazoo"] = _has("kazoo")
    present = [rival for rival, need in needs.items() if all(need.values())]
    absent = [
        f"{rival.name} is left out; it needs: {', '.join(what for what, met in need.items() if not met)}"
        for rival, need in needs.items()
        if rival not in present
    ]
    return present, absent


def _has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def choose(names: list[str], *, in_python: bool = False) -> tuple[list[type[Rival]], list[str]]:
    """Those named, or all without names, that can be run; and why others can't."""
    present, absent = available(in_python=in_python)
    return [rival for rival in present if not names or rival.name in names], [] if names else absent


def build_client(folder: Path) -> list[str]:
    """Build the client in Go, and return its command. Raises `CalledProcessError`."""
    target = folder / "rival_client"
    subprocess.run(
        ["go", "build", "-o", str(target), "."], cwd=HERE / "rival_client", timeout=600, check=True
    )
    return [str(target)]
