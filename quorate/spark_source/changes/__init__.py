"""The state of the cluster that the records of the log make, and each change of it as rows."""
