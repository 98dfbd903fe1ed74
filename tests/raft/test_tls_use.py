"""An open quorum becomes a protected one by rolling restarts, during which members differ by one step."""

import pytest
import trio
from secured import files, node

from quorate.raft import QuorumConfigError
from quorate.runtime import TlsUse

STEPS = (None, *TlsUse)
"""None: without TLS."""


class Mixed:
    """A world whose members are at steps of their own."""

    def __init__(self, world):
        self.steps = {}
        config = world.config

        def at_its_step(number):
            use = self.steps[number]
            world.overrides["tls"] = None if use is None else files(node(number))
            world.overrides["tls_use"] = use or TlsUse.REQUIRED
            return config(number)

        world.config = at_its_step


@pytest.mark.costly
@pytest.mark.costly
@pytest.mark.parametrize("ahead", [1, 2])
@pytest.mark.parametrize("step", [0, 1, 2])
async def test_members_that_differ_by_a_step_are_one_quorum(autojump_clock, world, step, ahead):
    earlier, later = STEPS[step : step + 2]
    Mixed(world).steps |= {number: later if number <= ahead else earlier for number in (1, 2, 3)}
    leader = await world.start_three()
    with trio.fail_after(20):
        await leader.append([b"one"])
        for number in (1, 2, 3):
            await world.stop(number)
            await world.start(number)
            leader = await world.leader()
            await leader.append([b"%d" % number])


async def test_a_step_without_files_is_refused(autojump_clock, world):
    world.overrides["tls_use"] = TlsUse.PREFERRED
    with pytest.raises(QuorumConfigError, match="tls_use is PREFERRED, and tls is None; set tls"):
        world.config(1)
