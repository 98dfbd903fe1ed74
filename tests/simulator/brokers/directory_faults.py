"""Directories that come and go: a second directory of `log.dirs` is lost, away for a while, or there twice.

A directory is taken only where the budget has room: it counts as data that its broker has lost, as a power
loss does, from the moment it goes until the broker is back and every partition has min.insync.replicas
members in sync again. That holds for one that comes back late as well: what it has is older by then. It is
taken only while all other brokers are unfenced and somebody else is eligible in every partition: one that was
created while its only active replica was here waits for that directory, and rightly so. For the same reason
no topic is created from then on until the broker is registered again (`Administrator`). The first folder,
with the metadata log and the vote in it, is for `lost_disks`.
"""

import random
from collections.abc import Awaitable, Callable

import trio

from quorate.quorum_state import META_PROPERTIES
from quorate.simulation.faults.hosts import FOLDER
from quorate.simulation.violations import SafetyViolation
from tests.simulator.administration.replica_folders import keep_one_of_two
from tests.simulator.brokers.broker_cluster import AGAIN, MORE, BrokerCluster, BrokerHost
from tests.simulator.brokers.loss_budget import LossBudget

_STARTS_WITHIN_S = 5.0


class DirectoryFaults:
    """Use on hosts with two directories of `log.dirs`; on others nothing happens. At the end, when all are
    up: `unmount_again` on every node, and then `restore`."""

    def __init__(
        self,
        cluster: BrokerCluster,
        source: random.Random,
        budget: LossBudget,
        *,
        choose: Callable[[], BrokerHost],
        sleep_duration: Callable[[], Awaitable[None]],
    ) -> None:
        self._cluster = cluster
        self._random = source
        self._choose = choose
        self._budget = budget
        self._sleep_duration = sleep_duration

    async def lose(self) -> None:
        """A disk fails for good, and a new one is put in its place."""
        node = await self._down()
        if node is not None and self._budget.is_spare(node) and self._budget.take(node):
            node.disk.unmount(MORE)
            await self._sleep_duration()
        self._start(node)

    async def take_away(self) -> None:
        """A node runs without its second folder for a while; then that is back, as it was."""
        node = await self._down()
        if node is None or not self._budget.is_spare(node) or not self._budget.take(node):
            self._start(node)
            return
        node.away = node.disk.unmount(MORE)
        node.log_dirs = (FOLDER,)
        self._start(node)
        await self._sleep_duration()
        await trio.sleep(self._random.random() * 3)
        await self.restore(node)

    async def unmount_again(self, node: BrokerHost) -> None:
        """Unmount the folder if `mount_twice` was cancelled before it could. The node can't run until then,
        and others may need it to elect a leader."""
        if AGAIN in node.log_dirs:
            await self._end(node)
            self._unmount_again(node)
            self._start(node)

    async def restore(self, node: BrokerHost) -> None:
        """Put back the folder that `take_away` took, if it is still away. Where a partition is in both
        folders by now, follow the error's advice: keep the one in the directory that metadata names."""
        if node.away is None:
            return
        await self._end(node)
        # A report of where a replica is may still be on its way to be committed.
        await trio.sleep(1)
        while True:
            await self._end(node)
            leader = self._cluster.leader()
            if leader is not None:
                break
            await trio.sleep(0.1)
        if node.away is None:
            return
        node.disk.mount(MORE, node.away)
        node.away = None
        node.log_dirs = (FOLDER, MORE)
        keep_one_of_two(node.disk, node.id, leader.image, FOLDER, MORE)
        self._start(node)

    async def mount_twice(self) -> None:
        """The second folder is in log.dirs under another name too: the process must refuse to start."""
        node = await self._down()
        if node is None or not node.disk.exists(f"{MORE}/{META_PROPERTIES}"):
            self._start(node)
            return
        node.disk.mount_twice(MORE, AGAIN)
        node.log_dirs = (*node.log_dirs, AGAIN)
        self._start(node)
        life = node.life
        with trio.move_on_after(_STARTS_WITHIN_S):
            await node.ended.wait()
        if node.open and node.life == life:
            self._cluster.found(
                "ADirectoryIsThereOnce", SafetyViolation(f"{node.name} runs on a directory mounted twice")
            )
        await self._end(node)
        self._unmount_again(node)
        self._start(node)

    def _unmount_again(self, node: BrokerHost) -> None:
        node.log_dirs = tuple(each for each in node.log_dirs if each != AGAIN)
        node.disk.unmount(AGAIN)

    async def _down(self) -> BrokerHost | None:
        """A node whose process was just ended, unless another fault is at work on its folders."""
        node = self._choose()
        if len(node.log_dirs) != 2 or node.damaged:
            return None
        if self._random.random() < 0.3 and node.open and node.alive:
            await self._cluster.stop(node)
        await self._cluster.crash(node, power_loss=False)
        return None if node.up or len(node.log_dirs) != 2 else node

    async def _end(self, node: BrokerHost) -> None:
        """End the process at least once: another fault may be ending it, and has cut its disk off until
        then."""
        await self._cluster.crash(node, power_loss=False)
        while node.up:
            await self._cluster.crash(node, power_loss=False)

    def _start(self, node: BrokerHost | None) -> None:
        if node is not None and not node.up and not node.damaged:
            self._cluster.start(node)
