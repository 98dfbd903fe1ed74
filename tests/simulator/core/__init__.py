"""Cores alone in simulation: messages, syncs and timers in any order."""
