"""Brokers that lose the folder with the metadata log, and the vote in it, and come back on an empty one.

As docs/how-to/replace-a-disk.md has it: the empty folder has a new directory id, and its broker is an
observer until its old vote is taken away and it is added, by an administrator or by itself
(`controller.quorum.auto.join.enable`). Only where the voters are in the log: a node whose configuration
names it a voter would vote again for what it forgot.

One voter at most is lost at a time, and only while every node agrees who votes and two others do; so a
majority of whoever acknowledged a change of metadata is left. What the broker's partitions lose with the
folder is within their own budget, as that of any directory (`DirectoryFaults`).
"""

import random
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from quorate.simulation.faults.voter_faults import VoterFaults
from tests.simulator.brokers.broker_cluster import BrokerCluster, BrokerHost

_BEHIND_MAX_S: Final = 1.0
"""Less than a session: the controller must not have fenced the broker that is behind."""


class LostDisks:
    """Use where the voters are in the log. `VoterFaults.all_vote` at the end."""

    def __init__(
        self,
        cluster: BrokerCluster,
        voters: VoterFaults[BrokerHost],
        source: random.Random,
        *,
        choose: Callable[[], BrokerHost],
        may_lose: Callable[[BrokerHost], bool],
        sleep_duration: Callable[[], Awaitable[None]],
    ) -> None:
        """`may_lose`: returns whether the partitions can do without the node's data, and counts it as lost
        then."""
        self._cluster = cluster
        self._voters = voters
        self._random = source
        self._choose = choose
        self._may_lose = may_lose
        self._sleep_duration = sleep_duration

    @property
    def voter_is_lost(self) -> bool:
        """Return whether a replica whose disk is lost is still a voter, or no leader can tell."""
        leader = self._cluster.leader()
        return leader is None or bool(self._voters.lost_ones(leader))

    async def lose(self) -> None:
        """Replace a disk that fails for good. Half of the time in the worst moment: one broker is behind, and
        the brokers with the committed records, or all, go down in the same instant."""
        node = self._choose()
        empty, directory_id = await self._cluster.formatted(node)
        behind = self._to_be_behind(node) if self._random.random() < 0.5 else None
        if behind is not None:
            self._cluster.network.partition([behind.name], self._names(behind))
            await trio.sleep(self._random.uniform(0.1, _BEHIND_MAX_S))
        crashed: list[BrokerHost] = []
        if self._may_go(node) and self._may_lose(node):
            if behind is not None:
                spared = (node,) if self._random.random() < 0.5 else (node, behind)
                crashed = [each for each in self._cluster.nodes if each not in spared]
            # From here to the end of its process nothing else is decided: it is dead now.
            self._voters.changing = True
            try:
                await self._cluster.crash(node, power_loss=True)
                if not node.up:  # as it would be if another fault had started it again, on its old disk
                    self._cluster.replace_folder(node, empty, directory_id)
            finally:
                self._voters.changing = False
            await self._cluster.crash(*crashed, power_loss=False)
        if behind is None:
            await self._sleep_duration()
        else:
            self._join_up(behind)
        self._start(node)
        for each in crashed:
            await trio.sleep(self._random.random())
            self._start(each)
        if self._random.random() < 0.5:
            await self._sleep_duration()
            self._voters.remove_lost()

    def _join_up(self, behind: BrokerHost) -> None:
        for name in self._names(behind):
            self._cluster.network.heal(behind.name, name)
            self._cluster.network.heal(name, behind.name)

    def _to_be_behind(self, node: BrokerHost) -> BrokerHost:
        leader = self._cluster.leader()
        return self._random.choice([each for each in self._cluster.nodes if each not in (node, leader)])

    def _names(self, behind: BrokerHost) -> list[str]:
        """Return the names of all others."""
        return [each.name for each in self._cluster.nodes if each is not behind]

    def _start(self, *nodes: BrokerHost) -> None:
        for node in nodes:
            if not node.up:
                self._cluster.start(node)

    def _may_go(self, node: BrokerHost) -> bool:
        leader = self._cluster.leader()
        if leader is None or self._voters.changing or node.log_dirs != self._cluster.settings.log_dirs:
            return False
        voters = leader.serving.quorum.voters
        return (
            not self.voter_is_lost
            and self._voters.all_know_the_voters()
            and (len(voters) >= 3 or node.id not in voters)
        )
