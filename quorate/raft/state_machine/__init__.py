"""The interface of the user's state machine, snapshots of a plain one, and the task that applies records."""
