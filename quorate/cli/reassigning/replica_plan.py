"""The places where replicas should go: pure functions of the cluster as it is.

Replicas are spread over racks first, then evenly over brokers, by the number of replicas and of first
replicas that each has. Equal choices go to the lowest id, so that the same cluster gets the same plan.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from quorate.broker.admin.admin_client import TopicPartition
from quorate.cli.console.cli_errors import CommandError
from quorate.cli.reassigning.assignment_files import Assignments

Racks = Mapping[int, str | None]
"""The racks of the brokers that may have replicas; None: in no rack."""


class PlanError(CommandError):
    """There is no plan. The message states the remedy."""


class _Loads:
    """The numbers of replicas, and of first replicas, of each broker."""

    def __init__(self, racks: Racks, assignments: Iterable[Sequence[int]]) -> None:
        self._racks = racks
        self._replicas: Counter[int] = Counter()
        self._firsts: Counter[int] = Counter()
        for each in assignments:
            self.add(each)

    def add(self, replicas: Sequence[int]) -> None:
        self._replicas.update(replicas)
        self._firsts.update(replicas[:1])

    def remove(self, replicas: Sequence[int]) -> None:
        self._replicas.subtract(replicas)
        self._firsts.subtract(replicas[:1])

    def best(self, beside: Sequence[int], *, first: bool) -> int | None:
        """Return the broker for one more replica of a partition that has the others `beside`; None: no
        broker is left."""
        taken = Counter(self._racks[each] for each in beside if self._racks.get(each) is not None)

        def load(broker: int) -> tuple[int, ...]:
            rack = self._racks[broker]
            together = 0 if rack is None else taken[rack]
            counts = (self._firsts[broker], self._replicas[broker])
            return (together, *(counts if first else counts[::-1]), broker)

        return min((each for each in self._racks if each not in beside), key=load, default=None)


def spread(current: Assignments, *, racks: Racks, others: Iterable[Sequence[int]] = ()) -> Assignments:
    """Put the partitions on the given brokers only, each with as many replicas as it has now, as evenly as
    can be. `others`: the replicas of all other partitions. Raises `PlanError`."""
    loads = _Loads(racks, others)
    placed: dict[TopicPartition, tuple[int, ...]] = {}
    for key, replicas in sorted(current.items()):
        _check(key, len(replicas), racks)
        chosen: list[int] = []
        for index in range(len(replicas)):
            best = loads.best(chosen, first=index == 0)
            if best is None:
                raise AssertionError("fewer brokers than were checked")
            chosen.append(best)
        loads.add(chosen)
        placed[key] = tuple(chosen)
    return placed


def drained(current: Assignments, broker: int, *, racks: Racks) -> Assignments:
    """Return the partitions that have a replica on `broker`, with it replaced in its place. `racks`: of the
    live brokers. Raises `PlanError` if any of them has nowhere to go; nothing should be done then."""
    racks = {each: rack for each, rack in racks.items() if each != broker}
    loads = _Loads(racks, current.values())
    plan: dict[TopicPartition, tuple[int, ...]] = {}
    for key, replicas in sorted(current.items()):
        if broker not in replicas:
            continue
        index = replicas.index(broker)
        rest = [each for each in replicas if each != broker]
        best = loads.best(rest, first=index == 0)
        if best is None:
            raise PlanError(
                f"partition {key.partition} of topic {key.topic} has replicas on {list(replicas)}, and no "
                f"other broker than these is live: start another broker, or give the topic fewer replicas "
                "(quorate reassign-partitions execute)"
            )
        after = (*replicas[:index], best, *replicas[index + 1 :])
        loads.remove(replicas)
        loads.add(after)
        plan[key] = after
    return plan


def _check(key: TopicPartition, factor: int, racks: Racks) -> None:
    if factor > len(racks):
        raise PlanError(
            f"partition {key.partition} of topic {key.topic} has {factor} replicas, and only {len(racks)} "
            "brokers were named: name more"
        )
