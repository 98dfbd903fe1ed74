"""The interface of the user's state machine, and the task that applies committed records to it."""
