"""Threads with a quorum or a client each, for the doors of asyncio and of threads."""
