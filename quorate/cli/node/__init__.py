"""Nodes: one in the foreground, as `quorate server start` runs it, and a cluster of such processes."""
