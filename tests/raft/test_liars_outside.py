"""Peers that lie beside a quorum with TLS, from whoever is no node of it."""

import random
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import trio
from secured import CLUSTER_ID, WEB, Secured, node

from quorate.raft.transport.frames import PREFACE
from quorate.runtime import NetworkError

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "fuzz"))

from wellformed import Liar


@pytest.fixture
def secured(world):
    return Secured(world)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
async def test_liars_from_outside_stop_and_change_nothing(autojump_clock, world, secured, seed):
    """Valid frames with hostile values, from whoever has no certificate, one of another cluster or
    authority, or that of node 3 in the name of others."""
    leader = await world.start_three()
    await world.followers()
    draw = random.Random(seed)
    epoch, voters = leader.epoch, leader.voters
    said = {"frames": 0}

    def liar():
        quorum = next(iter(world.quorums.values()))
        return Liar(
            random.Random(draw.random()), cluster_id=CLUSTER_ID, node=1, voters=quorum.voters.voters,
            epoch=lambda: quorum.epoch, end_offset=lambda: quorum.log.end_offset, port=9093,
        )  # fmt: skip

    async def lie(identity, authority, kinds):
        lies = liar()
        while said["frames"] < 600:
            with suppress(NetworkError):
                stream = await secured.dial(draw.randrange(1, 4), identity, authority)
                await stream.send([PREFACE])
                for _ in range(draw.randrange(1, 20)):
                    name, data = lies.next()
                    if kinds is None or name in kinds:
                        await stream.send([data])
                    said["frames"] += 1
                    await trio.sleep(draw.uniform(0, 0.02))
                stream.close()
            await trio.sleep(0.01)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(lie, None, "", None)
        nursery.start_soon(lie, node(2, "another"), "ca", None)
        nursery.start_soon(lie, WEB, "ca", None)
        nursery.start_soon(lie, node(2), "another ca", None)
        for number in range(30):
            await world.quorums[1 + number % 3].append([b"%d" % number], timeout_ms=1000)
            await trio.sleep(0.05)
    assert said["frames"] >= 600
    assert (leader.epoch, leader.voters) == (epoch, voters)
    assert world.failures == {}
    await trio.sleep(1)
    assert [len(journal.records) for journal in world.journals.values()] == [30] * 3
