"""Threads with a quorum, a child process's quorum or a client each, for the doors of asyncio and threads."""
