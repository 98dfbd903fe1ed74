"""The error of a test cluster."""


class ClusterError(Exception):
    """The cluster can't do what the test asked for, or did not get there in time. The message says what is
    missing, with the last lines of a node that ended."""
