"""The places where replicas should go: pure functions of the cluster as it is.

Replicas are spread over racks first, then evenly over brokers, by the number of replicas and of first
replicas that each has. Equal choices go to the lowest id, so that the same cluster gets the same plan.
"""

from collections import Counter, defaultdict
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
        self.replicas: Counter[int] = Counter()
        self.firsts: Counter[int] = Counter()
        for each in assignments:
            self.add(each)

    def add(self, replicas: Sequence[int]) -> None:
        self.replicas.update(replicas)
        self.firsts.update(replicas[:1])

    def remove(self, replicas: Sequence[int]) -> None:
        self.replicas.subtract(replicas)
        self.firsts.subtract(replicas[:1])

    def best(self, beside: Sequence[int], *, first: bool) -> int | None:
        """Return the broker for one more replica of a partition that has the others `beside`; None: no
        broker is left."""
        taken = Counter(self._racks[each] for each in beside if self._racks.get(each) is not None)

        def load(broker: int) -> tuple[int, ...]:
            rack = self._racks[broker]
            together = 0 if rack is None else taken[rack]
            counts = (self.firsts[broker], self.replicas[broker])
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


def balanced(current: Assignments, *, racks: Racks) -> Assignments:
    """Return the partitions that change so that replicas are in as many racks as can be, brokers have equal
    numbers of replicas but for one, and then of first replicas. Topics with many replicas on a broker give
    first. Few more replicas move than that needs. `racks`: of the live brokers. Replicas on others stay
    where they are."""
    plan = _Balance(current, racks)
    each, more = divmod(plan.total, max(len(racks), 1))
    most = each + (more > 0)
    # Who has too many gives to who has too few. What is left to do can't be done by one move of a replica.
    steps = ((most, each), (most, most), (each, each), (0, plan.total))
    while plan.use_racks() or any(plan.even_out(above=above, below=below) for above, below in steps):
        pass
    while plan.spread_firsts() or plan.pass_firsts_on():
        pass
    return {key: replicas for key, replicas in plan.placed.items() if replicas != current[key]}


class _Balance:
    """An assignment that gets better step by step. Each step uses one more rack, or else lowers the sum of
    squares of what brokers have, so that there is a last one."""

    def __init__(self, current: Assignments, racks: Racks) -> None:
        self.placed = dict(sorted(current.items()))
        self._racks = racks
        self._loads = _Loads(racks, current.values())
        self._of_topics: dict[str, Counter[int]] = defaultdict(Counter)
        for key, replicas in current.items():
            self._of_topics[key.topic].update(replicas)

    @property
    def total(self) -> int:
        """The replicas on live brokers."""
        return sum(self._loads.replicas[each] for each in self._racks)

    def use_racks(self) -> bool:
        """Where two replicas share a rack, and another rack has none, move one of them there. Return whether
        there were any."""
        moved = False
        for key in self.placed:
            while True:
                replicas = self.placed[key]
                taken = Counter(self._racks[each] for each in replicas if self._racks.get(each) is not None)
                crowded = [each for each in replicas if taken[self._racks.get(each)] > 1]
                empty = {
                    broker: rack
                    for broker, rack in self._racks.items()
                    if rack is not None and not taken[rack] and broker not in replicas
                }
                if not crowded or not empty:
                    break
                leaving = max(crowded, key=lambda each: (self._loads.replicas[each], each))
                self._move(key, leaving, self._lightest(key.topic, empty))
                moved = True
        return moved

    def even_out(self, *, above: int, below: int) -> bool:
        """Move replicas from brokers with more than `above` to those with less than `below`, and two less,
        one time through all. Return whether there were any."""
        loads, moved = self._loads.replicas, False
        for heavy in sorted(self._racks, key=lambda each: (-loads[each], each)):
            for key in self._in_turns(heavy):
                if loads[heavy] <= max(above, min(loads[each] for each in self._racks) + 1):
                    break
                replicas = self.placed[key]
                others = {self._racks.get(each) for each in replicas if each != heavy} - {None}
                shares = self._racks[heavy] is None or self._racks[heavy] in others
                lighter = [
                    each
                    for each in self._racks
                    if loads[each] < min(below, loads[heavy] - 1)
                    and each not in replicas
                    and (shares or self._racks[each] not in {*others, None})
                ]
                if lighter:
                    self._move(key, heavy, self._lightest(key.topic, lighter))
                    moved = True
        return moved

    def spread_firsts(self) -> bool:
        """Let other replicas be first where their brokers are first less often, one time through all. Return
        whether there were any."""
        firsts, changed = self._loads.firsts, False
        for key, replicas in self.placed.items():
            live = [each for each in replicas if each in self._racks]
            if not live:
                continue
            best = min(live, key=lambda each: (firsts[each], each))
            if replicas[0] not in self._racks or firsts[replicas[0]] - firsts[best] >= 2:
                self._place(key, (best, *(each for each in replicas if each != best)))
                changed = changed or best != replicas[0]
        return changed

    def pass_firsts_on(self) -> bool:
        """Do what no single partition can: a broker that is first too often lets another be first, which lets
        a third one be, and so on to one that is first less often by two. Return whether there was a way."""
        firsts = self._loads.firsts
        ways: dict[int, dict[int, TopicPartition]] = defaultdict(dict)
        for key, replicas in self.placed.items():
            for each in replicas[1:]:
                if each in self._racks:
                    ways[replicas[0]].setdefault(each, key)
        for start in sorted(self._racks, key=lambda each: (-firsts[each], each)):
            came_from = {start: start}
            for broker in (reached := [start]):
                for each in ways[broker]:
                    if each not in came_from:
                        came_from[each] = broker
                        reached.append(each)
            end = min(reached, key=lambda each: (firsts[each], each))
            if firsts[start] - firsts[end] >= 2:
                while end != start:
                    key = ways[came_from[end]][end]
                    self._place(key, (end, *(each for each in self.placed[key] if each != end)))
                    end = came_from[end]
                return True
        return False

    def _in_turns(self, broker: int) -> list[TopicPartition]:
        """The partitions on a broker, such that whoever takes some of the first ones takes them from the
        topics that have the most there."""
        left = {topic: count[broker] for topic, count in self._of_topics.items()}
        turns = []
        for key, replicas in self.placed.items():
            if broker in replicas:
                turns.append((-left[key.topic], key))
                left[key.topic] -= 1
        return [key for _, key in sorted(turns)]

    def _lightest(self, topic: str, brokers: Iterable[int]) -> int:
        own = self._of_topics[topic]
        return min(brokers, key=lambda each: (self._loads.replicas[each], own[each], each))

    def _move(self, key: TopicPartition, source: int, target: int) -> None:
        self._of_topics[key.topic].update({source: -1, target: 1})
        self._place(key, tuple(target if each == source else each for each in self.placed[key]))

    def _place(self, key: TopicPartition, replicas: tuple[int, ...]) -> None:
        self._loads.remove(self.placed[key])
        self._loads.add(replicas)
        self.placed[key] = replicas


def _check(key: TopicPartition, factor: int, racks: Racks) -> None:
    if factor > len(racks):
        raise PlanError(
            f"partition {key.partition} of topic {key.topic} has {factor} replicas, and only {len(racks)} "
            "brokers were named: name more"
        )
