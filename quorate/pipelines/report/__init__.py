"""The report: what happened in a cluster, as one page."""
