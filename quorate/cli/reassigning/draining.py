"""Draining: a broker's replicas are moved off it, and watched until that is done or can't be."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import trio

from quorate.broker.admin.admin_client import AdminClient, TopicPartition
from quorate.broker.admin.replicas import ClusterView, Move, read_cluster
from quorate.cli.console.cli_errors import CommandError
from quorate.cli.reassigning.moves import (
    POLL_SECONDS,
    Progress,
    begin_moves,
    end_throttles,
    progress_of,
    summary,
)
from quorate.cli.reassigning.replica_plan import drained

_NAMED: Final = 10
"""Partitions that a message names."""
_NO_LEADER: Final = -1
STUCK_SECONDS: Final = 5.0
"""The time after which a stuck move is reported: an election takes some tenths of a second."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Empties one broker, from wherever an earlier drain of it stopped."""

    broker_id: int
    throttle: int | None
    """Bytes per second; None: as fast as can be."""
    wait: bool
    """False: return when the moves have begun."""
    wait_for_down: bool
    """True: also wait for moves that need a broker that is down."""
    say: Callable[[str], object]
    """Called with each line about the progress."""

    async def run(self, admin: AdminClient) -> None:
        """Return when the broker is empty. Raises `CommandError` if it can't be, `KafkaError`."""
        topics, watch = set[str](), MoveWatch(self.say)
        while True:
            view = await read_cluster(admin)
            begun = await self._begin(admin, view)
            topics |= begun
            if begun:
                # Topics may be created meanwhile, with replicas here.
                continue
            leaving = {key: move for key, move in view.moves.items() if self.broker_id in move.removing}
            topics |= {key.topic for key in leaving}
            if not leaving or not self.wait:
                break
            stuck = await watch.look(admin, leaving, view)
            if len(stuck) == len(leaving) and not self.wait_for_down:
                raise self._stuck(stuck)
            await trio.sleep(POLL_SECONDS)
        if leaving:
            many = len(leaving)
            self.say(f"{many} replicas are leaving broker {self.broker_id}; give the command again to watch")
            return
        if topics and self.throttle is not None:
            await end_throttles(admin, topics)
        if not topics and self.broker_id not in {*view.brokers, *view.fenced}:
            known = ", ".join(map(str, sorted({*view.brokers, *view.fenced})))
            raise CommandError(
                f"no broker {self.broker_id} is registered, and no partition has a replica on it; "
                f"the brokers are {known}"
            )
        self.say(f"Broker {self.broker_id} has no replicas")

    async def _begin(self, admin: AdminClient, view: ClusterView) -> set[str]:
        """Begin to move what is not moving yet. Return its topics."""
        racks = {each.broker_id: each.rack for each in view.brokers.values()}
        plan = drained(view.targets(), self.broker_id, racks=racks)
        if plan:
            refused = await begin_moves(admin, view, plan, throttle=self.throttle)
            if refused:
                key, reason = min(refused.items())
                raise CommandError(f"{key}: {reason}")
            self.say(f"Began to move {len(plan)} replicas off broker {self.broker_id}")
        return {key.topic for key in plan}

    def _stuck(self, stuck: Mapping[TopicPartition, str]) -> CommandError:
        return CommandError(
            f"{names_of(stuck)}. {len(stuck)} replicas stay on broker {self.broker_id}. "
            "Start the brokers that are down, and the moves end by themselves; --wait-for-down waits for "
            "that. To take the moves back: quorate reassign-partitions cancel"
        )


class MoveWatch:
    """Says how far moves are whenever that is news, and finds those that are stuck."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say
        self._before: Progress | None = None
        self._said = ""
        self._stuck = StuckWatch()

    async def look(
        self, admin: AdminClient, moves: Mapping[TopicPartition, Move], view: ClusterView
    ) -> dict[TopicPartition, str]:
        """Return those of `moves` that have been stuck for long enough, with the reasons."""
        progress = await progress_of(admin, moves, view)
        line = summary(progress, self._before)
        if line != self._said:
            self._say(line)
        self._before, self._said = progress, line
        return self._stuck.look(stuck_moves(moves, view), now=trio.current_time())


def names_of(stuck: Mapping[TopicPartition, str]) -> str:
    """Name moves that can't end, each with the reason, in a sentence."""
    named = [f"{key} can't be moved: {reason}" for key, reason in stuck.items()]
    more = f"; and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return f"{'; '.join(named[:_NAMED])}{more}"


# Moves that can't end as the cluster is: their source or their target is down


def stuck_moves(moves: Mapping[TopicPartition, Move], view: ClusterView) -> dict[TopicPartition, str]:
    """Return those of `moves` that can't go on now, each with the reason."""
    reasons = ((key, _obstacle(key, move, view)) for key, move in sorted(moves.items()))
    return {key: reason for key, reason in reasons if reason is not None}


def _obstacle(key: TopicPartition, move: Move, view: ClusterView) -> str | None:
    state = view.partitions[key]
    if int(state.leader_id) == _NO_LEADER:
        sources = [*map(int, state.isr_nodes)] or [*map(int, state.eligible_leader_replicas or ())]
        sources = sources or [*map(int, state.last_known_elr or ())] or list(move.original)
        return f"nobody leads it: its records are on {_brokers(sources)}, which {_are(sources)} down"
    missing = [each for each in move.target if each not in view.brokers]
    if missing:
        return f"it is to have a replica on {_brokers(missing)}, which {_are(missing)} down"
    return None


def _brokers(ids: Iterable[int]) -> str:
    listed = [str(each) for each in ids]
    return f"broker{'s' if len(listed) != 1 else ''} {', '.join(listed)}"


def _are(ids: list[int]) -> str:
    return "are" if len(ids) != 1 else "is"


class StuckWatch:
    """Finds the moves that have been stuck for `STUCK_SECONDS`."""

    def __init__(self) -> None:
        self._since: dict[TopicPartition, float] = {}

    def look(self, stuck: Mapping[TopicPartition, str], *, now: float) -> dict[TopicPartition, str]:
        """Take in the moves that are stuck at `now`, in seconds. Return those that have been for long enough,
        with the reasons."""
        self._since = {key: self._since.get(key, now) for key in stuck}
        return {key: reason for key, reason in stuck.items() if now - self._since[key] >= STUCK_SECONDS}
