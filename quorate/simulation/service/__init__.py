"""A state machine of a user on a simulated quorum: clients, faults, and the checks of their answers."""
