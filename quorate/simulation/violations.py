"""Violations of invariants in a simulation."""


class SafetyViolation(AssertionError):
    """Something happened that must never happen."""


class LivenessViolation(AssertionError):
    """Something that had to happen once all faults were healed did not happen in time."""


class StuckError(AssertionError):
    """The simulated program stopped making progress. The message lists where its tasks wait."""
