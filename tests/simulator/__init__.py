"""The simulator of this repository: broker clusters, cores alone, exhaustive explorers, and seeds of them.

`quorate.simulation`, which users have too, holds the rest: the simulated world, a quorum in it, and the
checkers of histories. `python -m tests.simulator` runs seeds, `python -m tests.simulator.explorer` explores.
"""
