"""What the records of the log change: the state of the cluster, and each change of it as rows."""
