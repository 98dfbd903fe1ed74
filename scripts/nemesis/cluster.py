"""A quorum of real nodes on machines of their own."""

import json
import shutil
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import trio
from links import Links, NotSentError
from machines import DISK, HERE, Host, Machines

from quorate.raft.core.events import AddVoter, RemoveVoter
from quorate.raft.quorum_errors import QuorumError
from quorate.runtime.entropy import uuid_text
from quorate.types import Endpoint, NodeId, ReplicaKey, Voter

CLUSTER_ID = "nemesis"
PORT = 9093
DISK_SIZE = "24m"
SNAPSHOT_BYTES = 32 * 1024
STOPPED = 3
"""The exit code of a node that ended by itself."""


@dataclass(slots=True)
class Identity:
    directory_id: str
    first: bool = True
    """True if the disk was there when the cluster was made. A new disk comes without the first voters."""


@dataclass(slots=True)
class Cluster(Machines):
    identities: dict[int, Identity] = field(default_factory=dict)
    links: Links = field(init=False)

    def __post_init__(self) -> None:
        self.plan_hosts(port=PORT, disks={DISK: DISK_SIZE})
        ids = directory_ids(self.seed, self.nodes)
        self.identities = {node: Identity(ids[node - 1]) for node in self.hosts}
        self.links = Links(self.nursery, CLUSTER_ID, self.addresses)

    def data(self, node: int) -> Path:
        return self.hosts[node].disks[DISK] / "data"

    def voter(self, node: int) -> Voter:
        address = self.hosts[node].address
        return Voter(self.key(node), Endpoint(address.host, address.port))

    def key(self, node: int) -> ReplicaKey:
        return ReplicaKey(NodeId(node), self.identities[node].directory_id)

    def command(self, node: int) -> list[str]:
        address, identity = self.hosts[node].address, self.identities[node]
        voters = [
            (each, self.identities[each].directory_id, host.address.host, host.address.port)
            for each, host in self.hosts.items()
        ]
        arguments = {
            "node": node,
            "folder": str(self.data(node)),
            "cluster_id": CLUSTER_ID,
            "host": address.host,
            "port": address.port,
            "servers": [(each.host, each.port) for each in self.addresses.values()],
            "first_voters": voters if identity.first else [],
            "snapshot_bytes": SNAPSHOT_BYTES,
        }
        return [sys.executable, str(HERE / "node.py"), json.dumps(arguments)]

    def may_end(self, host: Host, code: int, last: str) -> bool:
        return host.full is not None and code == STOPPED and "no space left" in last.lower()

    async def replace_disk(self, node: int) -> None:
        """Kill the node, and start it on an empty disk, as another replica."""
        await self.kill(node)
        shutil.rmtree(self.data(node))
        identity = self.identities[node]
        identity.first = False
        await self.start(node)
        properties = self.data(node) / "meta.properties"
        while not properties.exists():  # noqa: ASYNC110 (another process makes it)
            await trio.sleep(0.05)
        identity.directory_id = next(
            line.partition("=")[2]
            for line in properties.read_text().splitlines()
            if line.startswith("directory.id=")
        )

    # What the quorum is asked for

    async def leader(self) -> int | None:
        """Ask the nodes that are up for the leader."""
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
        key = self.key(node)
        return await self._operate(lambda channel: channel.change_voters(RemoveVoter(key)))

    async def add_voter(self, node: int) -> bool:
        voter = self.voter(node)
        return await self._operate(lambda channel: channel.change_voters(AddVoter(voter)))

    async def take_snapshot(self, node: int) -> bool:
        return await self._operate(lambda channel: channel.take_snapshot(), at=node)

    async def _operate(self, action: Callable[..., object], *, at: int | None = None) -> bool:
        """Do something at the leader, or at the node `at`. Return whether it was done."""
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
        """Take one step towards all nodes being voters with the disks that they have now. Return whether they
        are."""
        leader = await self.leader()
        if leader is None:
            return False
        try:
            status = await self.links.ask(leader, {"status": True}, seconds=2)
        except (NotSentError, QuorumError):
            return False
        voters = {(node, directory) for node, directory in status["voters"]}
        wanted = {(node, identity.directory_id): node for node, identity in self.identities.items()}
        for node, directory in sorted(voters - wanted.keys()):
            key = ReplicaKey(NodeId(node), directory)
            await self._operate(lambda channel, key=key: channel.change_voters(RemoveVoter(key)))
            return False
        for missing_key in sorted(wanted.keys() - voters):
            await self.add_voter(wanted[missing_key])
            return False
        return True

    async def wait_working(self, *, within_seconds: float) -> float:
        """Return the seconds until all nodes are voters and each has taken an append and applied it. Raises
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
            await self.restart_after_full_disk()
            await trio.sleep(0.1)
        self.forget_full_disks()
        return time.monotonic() - began


def directory_ids(seed: int, count: int) -> list[str]:
    """Return the first voters' directory ids. They are the same for the same seed."""
    return [uuid_text(uuid.uuid5(uuid.NAMESPACE_OID, f"{seed}/{number}/1")) for number in range(count)]
