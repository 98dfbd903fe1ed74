"""States that a worker holds from one micro-batch of a stream to the next.

Spark reuses its Python workers, and often one reads on where it ended. Where another does, it makes the state
anew, from a snapshot and the log.
"""

from collections import OrderedDict
from typing import Final, TypeAlias

from quorate.history import BatchMark, MetadataHistory
from quorate.spark_source.changes.metadata_changes import MetadataChanges
from quorate.spark_source.source_options import ViewName

StateKey: TypeAlias = tuple[MetadataHistory, ViewName, bool, int, int]
"""The log, the view, whether unknown records are marked, the shard and the number of shards."""
_HELD_MAX: Final = 4


class HeldStates:
    """The last states, each for one reader: it changes as it is read on."""

    def __init__(self) -> None:
        self._states: OrderedDict[StateKey, tuple[int, BatchMark | None, MetadataChanges]] = OrderedDict()

    def keep(self, key: StateKey, offset: int, mark: BatchMark | None, state: MetadataChanges) -> None:
        """Hold the state before `offset`. `mark`: of the batch before that."""
        self._states[key] = offset, mark, state
        self._states.move_to_end(key)
        while len(self._states) > _HELD_MAX:
            self._states.popitem(last=False)

    def take(self, key: StateKey, offset: int, mark: BatchMark | None) -> MetadataChanges | None:
        """Return the state before `offset`, and hold it no more. None: it is not held. One of another offset
        is of no use, and one of another mark is of another log."""
        held = self._states.pop(key, None)
        return held[2] if held is not None and held[:2] == (offset, mark) else None


held_states: Final = HeldStates()
"""Those of this process."""
