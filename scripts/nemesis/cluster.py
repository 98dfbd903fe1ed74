"""Real nodes: processes in network namespaces of their own, each on a small disk of its own."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import trio
import trio.lowlevel
from links import Links, NotSentError

from quorate.raft.core.events import AddVoter, RemoveVoter
from quorate.raft.quorum_errors import QuorumError
from quorate.runtime.entropy import uuid_text
from quorate.runtime.network import Address
from quorate.types import Endpoint, NodeId, ReplicaKey, Voter

CLUSTER_ID = "nemesis"
HERE = Path(__file__).parent
PORT = 9093
OUTSIDE = 200
"""Where clients are, and the nemesis itself: in this namespace."""
DISK_SIZE = "24m"
SNAPSHOT_BYTES = 32 * 1024
STOPPED = 3
"""Exit code of a node that ended by itself."""


class CantRunHereError(Exception):
    """This machine has no namespaces or no tun devices for us; the message says why."""


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise CantRunHereError(f"{' '.join(command)}: {done.stderr.strip()}")


def missing() -> str | None:
    """Why there can't be such a cluster here."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "ip is not installed (Debian: apt-get install iproute2)"
    if not Path("/dev/net/tun").exists():
        return "there is no /dev/net/tun"
    return None


@dataclass(slots=True)
class Host:
    """One node's machine: namespace, disk, and the process while there is one."""

    number: int
    address: Address
    device: str
    namespace: str
    disk: Path
    log_file: Path
    directory_id: str
    first: bool = True
    """Whether it was there when the cluster was made; a new disk comes without the first voters."""
    process: trio.Process | None = None
    killed: bool = False
    paused: bool = False
    disk_full: bool = False

    @property
    def folder(self) -> Path:
        return self.disk / "data"

    @property
    def filler(self) -> Path:
        return self.disk / "filler"

    @property
    def up(self) -> bool:
        return self.process is not None and not self.paused

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(NodeId(self.number), self.directory_id)

    @property
    def voter(self) -> Voter:
        return Voter(self.key, Endpoint(self.address.host, self.address.port))


@dataclass(slots=True)
class Cluster:
    folder: Path
    seed: int
    nodes: int
    nursery: trio.Nursery
    say: Callable[[str], None]
    hosts: dict[int, Host] = field(default_factory=dict)
    wire: trio.Process | None = None
    wire_said: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    """Of processes that ended when nothing had been done to them."""
    ended_by_full_disk: int = 0
    has_netem: bool = False
    links: Links = field(init=False)
    _changing: trio.Lock = field(default_factory=trio.Lock)
    _name: str = field(init=False)
    _network: str = field(init=False)

    def __post_init__(self) -> None:
        number = os.getpid()
        # The kernel allows device names of 15 characters.
        self._name = f"nem{number % 100_000}"
        self._network = f"10.{100 + number % 50}.{number // 50 % 250}"
        ids = directory_ids(self.seed, self.nodes)
        for node in range(1, self.nodes + 1):
            self.hosts[node] = Host(
                number=node,
                address=Address(f"{self._network}.{node}", PORT),
                device=f"{self._name}d{node}",
                namespace=f"{self._name}n{node}",
                disk=self.folder / f"disk-{node}",
                log_file=self.folder / f"node-{node}.log",
                directory_id=ids[node - 1],
            )
        self.links = Links(self.nursery, CLUSTER_ID, self.addresses)

    @property
    def addresses(self) -> dict[int, Address]:
        return {node: host.address for node, host in self.hosts.items()}

    # The machines

    async def build(self) -> None:
        """Raises `CantRunHereError`."""
        outside = f"{self._name}d{OUTSIDE}"
        devices = {**{node: host.device for node, host in self.hosts.items()}, OUTSIDE: outside}
        self.wire = await trio.lowlevel.open_process(
            [
                sys.executable,
                str(HERE / "wire.py"),
                str(self.seed),
                *(f"{n}={d}" for n, d in devices.items()),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        if not (await self._line_of_wire()).startswith("ready"):
            raise CantRunHereError("tun devices can't be made here")
        for host in self.hosts.values():
            run("ip", "netns", "add", host.namespace)
            run("ip", "link", "set", host.device, "netns", host.namespace)
            inside = ("ip", "-n", host.namespace)
            run(*inside, "addr", "add", f"{host.address.host}/24", "dev", host.device)
            run(*inside, "link", "set", host.device, "up")
            run(*inside, "link", "set", "lo", "up")
            host.disk.mkdir(parents=True)
            run("mount", "-t", "tmpfs", "-o", f"size={DISK_SIZE}", self._name, str(host.disk))
        run("ip", "addr", "add", f"{self._network}.{OUTSIDE}/24", "dev", outside)
        run("ip", "link", "set", outside, "up")
        self.has_netem = self.set_netem(1, "delay", "1ms")
        self.clear_netem(1)

    def remove(self) -> None:
        """Whatever there is of it, by name; also halfway."""
        for host in self.hosts.values():
            if host.process is not None and host.process.returncode is None:
                host.process.kill()
                with suppress(ChildProcessError):  # trio was faster
                    os.waitpid(host.process.pid, 0)
        if self.wire is not None and self.wire.returncode is None:
            self.wire.kill()  # with its devices
            with suppress(ChildProcessError):
                os.waitpid(self.wire.pid, 0)
        for host in self.hosts.values():
            subprocess.run(["ip", "netns", "del", host.namespace], capture_output=True)
            subprocess.run(["umount", "-l", str(host.disk)], capture_output=True)

    async def stop_wire(self) -> None:
        """And hear what it carried."""
        assert self.wire is not None and self.wire.stdin is not None
        await self.wire.stdin.aclose()
        self.wire_said = json.loads(await self._line_of_wire())

    async def set_rules(self, rules: dict[str, list[float]]) -> None:
        """See `wire.py`; they hold when this returns."""
        async with self._changing:
            assert self.wire is not None and self.wire.stdin is not None
            await self.wire.stdin.send_all(json.dumps(rules).encode() + b"\n")
            await self._line_of_wire()

    async def _line_of_wire(self) -> str:
        assert self.wire is not None and self.wire.stdout is not None
        line = b""
        while not line.endswith(b"\n"):
            more = await self.wire.stdout.receive_some()
            if not more:
                return ""
            line += more
        return line.decode()

    def set_netem(self, node: int, *how: str) -> bool:
        """The kernel's own fault injection, on what the node sends; False where the kernel has none."""
        host = self.hosts[node]
        command = (
            "ip",
            "netns",
            "exec",
            host.namespace,
            "tc",
            "qdisc",
            "replace",
            "dev",
            host.device,
            "root",
        )
        return (
            shutil.which("tc") is not None
            and subprocess.run([*command, "netem", *how], capture_output=True).returncode == 0
        )

    def clear_netem(self, node: int) -> None:
        host = self.hosts[node]
        if shutil.which("tc") is not None:
            subprocess.run(
                ["ip", "netns", "exec", host.namespace, "tc", "qdisc", "del", "dev", host.device, "root"],
                capture_output=True,
            )

    # The processes

    async def start(self, node: int) -> None:
        host = self.hosts[node]
        voters = [
            (each.number, each.directory_id, each.address.host, each.address.port)
            for each in self.hosts.values()
        ]
        arguments = {
            "node": node,
            "folder": str(host.folder),
            "cluster_id": CLUSTER_ID,
            "host": host.address.host,
            "port": host.address.port,
            "servers": [(each.host, each.port) for each in self.addresses.values()],
            "first_voters": voters if host.first else [],
            "snapshot_bytes": SNAPSHOT_BYTES,
        }
        with host.log_file.open("ab") as output:
            # Of `ip netns exec` remains the node itself.
            host.process = await trio.lowlevel.open_process(
                ["ip", "netns", "exec", host.namespace, sys.executable, str(HERE / "node.py"),
                 json.dumps(arguments)],
                stdin=subprocess.PIPE, stdout=output, stderr=output,
            )  # fmt: skip
        host.killed = host.paused = False
        self.nursery.start_soon(self._watch, host, host.process)

    async def _watch(self, host: Host, process: trio.Process) -> None:
        code = await process.wait()
        if host.process is process:
            host.process = None
        if host.killed:
            return
        said = host.log_file.read_bytes()[-2000:].decode(errors="replace").splitlines()
        last = said[-1] if said else ""
        if host.disk_full and code == STOPPED and "no space left" in last.lower():
            self.ended_by_full_disk += 1
            self.say(f"node {host.number} stopped on its full disk: {last}")
        else:
            self.failures.append(f"node {host.number} ended by itself with code {code}: {last}")
            self.say(self.failures[-1])

    async def wait_ended(self, node: int) -> None:
        host = self.hosts[node]
        while host.process is not None:
            await host.process.wait()
            await trio.sleep(0.05)  # until the watch has heard it, too

    async def kill(self, node: int) -> None:
        host = self.hosts[node]
        process = host.process
        if process is not None:
            host.killed = True
            process.kill()
            await process.wait()
            host.process, host.paused = None, False

    def pause(self, node: int) -> bool:
        host = self.hosts[node]
        if host.process is None or host.process.returncode is not None:
            return False
        host.process.send_signal(signal.SIGSTOP)
        host.paused = True
        return True

    def go_on(self, node: int) -> None:
        host = self.hosts[node]
        if host.process is not None and host.paused:
            host.process.send_signal(signal.SIGCONT)
        host.paused = False

    # The disks

    def fill(self, node: int) -> None:
        host = self.hosts[node]
        host.disk_full = True
        with host.filler.open("wb", buffering=0) as file:
            for size in (1 << 20, 4096):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    pass

    def make_room(self, node: int) -> None:
        self.hosts[node].filler.unlink(missing_ok=True)

    async def replace_disk(self, node: int) -> None:
        """Kill it, and start it on an empty disk, as another replica."""
        await self.kill(node)
        host = self.hosts[node]
        shutil.rmtree(host.folder)
        host.first = False
        await self.start(node)
        identity = host.folder / "meta.properties"
        while not identity.exists():  # noqa: ASYNC110 (another process makes it)
            await trio.sleep(0.05)
        host.directory_id = next(
            line.partition("=")[2]
            for line in identity.read_text().splitlines()
            if line.startswith("directory.id=")
        )

    # What the quorum is asked for

    async def leader(self) -> int | None:
        """As a node that is up says."""
        for node, host in self.hosts.items():
            if host.up:
                try:
                    status = await self.links.ask(node, {"status": True}, seconds=2)
                except (NotSentError, QuorumError):
                    continue
                if status["leader"] is not None:
                    return int(status["leader"])
        return None

    async def transfer(self, to: int) -> bool:
        return await self._operate(lambda channel: channel.transfer_leadership(NodeId(to)))

    async def remove_voter(self, node: int) -> bool:
        key = self.hosts[node].key
        return await self._operate(lambda channel: channel.change_voters(RemoveVoter(key)))

    async def add_voter(self, node: int) -> bool:
        voter = self.hosts[node].voter
        return await self._operate(lambda channel: channel.change_voters(AddVoter(voter)))

    async def take_snapshot(self, node: int) -> bool:
        return await self._operate(lambda channel: channel.take_snapshot(), at=node)

    async def _operate(self, action: Callable[..., object], *, at: int | None = None) -> bool:
        """At the leader, unless said otherwise; whether it was done."""
        node = at if at is not None else await self.leader()
        if node is None:
            return False
        try:
            channel = await self.links.to(node)
            with trio.move_on_after(8):
                await action(channel)  # type: ignore[misc]
                return True
        except (NotSentError, QuorumError) as error:
            self.say(f"refused by node {node}: {error}")
        return False

    async def restore_voters(self) -> bool:
        """One step towards all nodes being voters, with the disks they have now. Whether they are."""
        leader = await self.leader()
        if leader is None:
            return False
        try:
            status = await self.links.ask(leader, {"status": True}, seconds=2)
        except (NotSentError, QuorumError):
            return False
        voters = {(node, directory) for node, directory in status["voters"]}
        wanted = {(node, host.directory_id): node for node, host in self.hosts.items()}
        for node, directory in sorted(voters - wanted.keys()):
            key = ReplicaKey(NodeId(node), directory)
            await self._operate(lambda channel, key=key: channel.change_voters(RemoveVoter(key)))
            return False
        for missing_key in sorted(wanted.keys() - voters):
            await self.add_voter(wanted[missing_key])
            return False
        return True

    async def heal(self) -> None:
        """Undo what was done to the machines; not to the quorum."""
        await self.set_rules({})
        for node, host in self.hosts.items():
            if self.has_netem:
                self.clear_netem(node)
            self.make_room(node)
            self.go_on(node)
            if host.process is None:
                await self.start(node)
            else:
                await trio.lowlevel.checkpoint()

    async def wait_working(self, *, within_seconds: float) -> float:
        """Seconds until all nodes are voters and each has taken an append and applied it. Raises
        `TimeoutError`."""
        began = time.monotonic()
        waiting: dict[int, str] = dict.fromkeys(self.hosts, "")
        voters = False
        while waiting or not voters:
            if self.failures or time.monotonic() - began > within_seconds:
                raise TimeoutError(
                    f"{time.monotonic() - began:.1f} s after all was healed, "
                    + "; ".join(f"node {node} takes no append: {why}" for node, why in waiting.items())
                    + ("" if voters else " and not all nodes are voters")
                )
            voters = voters or await self.restore_voters()
            for node in list(waiting):
                try:
                    await self.links.ask(node, {"append": ["working", f"{node}/{time.monotonic()}"]})
                except (NotSentError, QuorumError) as error:
                    waiting[node] = str(error)
                else:
                    del waiting[node]
            for node, host in self.hosts.items():
                if host.process is None and not host.killed and host.disk_full:
                    await self.start(node)  # it stopped when its disk was full, and there is room now
            await trio.sleep(0.1)
        for host in self.hosts.values():
            host.disk_full = False
        return time.monotonic() - began


def directory_ids(seed: int, count: int) -> list[str]:
    """The first voters' directory ids: the same for the same seed."""
    return [uuid_text(uuid.uuid5(uuid.NAMESPACE_OID, f"{seed}/{number}/1")) for number in range(count)]
