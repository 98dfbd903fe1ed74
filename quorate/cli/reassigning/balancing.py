"""Balancing: replicas and leaders are spread evenly over the brokers, and watched until that is done."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import trio

from quorate.broker.admin.admin_client import AdminClient, TopicPartition
from quorate.broker.admin.replicas import ClusterView, alter_reassignments, elect_leaders, read_cluster
from quorate.cli.console.cli_errors import CommandError
from quorate.cli.reassigning.assignment_files import Assignments
from quorate.cli.reassigning.draining import MoveWatch, names_of
from quorate.cli.reassigning.moves import POLL_SECONDS, begin_moves, end_throttles
from quorate.cli.reassigning.replica_plan import balanced


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerShare:
    """What a live broker has, and what it would have."""

    broker_id: int
    rack: str | None
    replicas: int
    planned_replicas: int
    firsts: int
    """Partitions whose preferred leader it is."""
    planned_firsts: int


@dataclass(frozen=True, slots=True)
class BalancePlan:
    """`changes`: the new replicas of each partition that changes. `left_out`: partitions without a leader,
    which can't be moved."""

    changes: Assignments
    shares: tuple[BrokerShare, ...]
    moving: int
    """Replicas that are copied to another broker."""
    left_out: tuple[TopicPartition, ...]


def check_idle(view: ClusterView) -> None:
    """Raises `CommandError` if partitions are being moved: they would be counted where they are not yet."""
    if view.moves:
        raise CommandError(
            f"{len(view.moves)} partitions are being moved already: wait for them (quorate "
            "reassign-partitions list), or take them back (quorate cluster balance --cancel)"
        )


def plan_balance(view: ClusterView) -> BalancePlan:
    """Plan for the cluster as it will be when all moves under way have ended."""
    racks = {each.broker_id: each.rack for each in view.brokers.values()}
    targets = view.targets()
    left_out = tuple(sorted(key for key, state in view.partitions.items() if int(state.leader_id) < 0))
    changes = balanced({key: each for key, each in targets.items() if key not in left_out}, racks=racks)
    after = {**targets, **changes}
    now, then = (Counter(one for each in held.values() for one in each) for held in (targets, after))
    first, then_first = (Counter(each[0] for each in held.values() if each) for held in (targets, after))
    return BalancePlan(
        changes,
        tuple(
            BrokerShare(
                broker_id=each,
                rack=racks[each],
                replicas=now[each],
                planned_replicas=then[each],
                firsts=first[each],
                planned_firsts=then_first[each],
            )
            for each in sorted(racks)
        ),
        sum(len({*replicas} - {*targets[key]}) for key, replicas in changes.items()),
        left_out,
    )


@dataclass(frozen=True, slots=True)
class Balance:
    """Carries out a plan."""

    throttle: int | None
    """Bytes per second; None: as fast as can be."""
    wait: bool
    """False: return when the moves have begun."""
    say: Callable[[str], object]
    """Called with each line about the progress."""

    async def run(self, admin: AdminClient, view: ClusterView, plan: BalancePlan) -> None:
        """Return when all partitions of the plan are where it says, and preferred leaders lead. Raises
        `CommandError` if that can't be, `KafkaError`."""
        if plan.changes:
            await self._begin(admin, view, plan)
            if not self.wait:
                self.say("Watch them with quorate reassign-partitions list")
                return
            await self._watch(admin, plan)
            if self.throttle is not None:
                await end_throttles(admin, {key.topic for key in plan.changes})
        else:
            self.say("No replica has to move")
        # Others may have been reordered by a balance before this one.
        elected = await elect_leaders(admin, "preferred", None)
        unled = [each for each in elected if each.failed and (each.topic, each.partition) in plan.changes]
        if unled:
            raise CommandError(
                f"{len(unled)} partitions are not led by their first replica, {unled[0].topic}-"
                f"{unled[0].partition} for one: {unled[0].message or unled[0].error}"
            )
        self.say("The cluster is balanced")

    async def _begin(self, admin: AdminClient, view: ClusterView, plan: BalancePlan) -> None:
        refused = await begin_moves(admin, view, plan.changes, throttle=self.throttle)
        if refused:
            key, reason = min(refused.items())
            raise CommandError(f"{key}: {reason}")
        self.say(f"Began to move {plan.moving} replicas of {len(plan.changes)} partitions")

    async def _watch(self, admin: AdminClient, plan: BalancePlan) -> None:
        watch = MoveWatch(self.say)
        while True:
            view = await read_cluster(admin)
            moves = {key: move for key, move in view.moves.items() if key in plan.changes}
            if not moves:
                break
            stuck = await watch.look(admin, moves, view)
            if len(stuck) == len(moves):
                raise CommandError(
                    f"{names_of(stuck)}. Start the brokers that are down, and the moves end by themselves; "
                    "to take them back: quorate cluster balance --cancel"
                )
            await trio.sleep(POLL_SECONDS)
        targets = view.targets()
        other = [key for key, replicas in plan.changes.items() if targets.get(key, replicas) != replicas]
        if other:
            raise CommandError(
                f"{len(other)} partitions have other replicas than planned, {min(other)} for one: somebody "
                "else moved them, or cancelled that. Give the command again"
            )


async def cancel_all(admin: AdminClient) -> Mapping[TopicPartition, str]:
    """Take back every move under way, and the throttles. Return the moves, each with why it was refused, or
    nothing."""
    view = await read_cluster(admin)
    refused = await alter_reassignments(admin, dict.fromkeys(view.moves)) if view.moves else {}
    if view.moves and not refused:
        await end_throttles(admin, {key.topic for key in view.moves})
    return {key: refused.get(key, "") for key in sorted(view.moves)}
