"""The data of an earlier life that a registering broker still has."""

import uuid
from dataclasses import dataclass

from quorate.broker.metadata import LOST, is_reserved


@dataclass(frozen=True, slots=True, kw_only=True)
class Belongings:
    """Of each directory (KIP-858): whether it is gone, and whether it has all that was written to it."""

    online: frozenset[uuid.UUID]
    """What the broker has now."""
    proven: frozenset[uuid.UUID]
    """What it had in the life whose data it has in full (KIP-966); empty if it proves nothing."""
    before: frozenset[uuid.UUID]
    """What it had in the life before, as far as anybody knows."""

    @property
    def complete(self) -> bool:
        """Whether everything of the life before is here."""
        return bool(self.proven) and self.before <= self.proven <= self.online

    @property
    def missing(self) -> bool:
        """Whether a directory of the life before is not here."""
        return not self.before <= self.online

    def gone(self, directory: uuid.UUID) -> bool:
        """Whether a replica recorded in `directory` is gone with it, or may be, where nobody wrote down which
        directory it is in."""
        if is_reserved(directory):
            return directory == LOST or self.missing
        return directory not in self.online

    def lost(self, directory: uuid.UUID) -> bool:
        """Whether a replica recorded in `directory` may lack records."""
        if is_reserved(directory):
            return directory == LOST or not self.complete
        return directory not in self.online or directory not in self.proven
