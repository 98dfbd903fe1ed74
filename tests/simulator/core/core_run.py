"""A seed of the core: draw a cluster and its faults, break it, heal it, and check its invariants."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from quorate.raft.core import Core, InvariantError, Role
from quorate.simulation.violations import LivenessViolation, SafetyViolation
from tests.simulator.core.core_clients import CoreClients
from tests.simulator.core.core_faults import CoreFaults
from tests.simulator.core.core_node import CoreFactory
from tests.simulator.core.core_swarm import CoreSwarm
from tests.simulator.core.core_swarm_settings import CoreSwarmSettings

CONVERGE_TIMEOUTS = 20
"""The time in which a healed cluster has a leader that all follow, and answers every call: a multiple of the
longest of election, fetch and request timeout, by the slowest clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreRunResult:
    digest: int
    """The digest of all steps: equal for equal runs."""
    steps: int
    virtual_ms: int
    committed: int
    epoch: int
    recovered_ms: int
    """The time from the end of the faults until all followed one leader."""
    calls: dict[str, int]
    faults: dict[str, int]

    @property
    def events(self) -> int:
        return self.steps

    @property
    def seen(self) -> dict[str, int]:
        return self.calls

    @property
    def virtual_s(self) -> float:
        return self.virtual_ms / 1000


class CoreRun:
    """The parts of a run. Tests may replace its settings before `execute`."""

    def __init__(
        self,
        seed: int,
        settings: CoreSwarmSettings,
        *,
        show: Callable[[str], None] | None = None,
        core: CoreFactory = Core,
    ) -> None:
        self.seed = seed
        self.settings = settings
        self._show = show
        self._core = core

    def reduce(self, skipped: frozenset[str], share: float) -> None:
        self.settings = self.settings.reduced(skipped, share)

    def execute(self) -> CoreRunResult:
        """Run the seed. Raises `SafetyViolation` or `LivenessViolation`."""
        swarm = CoreSwarm(self.settings, random.Random(f"core/{self.seed}"), core=self._core, show=self._show)
        try:
            return self._phases(swarm)
        except InvariantError as error:
            raise SafetyViolation(f"NoIllegalState: {error}, after {swarm.invariants.last_event}") from error

    def _phases(self, swarm: CoreSwarm) -> CoreRunResult:
        clients = CoreClients(swarm)
        faults = CoreFaults(swarm, clients)
        swarm.run_steps(self.settings.events)
        swarm.invariants.check_logs()
        faults.heal()
        healed_at_ms = swarm.now_ms
        self._wait(swarm, lambda: self._follow_one(swarm), "EventuallyLeaderElected: all follow one leader")
        recovered_ms = swarm.now_ms - healed_at_ms
        self._wait(swarm, faults.repair_voters, "ReconfigurationNotStuck: lost voters are removed", every=50)
        self._wait(swarm, lambda: self._agree_on_voters(swarm), "ReconfigurationNotStuck: one voter set")
        goal = len(swarm.committed) + 5
        self._wait(swarm, lambda: self._have(swarm, goal), f"every node has {goal} committed records")
        clients.finish()
        self._wait(swarm, lambda: not clients.stuck(), "ValuesEventuallyAcked: every call is answered")
        end = len(swarm.committed)
        self._wait(swarm, lambda: self._have(swarm, end), f"every node has {end} committed records")
        swarm.invariants.check_logs()
        clients.check()
        return CoreRunResult(
            digest=swarm.digest,
            steps=swarm.steps,
            virtual_ms=swarm.now_ms,
            committed=len(swarm.committed),
            epoch=swarm.committed[-1].epoch,
            recovered_ms=recovered_ms,
            calls=clients.count(),
            faults={kind.value: count for kind, count in faults.counts.items()},
        )

    def _wait(
        self, swarm: CoreSwarm, condition: Callable[[], bool], invariant: str, *, every: int = 0
    ) -> None:
        """Raise `LivenessViolation` if it takes too long. `every`: ms between two looks."""
        config = self.settings.config
        longest = max(config.election_timeout_ms, config.fetch_timeout_ms, config.request_timeout_ms)
        limit_ms = int(CONVERGE_TIMEOUTS * longest * max(1.0, *swarm.clock_rates.values()))
        look_at = [0]

        def looked() -> bool:
            if swarm.now_ms < look_at[0]:
                return False
            look_at[0] = swarm.now_ms + every
            return condition()

        if not swarm.run_until(looked, within_ms=limit_ms):
            states = "; ".join(f"{machine.id}: {_state(machine.core)}" for machine in swarm.nodes.values())
            raise LivenessViolation(f"{invariant}: not within {limit_ms} ms of virtual time; {states}")

    def _follow_one(self, swarm: CoreSwarm) -> bool:
        leader = swarm.leader()
        return leader is not None and all(
            machine.core is not None and machine.core.leader == leader and machine.core.role in _SETTLED
            for node, machine in swarm.nodes.items()
            if node not in swarm.retired
        )

    def _have(self, swarm: CoreSwarm, committed: int) -> bool:
        return all(
            machine.core is not None and (machine.core.high_watermark or 0) >= committed
            for node, machine in swarm.nodes.items()
            if node not in swarm.retired
        )

    def _agree_on_voters(self, swarm: CoreSwarm) -> bool:
        expected = swarm.committed_voters()
        return all(
            machine.core is not None and machine.core.voters == expected
            for node, machine in swarm.nodes.items()
            if node not in swarm.retired
        )


_SETTLED = (Role.LEADER, Role.FOLLOWER)


def _state(core: Core | None) -> str:
    if core is None:
        return "down"
    return (
        f"{core.role.value} epoch {core.epoch} leader {core.leader} log end {core.log_end_offset} "
        f"high watermark {core.high_watermark} voters {core.voters.ids}"
    )
