"""One module per group of commands of `quorate`. A node imports none."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quorate.cli.commands import (
        broker_commands,
        cluster_commands,
        config_commands,
        data_commands,
        election_commands,
        feature_commands,
        group_commands,
        log_commands,
        metadata_commands,
        quorum_commands,
        quota_commands,
        reassign_commands,
        server_commands,
        snapshot_commands,
        state_change_commands,
        storage_commands,
        topic_commands,
    )

__all__ = [
    "broker_commands",
    "cluster_commands",
    "config_commands",
    "data_commands",
    "election_commands",
    "feature_commands",
    "group_commands",
    "log_commands",
    "metadata_commands",
    "quorum_commands",
    "quota_commands",
    "reassign_commands",
    "server_commands",
    "snapshot_commands",
    "state_change_commands",
    "storage_commands",
    "topic_commands",
]
