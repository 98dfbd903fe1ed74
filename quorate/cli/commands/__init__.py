"""One module per group of commands of `quorate`."""

from quorate.cli.commands import (
    broker_commands,
    cluster_commands,
    config_commands,
    data_commands,
    demo,
    election_commands,
    feature_commands,
    group_commands,
    log_commands,
    metadata_commands,
    quorum_commands,
    reassign_commands,
    server_commands,
    snapshot_commands,
    storage_commands,
    topic_commands,
)

__all__ = [
    "broker_commands",
    "cluster_commands",
    "config_commands",
    "data_commands",
    "demo",
    "election_commands",
    "feature_commands",
    "group_commands",
    "log_commands",
    "metadata_commands",
    "quorum_commands",
    "reassign_commands",
    "server_commands",
    "snapshot_commands",
    "storage_commands",
    "topic_commands",
]
