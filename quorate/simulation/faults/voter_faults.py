"""Voters of a simulated cluster that are removed and added while it runs. Only where they are in the log."""

import enum
import random
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

import trio

from quorate.log import Log
from quorate.raft import QuorumError
from quorate.simulation.faults.hosts import HostCluster, SimulatedNode
from quorate.types import Endpoint, Offset, ReplicaKey, Voter, VoterSet

_TIMEOUT_MS = 4000
_WAITS_S = 1.0
"""The wait for a moment in which the leader's application appends."""


class VotersIn(enum.Enum):
    """The source of a cluster's voters."""

    CONFIGURATION = "configuration"
    """Static: they can't be changed."""
    ADOPTED = "adopted"
    """Configured, and written into the log once all nodes ran (`Quorum.adopt_voters`)."""
    FORMATTED = "formatted"
    """The voters are in the bootstrap snapshot of every folder; the configuration names only bootstrap
    servers."""


class Electorate(Protocol):
    """The requests of operators to a `Quorum` about its voters."""

    @property
    def voters(self) -> VoterSet: ...

    @property
    def next_offset(self) -> Offset: ...

    @property
    def log(self) -> Log: ...

    async def add_voter(self, voter: Voter, *, timeout_ms: int = ...) -> None: ...

    async def remove_voter(self, key: ReplicaKey, *, timeout_ms: int = ...) -> None: ...

    async def adopt_voters(self, *, timeout_ms: int = ...) -> None: ...


class VotingNode(SimulatedNode):
    """A host whose process may be a voter."""

    directory_id = ""
    """The id of the disk that holds its log of the quorum."""

    @property
    def electorate(self) -> Electorate | None:
        """The quorum of its running process."""
        raise NotImplementedError


Host = TypeVar("Host", bound=VotingNode)


async def adopt_voters(cluster: HostCluster[Host]) -> None:
    """Write the voters into the log. All nodes must be up."""
    while True:
        leader = cluster.leader()
        try:
            if leader is not None and leader.electorate is not None:
                await leader.electorate.adopt_voters(timeout_ms=2000)
                return
        except QuorumError as error:
            cluster.trace.add("operator", f"adopt voters: {error}")
        await trio.sleep(0.1)


class VoterFaults(Generic[Host]):
    """Makes one change at a time. `may_go`: whether the set may be made smaller by one. `port`: of every
    voter."""

    def __init__(
        self,
        cluster: HostCluster[Host],
        source: random.Random,
        *,
        port: int,
        may_go: Callable[[VoterSet], bool],
        among_appends: bool = False,
        joining: bool = False,
    ) -> None:
        self._cluster = cluster
        self._random = source
        self._port = port
        self._may_go = may_go
        self._among_appends = among_appends
        self._joining = joining
        self.changing = False
        """The last request to a node has not ended yet."""

    def ask(self, node: Host, what: str, call: Callable[[], Awaitable[None]]) -> None:
        """Make a call to a node, in its process."""
        with self._cluster.scheduler.process(node.name):
            self._cluster.spawn(self._asked, what, call)

    async def _asked(self, what: str, call: Callable[[], Awaitable[None]]) -> None:
        try:
            await call()
        except QuorumError as error:
            self._cluster.trace.add("operator", f"{what}: {type(error).__name__}: {error}")
        else:
            self._cluster.trace.add("operator", f"{what}: done")
        finally:
            self.changing = False

    async def change(self) -> None:
        """Remove a voter, or add one that is none."""
        leader = self._cluster.leader()
        if leader is None or leader.electorate is None or self.changing:
            return
        quorum, node = leader.electorate, self._random.choice(self._cluster.nodes)
        key = ReplicaKey(node.id, node.directory_id)
        is_voter = quorum.voters.has(key)
        if is_voter and not self._may_go(quorum.voters):
            return
        if not is_voter and node.id in quorum.voters:
            return  # its old disk's is to be removed first, which a repair does
        self.changing = True
        if self._among_appends and self._random.random() < 0.5:
            try:
                await self._append_waits(leader, quorum)
            except trio.Cancelled:
                self.changing = False
                raise
            if leader.electorate is not quorum or not leader.alive:
                self.changing = False
                return
        if is_voter:
            self.remove(leader, key)
        else:
            self._add(leader, key)

    async def _append_waits(self, leader: Host, quorum: Electorate) -> None:
        with trio.move_on_after(_WAITS_S):
            while quorum.next_offset <= quorum.log.end_offset:
                await self._cluster.scheduler.wait_passes(leader.name, 1)

    def all_know_the_voters(self) -> bool:
        """Return whether no earlier or later set of voters may decide anything."""
        sets = [None if each.electorate is None else each.electorate.voters for each in self._cluster.nodes]
        return sets[0] is not None and all(each == sets[0] for each in sets)

    def lost_ones(self, leader: Host) -> list[ReplicaKey]:
        """Return the voters, as `leader` knows them, whose disks are lost and replaced by others."""
        quorum = leader.electorate
        if quorum is None:
            return []
        current = {node.id: node.directory_id for node in self._cluster.nodes}
        keys = (voter.key for voter in quorum.voters)
        return [key for key in keys if key.directory_id not in (None, current[key.id])]

    def remove_lost(self) -> None:
        """Remove the voter of a lost disk, if there is one and a leader to ask."""
        leader = self._cluster.leader()
        if leader is None or self.changing:
            return
        lost = self.lost_ones(leader)
        if lost:
            self.changing = True
            self.remove(leader, lost[0])

    def remove(self, leader: Host, key: ReplicaKey) -> None:
        quorum = leader.electorate
        if quorum is not None:
            self.ask(leader, f"remove {key}", lambda: quorum.remove_voter(key, timeout_ms=_TIMEOUT_MS))

    def _add(self, leader: Host, key: ReplicaKey) -> None:
        quorum, voter = leader.electorate, Voter(key, Endpoint(f"node-{key.id}", self._port))
        if quorum is not None:
            self.ask(leader, f"add {key}", lambda: quorum.add_voter(voter, timeout_ms=_TIMEOUT_MS))

    async def all_vote(self) -> None:
        """Remove voters whose disk is lost, and add nodes that do not vote, once all is healed; or wait until
        they have done so themselves. Cancel it if it takes too long."""
        while True:
            leader = self._cluster.leader()
            if leader is not None and leader.electorate is not None and not self.changing:
                keys = [ReplicaKey(node.id, node.directory_id) for node in self._cluster.nodes]
                missing = [key for key in keys if not leader.electorate.voters.has(key)]
                if not missing:
                    return
                if self.lost_ones(leader) and not self._joining:
                    self.remove_lost()
                elif not self._joining:
                    self.changing = True
                    self._add(leader, missing[0])
            await trio.sleep(0.5)
