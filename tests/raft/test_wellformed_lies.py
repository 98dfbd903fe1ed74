"""The cluster commits beside thousands of valid frames with hostile values."""

import random
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from quorate.raft.quorum_errors import QuorumError
from quorate.raft.transport.frames import PREFACE
from quorate.runtime.network import NetworkError

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "fuzz"))

from wellformed import Liar

CLUSTER_ID = "driver-tests"


class Flood:
    """Unknown peers that talk to every node at once, from one seed."""

    def __init__(self, world, seed, *, but=()):
        self.world = world
        self.draw = random.Random(seed)
        self.but = but
        self.sent = {}
        self.last = []

    def liar(self, node):
        world = self.world
        quorum = next(iter(world.quorums.values()))

        def latest(value):
            return lambda: max((value(each) for each in world.quorums.values()), default=0)

        return Liar(
            random.Random(self.draw.random()),
            cluster_id=CLUSTER_ID,
            node=node,
            voters=quorum.voters.voters,
            epoch=latest(lambda each: each._node.driver.core.epoch),
            end_offset=latest(lambda each: each.log.end_offset),
            port=9093,
        )

    async def talk(self, node, *, every_s, frames):
        """Again and again, whatever is answered or closed."""
        liar = self.liar(node)
        while frames > 0:
            with suppress(NetworkError):
                stream = await self.world.dial(node)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self.swallow, stream, nursery.cancel_scope)
                    with suppress(NetworkError):
                        frames -= await self.say(liar, stream, node, every_s)
                    stream.close()
                    nursery.cancel_scope.cancel()
            await trio.sleep(every_s)

    async def say(self, liar, stream, node, every_s):
        await stream.send([PREFACE])
        said = 0
        for _ in range(self.draw.randrange(1, 60)):
            name, data = liar.next()
            if name in self.but:
                continue
            said += 1
            self.sent[name] = self.sent.get(name, 0) + 1
            self.last = [*self.last[-20:], (node, name, data)]
            await stream.send([data])
            await trio.sleep(self.draw.uniform(0, every_s))
        return said

    @staticmethod
    async def swallow(stream, scope):
        with suppress(NetworkError):
            while await stream.receive_some():
                pass
        scope.cancel()


async def longest_gap(world, flooding, *, within_s):
    """Append through any node that runs, until `flooding` is over; the longest time without success."""
    longest = last = 0.0
    began = trio.current_time()
    last = began
    turn = 0
    while not flooding.is_set():
        turn += 1
        nodes = sorted(world.quorums)
        if nodes:
            with suppress(QuorumError):
                await world.quorums[nodes[turn % len(nodes)]].append([b"x"], timeout_ms=500)
                longest, last = max(longest, trio.current_time() - last), trio.current_time()
        assert trio.current_time() - last < within_s, f"nothing committed for {within_s} s"
        await trio.sleep(0.02)
    return longest


async def flooded(world, flood, *, frames, within_s, every_s=0.01, beside=None):
    over = trio.Event()
    async with trio.open_nursery() as outer:

        async def all_of_them():
            async with trio.open_nursery() as nursery:
                for node in (1, 2, 3):
                    for _ in range(3):
                        nursery.start_soon(
                            lambda node=node: flood.talk(node, every_s=every_s, frames=frames // 9)
                        )
                if beside is not None:
                    await beside()
            over.set()

        outer.start_soon(all_of_them)
        try:
            gap = await longest_gap(world, over, within_s=within_s)
        except AssertionError as error:
            states = [
                (quorum.node_id, quorum.role, quorum.epoch, quorum.voters.ids)
                for quorum in world.quorums.values()
            ]
            raise AssertionError(f"{error}: {states}, last sent {flood.last}") from error
    assert world.failures == {}, f"stopped by one of {flood.last}"
    assert sum(flood.sent.values()) >= frames // 9 * 9
    return gap


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("seed", range(2))
async def test_valid_frames_of_an_unknown_peer_stop_no_node_and_no_commit(
    world, autojump_clock, seed, dynamic
):
    leader = await world.start_three()
    await world.followers()
    if dynamic:
        await leader.adopt_voters()
    flood = Flood(world, f"{seed}/{dynamic}")
    gap = await flooded(world, flood, frames=1500, within_s=3)
    assert gap < 3
    assert len(flood.sent) == 12, f"every kind is sent: {flood.sent}"
    assert all(quorum.epoch < 10_000 for quorum in world.quorums.values()), "epochs are not used up"
    await trio.sleep(2)
    logs = [journal.records for journal in world.journals.values()]
    assert logs[0] == logs[1] == logs[2]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
async def test_valid_frames_of_an_unknown_peer_stop_no_election(world, autojump_clock, seed):
    """An outside id is heeded only in the moments without a leader. Removals are left out: a crash of
    the last voter that they leave ends all commits until it is back, as it must."""
    await world.start_three()
    flood = Flood(world, seed, but=("change_voters",))

    async def crashes():
        for _ in range(3):
            await trio.sleep(1.5)
            leader = await world.leader()
            await world.crash(leader.node_id, power_loss=True)
            await trio.sleep(1.5)
            await world.start(leader.node_id)

    gap = await flooded(world, flood, frames=1800, within_s=8, every_s=0.03, beside=crashes)
    assert gap < 8
    assert all(quorum.epoch < 100_000 for quorum in world.quorums.values()), "epochs are not used up"
