"""Moving everything off a broker, and watching that until it is done or can't be."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import trio

from quorate.broker.wire import WireClient
from quorate.cli.console import CommandError
from quorate.cli.reassigning.assignment_files import Replica
from quorate.cli.reassigning.cluster_view import ClusterView, read_cluster
from quorate.cli.reassigning.moves import POLL_SECONDS, begin_moves, end_throttles, summary
from quorate.cli.reassigning.progress import progress_of
from quorate.cli.reassigning.replica_plan import drained
from quorate.cli.reassigning.stuck_moves import StuckWatch, stuck_moves

_NAMED: Final = 10
"""Partitions that a message names."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Empties one broker, from wherever an earlier drain of it stopped."""

    broker_id: int
    throttle: int | None
    """Bytes per second; None: as fast as can be."""
    wait: bool
    """False: return when the moves have begun."""
    wait_for_down: bool
    """Also wait for moves that need a broker that is down."""
    say: Callable[[str], object]
    """Gets the lines about the progress."""

    async def run(self, client: WireClient) -> None:
        """Return when the broker is empty. Raises `CommandError` if it can't be, `KafkaError`."""
        before, topics, said, watch = None, set[str](), "", StuckWatch()
        while True:
            view = await read_cluster(client)
            begun = await self._begin(client, view)
            topics |= begun
            if begun:
                # Topics may be created meanwhile, with replicas here.
                continue
            leaving = {key: move for key, move in view.moves.items() if self.broker_id in move.removing}
            topics |= {key.topic for key in leaving}
            if not leaving or not self.wait:
                break
            progress = await progress_of(leaving, view)
            line = summary(progress, before)
            if line != said:
                self.say(line)
            before, said = progress, line
            stuck = watch.look(stuck_moves(leaving, view), now=trio.current_time())
            if len(stuck) == len(leaving) and not self.wait_for_down:
                raise self._stuck(stuck)
            await trio.sleep(POLL_SECONDS)
        if leaving:
            many = len(leaving)
            self.say(f"{many} replicas are leaving broker {self.broker_id}; give the command again to watch")
            return
        if topics and self.throttle is not None:
            await end_throttles(client, topics)
        if not topics and self.broker_id not in {*view.brokers, *view.fenced}:
            known = ", ".join(map(str, sorted({*view.brokers, *view.fenced})))
            raise CommandError(
                f"no broker {self.broker_id} is registered, and no partition has a replica on it; "
                f"the brokers are {known}"
            )
        self.say(f"Broker {self.broker_id} has no replicas")

    async def _begin(self, client: WireClient, view: ClusterView) -> set[str]:
        """Begin to move what is not moving yet. Return its topics."""
        racks = {each.broker_id: each.rack for each in view.brokers.values()}
        plan = drained(view.targets(), self.broker_id, racks=racks)
        if plan:
            refused = await begin_moves(client, view, plan, throttle=self.throttle)
            if refused:
                key, reason = min(refused.items())
                raise CommandError(f"{key.topic}-{key.partition}: {reason}")
            self.say(f"Began to move {len(plan)} replicas off broker {self.broker_id}")
        return {key.topic for key in plan}

    def _stuck(self, stuck: Mapping[Replica, str]) -> CommandError:
        named = [f"{key.topic}-{key.partition} can't be moved: {reason}" for key, reason in stuck.items()]
        more = f"; and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
        return CommandError(
            f"{'; '.join(named[:_NAMED])}{more}. {len(stuck)} replicas stay on broker {self.broker_id}. "
            "Start the brokers that are down, and the moves end by themselves; --wait-for-down waits for "
            "that. To take the moves back: quorate reassign-partitions cancel"
        )
