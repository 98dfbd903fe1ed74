"""The steps of the commands on moves: begin, check, and clear up."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from quorate.broker.wire import WireClient
from quorate.cli.reassigning.assignment_files import Assignments, Replica
from quorate.cli.reassigning.cluster_view import ClusterView, Move, read_cluster
from quorate.cli.reassigning.progress import Progress, progress_of
from quorate.cli.reassigning.reassignment_requests import alter_reassignments
from quorate.cli.reassigning.throttling import Throttle, end_throttle, set_throttle

POLL_SECONDS: Final = 1.0
"""Between two looks at moves."""
_INCREMENTAL_ALTER_CONFIGS: Final = 44


async def begin_moves(
    client: WireClient, view: ClusterView, plan: Assignments, *, throttle: int | None
) -> dict[Replica, str]:
    """Set the throttle, then begin. Return what was refused, with the reasons. Raises `KafkaError`."""
    if throttle is not None:
        # All moves of these topics, those that are under way already too: a topic has one list for each side.
        topics = {key.topic for key in plan}
        moves = {key: move for key, move in view.moves.items() if key.topic in topics}
        moves |= {key: _planned(view, key, replicas) for key, replicas in plan.items()}
        await set_throttle(client, Throttle.of(moves), rate=throttle, brokers=view.brokers.values())
    return await alter_reassignments(client, dict(plan))


def _planned(view: ClusterView, key: Replica, target: tuple[int, ...]) -> Move:
    original = view.servers(key)
    removing = tuple(each for each in original if each not in target)
    return Move(
        replicas=target + removing,
        adding=tuple(each for each in target if each not in original),
        removing=removing,
    )


async def end_throttles(client: WireClient, topics: Iterable[str]) -> bool:
    """Remove the throttles; return whether the cluster has any. Raises `KafkaError`."""
    if _INCREMENTAL_ALTER_CONFIGS not in client.versions:
        return False
    view = await read_cluster(client)
    there = {key.topic for key in view.partitions}
    await end_throttle(
        client,
        [each for each in topics if each in there],
        brokers=() if view.moves else view.brokers.values(),
    )
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The moves of a file at one moment."""

    done: tuple[Replica, ...]
    under_way: Mapping[Replica, Move]
    different: Mapping[Replica, tuple[int, ...] | None]
    """Neither: the replicas that the partition has, None if it does not exist."""
    progress: Progress

    def lines(self, before: Progress | None = None) -> Iterator[str]:
        """For people: a line for each partition, and one for all that is left."""
        for key in self.done:
            yield f"Reassignment of partition {key.topic}-{key.partition} is completed."
        for key in self.under_way:
            left = self.progress.left[key]
            known = "" if left is None else f": {left} bytes left"
            yield f"Reassignment of partition {key.topic}-{key.partition} is still in progress{known}."
        for key, replicas in self.different.items():
            yield (
                f"There is no active reassignment of partition {key.topic}-{key.partition}, "
                + ("which does not exist." if replicas is None else f"but its replicas are {list(replicas)}.")
            )
        if self.under_way:
            yield summary(self.progress, before)

    def as_dict(self, before: Progress | None = None) -> dict[str, object]:
        """For programs."""
        return {
            "done": [_named(key) for key in self.done],
            "underWay": [_named(key) | {"bytesLeft": self.progress.left[key]} for key in self.under_way],
            "different": [
                _named(key) | {"replicas": None if replicas is None else list(replicas)}
                for key, replicas in self.different.items()
            ],
            "secondsLeft": None if before is None else self.progress.seconds_left(before),
        }


def summary(progress: Progress, before: Progress | None) -> str:
    """One line for all that is under way."""
    many = len(progress.left)
    seconds = None if before is None else progress.seconds_left(before)
    estimate = "" if seconds is None else f", about {seconds:g} s"
    size = "an unknown number of" if None in progress.left.values() else str(progress.bytes_left)
    return f"{many} partition{'s' if many != 1 else ''} left: {size} bytes{estimate}"


def _named(key: Replica) -> dict[str, object]:
    return {"topic": key.topic, "partition": key.partition}


async def check_moves(client: WireClient, plan: Assignments) -> Checked:
    """Compare a file with the cluster. Raises `KafkaError`."""
    view = await read_cluster(client)
    under_way = {key: view.moves[key] for key in sorted(plan) if key in view.moves}
    settled = {
        key: tuple(map(int, view.partitions[key].replica_nodes)) if key in view.partitions else None
        for key in sorted(plan)
        if key not in under_way
    }
    return Checked(
        done=tuple(key for key, replicas in settled.items() if replicas == plan[key]),
        under_way=under_way,
        different={key: replicas for key, replicas in settled.items() if replicas != plan[key]},
        progress=await progress_of(under_way, view),
    )
