"""The front door for users' own state machines: seeds, and what a failing one reports."""

import random
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Final, Generic

from quorate.simulation.faults.faults import Fault
from quorate.simulation.histories.linearizability import Answer, Model, Request, State
from quorate.simulation.quorum.quorum_run import QuorumRunSettings
from quorate.simulation.service.service_cluster import Machine, ServiceNode
from quorate.simulation.service.service_run import ServiceRun, Workload
from quorate.simulation.shrinking import invariant_of, shrink_faults
from quorate.simulation.violations import LivenessViolation, SafetyViolation, StuckError

_FAILURES: Final = (SafetyViolation, LivenessViolation, StuckError)


class SimulatedCluster(Generic[Machine]):
    """A quorum of a user's own state machine, in the simulator.

    `state_machine` makes a new one for each process, as a class does. `faults`: the kinds that seeds draw
    from. `clients`: the number that call at the same time.
    """

    def __init__(
        self,
        state_machine: Callable[[], Machine],
        voters: int = 3,
        *,
        clients: int = 3,
        faults: Iterable[Fault] = tuple(Fault),
    ) -> None:
        self._state_machine = state_machine
        self._voters = voters
        self._clients = clients
        self._faults = frozenset(faults)

    def check(
        self,
        model: Model[State, Request, Answer],
        requests: Sequence[Request] | Callable[[random.Random], Request],
        call: Callable[[ServiceNode[Machine], Request], Awaitable[Answer]],
        *,
        seeds: int | Iterable[int] = 20,
        key: Callable[[Request], Hashable] | None = None,
        show: Callable[[str], None] | None = None,
    ) -> None:
        """Run seeds. In each, clients call while nodes fail; all is healed; and everything is checked.

        `requests`: those to choose from, or a function that draws one. `call` asks one node: it runs in its
        process, and is cut off when that is killed. A `QuorumError` that it raises means that the outcome is
        unknown. `model` and `key` say which answers are right, as for `check_history`. `seeds`: how many, or
        which. `show` gets every event.

        Raises `SafetyViolation` if replicas have different states after the same records, or if no order
        explains the answers; `LivenessViolation` if the healed cluster does not agree, or a call does not
        end. The message has the seed, the kind of mistake, and the faults that it takes.
        """
        draw = requests if callable(requests) else lambda source: source.choice(requests)
        workload = Workload(
            state_machine=self._state_machine,
            model=model,
            draw=draw,
            call=call,
            key=key,
            clients=self._clients,
        )
        for seed in range(seeds) if isinstance(seeds, int) else seeds:
            try:
                ServiceRun(seed, self._settings(seed), workload, show=show).execute()
            except _FAILURES as failure:
                raise self._shrunk(seed, workload, failure) from None
            except Exception as error:
                error.add_note(f"in the simulated cluster, by seed {seed}; run it alone with seeds=[{seed}]")
                raise

    def _settings(self, seed: int) -> QuorumRunSettings:
        drawn = QuorumRunSettings.draw(random.Random(f"service-settings/{seed}"))
        kinds = tuple(kind for kind in drawn.faults.kinds if kind in self._faults)
        return replace(
            drawn,
            cluster=replace(drawn.cluster, voters=self._voters, observers=0, dynamic=False),
            faults=replace(drawn.faults, kinds=kinds),
        )

    def _shrunk(
        self,
        seed: int,
        workload: Workload[Machine, State, Request, Answer],
        failure: AssertionError,
    ) -> AssertionError:
        """Return the failure with the fewest faults that it takes, and how to see it again."""
        settings = self._settings(seed)

        def run(skipped: frozenset[str], share: float, *, explain: bool) -> AssertionError | None:
            reduced = ServiceRun(seed, settings.reduced(skipped, share), workload, explain=explain)
            try:
                reduced.execute()
            except _FAILURES as found:
                return found
            return None

        def still_fails(skipped: frozenset[str], share: float) -> bool:
            return _same(run(skipped, share, explain=False), short)

        short = run(frozenset(), 1.0, explain=False)
        skipped, share = shrink_faults(still_fails, settings.kind_names)
        smaller = run(skipped, share, explain=True)
        # An apply that is not deterministic may fail in another way, or not at all, the next time.
        if smaller is not None and _same(run(skipped, share, explain=False), short):
            failure = smaller
        else:
            skipped = frozenset()
        needed = ", ".join(kind for kind in settings.kind_names if kind not in skipped)
        return type(failure)(
            f"seed {seed}: {failure}\nfaults: {needed or 'none are needed'}\n"
            f"to see it again: check(..., seeds=[{seed}]), with show=print for every event"
        )


def _same(found: AssertionError | None, other: AssertionError | None) -> bool:
    return found is not None and other is not None and invariant_of(found) == invariant_of(other)
