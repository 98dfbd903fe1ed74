"""The common parts of the typed views."""

import abc
from collections.abc import Iterable
from typing import Final

from quorate.broker.metadata.metadata_records import AbortTransaction, BeginTransaction, EndTransaction
from quorate.history import Entry, type_number
from quorate.spark_source.views.view import Row

BOUNDS: Final = frozenset(
    (type_number(BeginTransaction()), type_number(EndTransaction()), type_number(AbortTransaction()))
)
"""The type numbers that a typed view wants besides its own."""


class TypedView(abc.ABC):
    """Holds back the entries of a transaction until its end (KIP-868), and forgets those of an aborted one.
    A row keeps the place in the log of its own record."""

    def __init__(self) -> None:
        self._held: list[Entry] | None = None
        """The entries of the open transaction. None: none is open."""

    def rows(self, entry: Entry) -> Iterable[Row]:
        held = self._held
        match entry.record:
            case BeginTransaction():
                self._held = []
            case EndTransaction():
                self._held = None
                for each in held or ():
                    yield from self.rows_of(each)
            case AbortTransaction():
                self._held = None
            case _ if held is not None:
                held.append(entry)
            case _:
                yield from self.rows_of(entry)

    @abc.abstractmethod
    def rows_of(self, entry: Entry) -> Iterable[Row]:
        """The rows that this entry makes, which took place."""
