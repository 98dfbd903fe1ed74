"""The data of an earlier life that a registering broker still has."""

import uuid
from dataclasses import dataclass

from quorate.broker.metadata import LOST, is_reserved


@dataclass(frozen=True, slots=True, kw_only=True)
class Belongings:
    """The directories of a broker's earlier life (KIP-858): which are missing, and which have all their
    data."""

    online: frozenset[uuid.UUID]
    """What the broker has now."""
    proven: frozenset[uuid.UUID]
    """What it had in the life whose data it has in full (KIP-966); empty if it proves nothing."""
    before: frozenset[uuid.UUID]
    """What it had in the life before, as far as anybody knows."""

    @property
    def complete(self) -> bool:
        """True if all data of the earlier life is here."""
        return bool(self.proven) and self.before <= self.proven <= self.online

    @property
    def missing(self) -> bool:
        """True if a directory of the earlier life is missing."""
        return not self.before <= self.online

    def is_missing(self, directory: uuid.UUID) -> bool:
        """True if a replica recorded in `directory` is missing with it, or may be because its directory was
        never recorded."""
        if is_reserved(directory):
            return directory == LOST or self.missing
        return directory not in self.online

    def lost(self, directory: uuid.UUID) -> bool:
        """True if a replica recorded in `directory` may lack records."""
        if is_reserved(directory):
            return directory == LOST or not self.complete
        return directory not in self.online or directory not in self.proven
