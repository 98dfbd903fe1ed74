"""Three nodes of the benchmark's quorum, and three of etcd, as processes."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from quorate.cli.local_cluster import free_ports

HERE = Path(__file__).parent


@dataclass
class QuorumProcesses:
    """quorate: one process a node, the client in another, over TCP."""

    folder: Path
    ports: list[int] = field(default_factory=lambda: free_ports(3))
    processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def voters(self) -> str:
        return ",".join(f"{node}@127.0.0.1:{port}" for node, port in enumerate(self.ports, 1))

    def start(self, *nodes: int) -> None:
        for node in nodes or (1, 2, 3):
            self.processes[node] = subprocess.Popen(
                [
                    sys.executable,
                    str(HERE / "quorum_node.py"),
                    str(node),
                    str(self.folder / str(node)),
                    self.voters,
                ],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    def load(self, *, in_flight: int, seconds: float, size: int = 100) -> dict[str, float]:
        done = subprocess.run(
            [
                sys.executable,
                str(HERE / "quorum_client.py"),
                self.voters,
                str(in_flight),
                str(seconds),
                str(size),
            ],
            stdout=subprocess.PIPE,
            check=True,
            timeout=seconds + 60,
        )
        return dict(json.loads(done.stdout))

    def cpu_seconds(self) -> float:
        return sum(cpu_seconds(process.pid) for process in self.processes.values())

    def kill(self, node: int) -> None:
        self.processes[node].send_signal(signal.SIGKILL)
        self.processes[node].wait()

    def stop(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()


@dataclass
class EtcdProcesses:
    """etcd from Debian, its Go client built from benchmarks/etcd_client."""

    folder: Path
    client: Path
    ports: list[int] = field(default_factory=lambda: free_ports(6))
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self) -> None:
        peers = [f"http://127.0.0.1:{port}" for port in self.ports[:3]]
        clients = [f"http://127.0.0.1:{port}" for port in self.ports[3:]]
        members = ",".join(f"n{n}={peer}" for n, peer in enumerate(peers))
        for n in range(3):
            self.processes.append(
                subprocess.Popen(
                    ["etcd", "--name", f"n{n}", "--data-dir", str(self.folder / f"n{n}"),
                     "--listen-peer-urls", peers[n], "--initial-advertise-peer-urls", peers[n],
                     "--listen-client-urls", clients[n], "--advertise-client-urls", clients[n],
                     "--initial-cluster", members, "--initial-cluster-state", "new", "--log-level", "error"],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )  # fmt: skip

    def load(self, *, in_flight: int, seconds: float, size: int = 100) -> dict[str, float]:
        endpoints = ",".join(f"127.0.0.1:{port}" for port in self.ports[3:])
        deadline = time.monotonic() + 30
        while True:
            done = subprocess.run(
                [str(self.client), endpoints, str(in_flight), str(seconds), str(size)],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=seconds + 60,
            )
            if done.returncode == 0:
                return dict(json.loads(done.stdout))
            if time.monotonic() > deadline:
                raise RuntimeError("etcd's client failed for 30 s")
            time.sleep(0.5)

    def cpu_seconds(self) -> float:
        return sum(cpu_seconds(process.pid) for process in self.processes)

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


def build_etcd_client(folder: Path) -> Path | None:
    """None without etcd or Go; the table then says so."""
    if shutil.which("etcd") is None or shutil.which("go") is None:
        return None
    target = folder / "etcd_client"
    built = subprocess.run(["go", "build", "-o", str(target), "."], cwd=HERE / "etcd_client", timeout=600)
    return target if built.returncode == 0 else None


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"no VmRSS for {pid}")
