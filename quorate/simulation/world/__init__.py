"""The simulated world: clock, disks, network, and the trace of events."""
