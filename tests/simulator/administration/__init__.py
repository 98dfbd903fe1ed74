"""Administrative calls against the committed metadata: granted calls were carried out, and nothing else."""

from tests.simulator.administration.admin_history import AdminHistory, Answer
from tests.simulator.administration.answered_state import GroupOffset, Held, KeptRecords
from tests.simulator.administration.committed_rules import (
    OneLeaderPerLeaderEpoch,
    RemovedTopicsStayRemoved,
    UnregisteredBrokersStayOut,
)
from tests.simulator.administration.intents import (
    Intent,
    alter_config,
    alter_quota,
    create_topic,
    delete_topic,
    elect_leader,
    grow_topic,
    nothing,
    reassign,
    shrink_topic,
    unregister_broker,
    update_feature,
)
from tests.simulator.administration.replica_folders import (
    Folder,
    duplicates,
    keep_one_of_two,
    still_there,
    stray_folders,
)

__all__ = [
    "AdminHistory",
    "Answer",
    "Folder",
    "GroupOffset",
    "Held",
    "Intent",
    "KeptRecords",
    "OneLeaderPerLeaderEpoch",
    "RemovedTopicsStayRemoved",
    "UnregisteredBrokersStayOut",
    "alter_config",
    "alter_quota",
    "create_topic",
    "delete_topic",
    "duplicates",
    "elect_leader",
    "grow_topic",
    "keep_one_of_two",
    "nothing",
    "reassign",
    "shrink_topic",
    "still_there",
    "stray_folders",
    "unregister_broker",
    "update_feature",
]
