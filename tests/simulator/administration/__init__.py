"""Administrative calls against the committed metadata: was what was answered done, and nothing else?"""

from tests.simulator.administration.admin_changes import (
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
from tests.simulator.administration.admin_history import AdminCall, AdminHistory, Answer
from tests.simulator.administration.drained_brokers import still_there
from tests.simulator.administration.duplicate_replicas import duplicates, keep_one_of_two
from tests.simulator.administration.group_offsets import GroupOffset
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
from tests.simulator.administration.kept_records import Held, KeptRecords
from tests.simulator.administration.leader_epochs import OneLeaderPerLeaderEpoch
from tests.simulator.administration.removed_topics import RemovedTopicsStayRemoved
from tests.simulator.administration.stray_folders import Folder, stray_folders
from tests.simulator.administration.unregistered_brokers import UnregisteredBrokersStayOut

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
