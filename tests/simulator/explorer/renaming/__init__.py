"""States with exchanged node ids, for the reduction by symmetry."""

from tests.simulator.explorer.renaming.renamed_core import renamed
from tests.simulator.explorer.renaming.renaming import Renaming

__all__ = ["Renaming", "renamed"]
