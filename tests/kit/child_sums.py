"""A state machine for nodes in child processes, in a module that imports little."""

from collections.abc import Sequence
from dataclasses import dataclass

import trio

from quorate.raft import CommittedBatch


@dataclass
class ChildSums:
    """Adds up the records."""

    total: int = 0

    def apply(self, batch: CommittedBatch) -> Sequence[object]:
        return [self._add(record) for record in batch.records]

    def _add(self, record: bytes) -> object:
        if record == b"unpicklable":
            return lambda: None
        self.total += int(record)
        return self.total

    def plus(self, number: int) -> int:
        return self.total + number


def answer(sums: ChildSums, query: bytes) -> bytes:
    return b"%d" % sums.plus(int(query))


def divide(sums: ChildSums) -> float:
    return sums.total / 0


def broken() -> ChildSums:
    raise RuntimeError("no state machine today")


def calls_under_way(_: ChildSums) -> int:
    """The number of calls that the child answers now, this one included."""
    count, tasks = 0, [trio.lowlevel.current_root_task()]
    while tasks:
        task = tasks.pop()
        count += task.name.endswith("_Service._answer")
        tasks += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return count
