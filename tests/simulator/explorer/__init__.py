"""Exhaustive model checking of the shipped core: every interleaving of what can happen, within stated bounds.

`machine` carries out one node's effects, `world` says what may happen next, `search` visits every state once,
breadth first, `symmetry` says which of them stand for others, and `counterexample` describes the shortest way
to a violation.
"""

from tests.simulator.explorer.interning import Table

__all__ = ["Table"]
