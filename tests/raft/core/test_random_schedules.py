"""Laws that hold at every step of a core, on the way of random runs under every fault the protocol allows."""

from random import Random

import pytest

from quorate.raft.core.effects import Effect
from quorate.raft.core.events import Event
from quorate.types import NodeId
from tests.simulator.core.core_clients import CoreClients
from tests.simulator.core.core_faults import CoreFaults
from tests.simulator.core.core_swarm import CoreSwarm
from tests.simulator.seeds import core_run

STEPS = 400


class SteppedTwice(CoreSwarm):
    """Before a core is given an event, a copy of it is."""

    checked = 0

    def step(self, node: NodeId, event: Event, *, effects_done: int | None = None) -> tuple[Effect, ...]:
        core = self.nodes[node].up
        before = core.key()
        copy = core.clone()
        assert copy.key() == before
        told = copy.step(event)
        assert core.key() == before, "the copy shares what its original changes"
        effects = super().step(node, event, effects_done=effects_done)
        if self.nodes[node].core is core:
            assert told == effects
            assert copy.key() == core.key()
            assert hash(copy.key()) == hash(core.key())
        self.checked += 1
        return effects


@pytest.mark.parametrize("seed", range(1, 31))
def test_a_copy_behaves_like_its_original_and_does_not_touch_it(seed: int) -> None:
    swarm = SteppedTwice(core_run(seed).settings, Random(seed))
    CoreFaults(swarm, CoreClients(swarm))
    swarm.run_steps(STEPS)
    assert swarm.checked == STEPS
