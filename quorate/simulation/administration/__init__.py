"""Administrative calls against the committed metadata: was what was answered done, and nothing else?"""

from quorate.simulation.administration.admin_changes import (
    AdminChange,
    BrokerUnregistered,
    ChangeReader,
    ConfigSet,
    FeatureSet,
    LeaderElected,
    PartitionAdded,
    QuotaSet,
    ReplicasReassigned,
    TopicCreated,
    TopicRemoved,
    TopicShrunk,
)
from quorate.simulation.administration.admin_history import AdminCall, AdminHistory, Answer
from quorate.simulation.administration.drained_brokers import still_there
from quorate.simulation.administration.duplicate_replicas import duplicates, keep_one_of_two
from quorate.simulation.administration.group_offsets import GroupOffset
from quorate.simulation.administration.intents import (
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
from quorate.simulation.administration.kept_records import Held, KeptRecords
from quorate.simulation.administration.leader_epochs import OneLeaderPerLeaderEpoch
from quorate.simulation.administration.removed_topics import RemovedTopicsStayRemoved
from quorate.simulation.administration.stray_folders import Folder, stray_folders
from quorate.simulation.administration.unregistered_brokers import UnregisteredBrokersStayOut

__all__ = [
    "AdminCall",
    "AdminChange",
    "AdminHistory",
    "Answer",
    "BrokerUnregistered",
    "ChangeReader",
    "ConfigSet",
    "FeatureSet",
    "Folder",
    "GroupOffset",
    "Held",
    "Intent",
    "KeptRecords",
    "LeaderElected",
    "OneLeaderPerLeaderEpoch",
    "PartitionAdded",
    "QuotaSet",
    "RemovedTopicsStayRemoved",
    "ReplicasReassigned",
    "TopicCreated",
    "TopicRemoved",
    "TopicShrunk",
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
