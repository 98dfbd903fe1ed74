"""The machines of real nodes: network namespaces with a wire between them, small disks, processes."""

import json
import os
import shutil
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import trio
import trio.lowlevel

from quorate.runtime.network import Address

HERE = Path(__file__).parent
OUTSIDE = 200
"""The number of this namespace, in which clients and the nemesis itself run."""
DISK = "disk"


class CantRunHereError(Exception):
    """This machine has no namespaces or no tun devices for us. The message gives the reason."""


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise CantRunHereError(f"{' '.join(command)}: {done.stderr.strip()}")


def missing() -> str | None:
    """Return the reason why there can't be such a cluster here, or None."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "ip is not installed (Debian: apt-get install iproute2)"
    if not Path("/dev/net/tun").exists():
        return "there is no /dev/net/tun"
    return None


@dataclass(slots=True)
class Host:
    """One node's machine: namespace, disks, and the process while there is one."""

    number: int
    address: Address
    device: str
    namespace: str
    disks: dict[str, Path]
    log_file: Path
    process: trio.Process | None = None
    killed: bool = False
    paused: bool = False
    full: str | None = None
    """The disk that was filled, until all works again."""

    def filler(self, disk: str = DISK) -> Path:
        return self.disks[disk] / "filler"

    @property
    def up(self) -> bool:
        return self.process is not None and not self.paused


@dataclass(slots=True)
class Machines(ABC):
    """Hosts 1 to n of a cluster, by namespaces, devices and mounts of a name of their own."""

    folder: Path
    seed: int
    nodes: int
    nursery: trio.Nursery
    say: Callable[[str], None]
    hosts: dict[int, Host] = field(default_factory=dict)
    wire: trio.Process | None = None
    wire_said: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    """The nodes that ended although nothing had been done to them."""
    ended_by_full_disk: int = 0
    has_netem: bool = False
    _disk_sizes: dict[str, str] = field(default_factory=dict)
    _changing: trio.Lock = field(default_factory=trio.Lock)
    _name: str = field(init=False)
    _network: str = field(init=False)

    def plan_hosts(self, *, port: int, disks: dict[str, str]) -> None:
        """`disks`: their sizes by name, as `mount` has them."""
        number = os.getpid()
        # The kernel allows device names of 15 characters.
        self._name = f"nem{number % 100_000}"
        self._network = f"10.{100 + number % 50}.{number // 50 % 250}"
        self._disk_sizes = disks
        for node in range(1, self.nodes + 1):
            self.hosts[node] = Host(
                number=node,
                address=Address(f"{self._network}.{node}", port),
                device=f"{self._name}d{node}",
                namespace=f"{self._name}n{node}",
                disks={name: self.folder / f"{name}-{node}" for name in disks},
                log_file=self.folder / f"node-{node}.log",
            )

    @property
    def addresses(self) -> dict[int, Address]:
        return {node: host.address for node, host in self.hosts.items()}

    @abstractmethod
    def command(self, node: int) -> list[str]:
        """Return the command that starts the node's process."""

    @abstractmethod
    def may_end(self, host: Host, code: int, last: str) -> bool:
        """Return whether the process may have ended by itself with this code and last line."""

    # The machines

    async def build(self) -> None:
        """Build the namespaces, disks and the wire. Raises `CantRunHereError`."""
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
            for name, disk in host.disks.items():
                disk.mkdir(parents=True)
                run("mount", "-t", "tmpfs", "-o", f"size={self._disk_sizes[name]}", self._name, str(disk))
        run("ip", "addr", "add", f"{self._network}.{OUTSIDE}/24", "dev", outside)
        run("ip", "link", "set", outside, "up")
        self.has_netem = self.set_netem(1, "delay", "1ms")
        self.clear_netem(1)

    def remove(self) -> None:
        """Remove all that was built, by name. It may be a part only."""
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
            for disk in host.disks.values():
                subprocess.run(["umount", "-l", str(disk)], capture_output=True)

    async def stop_wire(self) -> None:
        """End the wire, and learn how much it carried."""
        assert self.wire is not None and self.wire.stdin is not None
        await self.wire.stdin.aclose()
        self.wire_said = json.loads(await self._line_of_wire())

    async def set_rules(self, rules: dict[str, list[float]]) -> None:
        """Replace the rules of the wire (see `wire.py`). They hold when this returns."""
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
        """Have the kernel inject faults into all that the node sends. Return False where the kernel can't."""
        return self._change_netem(node, "replace", "netem", *how)

    def clear_netem(self, node: int) -> None:
        self._change_netem(node, "del")

    def _change_netem(self, node: int, action: str, *how: str) -> bool:
        if shutil.which("tc") is None:
            return False
        host = self.hosts[node]
        tc = ["ip", "netns", "exec", host.namespace, "tc", "qdisc", action, "dev", host.device, "root", *how]
        return subprocess.run(tc, capture_output=True).returncode == 0

    # The processes

    async def start(self, node: int) -> None:
        host = self.hosts[node]
        with host.log_file.open("ab") as output:
            # Of `ip netns exec` remains the node itself.
            host.process = await trio.lowlevel.open_process(
                ["ip", "netns", "exec", host.namespace, *self.command(node)],
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
        if self.may_end(host, code, last):
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

    def fill(self, node: int, disk: str = DISK) -> None:
        host = self.hosts[node]
        host.full = disk
        with host.filler(disk).open("wb", buffering=0) as file:
            for size in (1 << 20, 4096):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    pass

    def make_room(self, node: int) -> None:
        host = self.hosts[node]
        for disk in host.disks:
            host.filler(disk).unlink(missing_ok=True)

    async def restart_after_full_disk(self) -> None:
        """Start the nodes that stopped because their disks were full. There is room now."""
        for node, host in self.hosts.items():
            if host.process is None and not host.killed and host.full:
                await self.start(node)

    def forget_full_disks(self) -> None:
        """All works again: no node may stop any more."""
        for host in self.hosts.values():
            host.full = None

    async def heal(self) -> None:
        """Undo every fault of the machines, and start the nodes that do not run."""
        await self.set_rules({})
        for node, host in self.hosts.items():
            if self.has_netem:
                self.clear_netem(node)
            self.make_room(node)
            self.go_on(node)
            if host.process is None:
                await self.start(node)
