"""The driver of the core: events in, effects out, with appends, syncs, timers and answers."""
