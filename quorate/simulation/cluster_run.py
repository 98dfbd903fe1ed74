"""The skeleton of a run of whole processes under virtual time: quorums, brokers, and scenarios of them."""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Generic, Self, TypeVar

import trio

from quorate.simulation.faults.faults import FaultSettings
from quorate.simulation.faults.hosts import HostCluster, SimulatedNode
from quorate.simulation.world.scheduler import Scheduler, run
from quorate.simulation.world.trace import Trace, logs_into


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRunSettings:
    """The faults of a run. Subclasses add the settings of the cluster and its clients."""

    faults: FaultSettings = field(default_factory=FaultSettings)
    faults_s: float = 10.0
    """The duration of the faults."""

    @property
    def kind_names(self) -> list[str]:
        return [kind.value for kind in self.faults.kinds]

    def reduced(self, skipped: frozenset[str], share: float) -> Self:
        """Return the settings without some kinds of faults, and for a share of the time."""
        without = frozenset(kind for kind in self.faults.kinds if kind.value in skipped)
        faults = replace(self.faults, skipped=without)
        return replace(self, faults=faults, faults_s=share * self.faults_s)


Settings = TypeVar("Settings", bound=ClusterRunSettings)
Node = TypeVar("Node", bound=SimulatedNode)
Cluster = TypeVar("Cluster", bound=HostCluster)  # type: ignore[type-arg]
Result = TypeVar("Result")


class ClusterRun(ABC, Generic[Settings, Cluster, Result]):
    """A seed's run. Tests may replace its parts before `execute`."""

    name: ClassVar[str]
    """The name of the source of randomness, with the seed."""
    limit_s: ClassVar[float] = 3600.0
    """The limit of virtual time."""

    def __init__(self, seed: int, settings: Settings, *, show: Callable[[str], None] | None = None) -> None:
        self.seed = seed
        self.settings = settings
        self.trace = Trace(show)

    def reduce(self, skipped: frozenset[str], share: float) -> None:
        self.settings = self.settings.reduced(skipped, share)

    def execute(self) -> Result:
        """Run the seed. Raises `SafetyViolation`, `LivenessViolation` or `StuckError`."""
        results: list[Result] = []

        async def main(scheduler: Scheduler) -> None:
            source = random.Random(f"{self.name}/{self.seed}")
            cluster: Cluster | None = None
            try:
                async with trio.open_nursery() as nursery:
                    cluster = self._cluster(source, scheduler, nursery)
                    results.append(await self._phases(cluster, source))
                    nursery.cancel_scope.cancel()
            except BaseExceptionGroup as group:
                raise _first_of(group) from group
            finally:
                if cluster is not None and cluster.violation is not None:
                    raise cluster.violation

        with logs_into(self.trace):
            run(self.seed, main, limit_seconds=self.limit_s)
        return results[0]

    @abstractmethod
    def _cluster(self, source: random.Random, scheduler: Scheduler, nursery: trio.Nursery) -> Cluster: ...

    @abstractmethod
    async def _phases(self, cluster: Cluster, source: random.Random) -> Result:
        """Break the cluster, heal it, and check it."""


def derived(source: random.Random) -> random.Random:
    return random.Random(source.getrandbits(64))


def _first_of(error: BaseException) -> BaseException:
    """The first error in a group of groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class Clients(Generic[Cluster]):
    """Clients of a cluster, until `finish`: calls that have begun still end."""

    def __init__(self, cluster: Cluster, source: random.Random) -> None:
        self._cluster = cluster
        self._random = source
        self._finish = trio.Event()

    def finish(self) -> None:
        self._finish.set()

    def _derived(self) -> random.Random:
        return derived(self._random)

    async def _pause(self, source: random.Random, max_s: float, *, min_s: float = 0.0) -> None:
        with trio.move_on_after(source.uniform(min_s, max_s)):
            await self._finish.wait()


def draw_records(
    client: str, number: int, source: random.Random, *, records_max: int, padding_max: int
) -> list[bytes]:
    """Records that no other append has, of call `number` of the client."""
    return [
        b"%s/%d/%d " % (client.encode(), number, part) + b"." * source.randint(0, padding_max)
        for part in range(source.randint(1, records_max))
    ]
