"""The driver of the core: events in, effects out, with appends, syncs, timers and answers."""

from quorate.raft.driver.driver import Driver, Routes

__all__ = ["Driver", "Routes"]
