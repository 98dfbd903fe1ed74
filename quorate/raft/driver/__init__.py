"""Events into the core, effects out of it: appends, syncs, timers, answers."""

from quorate.raft.driver.driver import Driver, Routes

__all__ = ["Driver", "Routes"]
