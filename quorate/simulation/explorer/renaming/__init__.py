"""Node names swapped in a state: which states stand for others."""

from quorate.simulation.explorer.renaming.renamed_core import renamed
from quorate.simulation.explorer.renaming.renaming import Renaming

__all__ = ["Renaming", "renamed"]
