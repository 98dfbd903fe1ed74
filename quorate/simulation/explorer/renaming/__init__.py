"""States with exchanged node ids, for the reduction by symmetry."""

from quorate.simulation.explorer.renaming.renamed_core import renamed
from quorate.simulation.explorer.renaming.renaming import Renaming

__all__ = ["Renaming", "renamed"]
