"""The fields of answers, for the type checker: each struct of each API in all versions that we serve.

Written by scripts/generate_answers.py. A field may be left out, and has its default then; a field that the
request's version lacks is dropped. Arrays of structs may be generators, which are walked while the answer is
encoded (`encode_in_slices`). Produce and Fetch have codecs, and types, of their own.
"""

# ruff: noqa: UP013, E501
# fmt: off

from collections.abc import AsyncIterable, Iterable
from datetime import timedelta
from typing import TypeAlias, TypedDict, TypeVar
from uuid import UUID

from kio.schema.errors import ErrorCode

_S = TypeVar("_S")
AwaitedStructs: TypeAlias = Iterable[_S] | AsyncIterable[_S]
"""An array of structs that may take a wait each."""

ListOffsetsPartitionResponse = TypedDict("ListOffsetsPartitionResponse", {
    "partition_index": int, "error_code": ErrorCode, "timestamp": int, "offset": int, "leader_epoch": int
}, total=False)
ListOffsetsTopicResponse = TypedDict("ListOffsetsTopicResponse", {
    "name": str, "partitions": AwaitedStructs[ListOffsetsPartitionResponse]
}, total=False)
ListOffsetsResponse = TypedDict("ListOffsetsResponse", {
    "topics": Iterable[ListOffsetsTopicResponse], "throttle_time": timedelta
}, total=False)
MetadataResponseBroker = TypedDict("MetadataResponseBroker", {
    "node_id": int, "host": str, "port": int, "rack": str | None
}, total=False)
MetadataResponsePartition = TypedDict("MetadataResponsePartition", {
    "error_code": ErrorCode, "partition_index": int, "leader_id": int, "replica_nodes": Iterable[int],
    "isr_nodes": Iterable[int], "offline_replicas": Iterable[int], "leader_epoch": int
}, total=False)
MetadataResponseTopic = TypedDict("MetadataResponseTopic", {
    "error_code": ErrorCode, "name": str | None, "partitions": Iterable[MetadataResponsePartition],
    "is_internal": bool, "topic_authorized_operations": int, "topic_id": UUID | None
}, total=False)
MetadataResponse = TypedDict("MetadataResponse", {
    "brokers": Iterable[MetadataResponseBroker], "topics": Iterable[MetadataResponseTopic],
    "controller_id": int, "cluster_id": str | None, "throttle_time": timedelta,
    "cluster_authorized_operations": int
}, total=False)
OffsetCommitResponsePartition = TypedDict("OffsetCommitResponsePartition", {
    "partition_index": int, "error_code": ErrorCode
}, total=False)
OffsetCommitResponseTopic = TypedDict("OffsetCommitResponseTopic", {
    "name": str, "partitions": Iterable[OffsetCommitResponsePartition], "topic_id": UUID | None
}, total=False)
OffsetCommitResponse = TypedDict("OffsetCommitResponse", {
    "topics": Iterable[OffsetCommitResponseTopic], "throttle_time": timedelta
}, total=False)
OffsetFetchResponsePartition = TypedDict("OffsetFetchResponsePartition", {
    "partition_index": int, "committed_offset": int, "metadata": str | None, "error_code": ErrorCode,
    "committed_leader_epoch": int
}, total=False)
OffsetFetchResponseTopic = TypedDict("OffsetFetchResponseTopic", {
    "name": str, "partitions": Iterable[OffsetFetchResponsePartition]
}, total=False)
OffsetFetchResponsePartitions = TypedDict("OffsetFetchResponsePartitions", {
    "partition_index": int, "committed_offset": int, "committed_leader_epoch": int, "metadata": str | None,
    "error_code": ErrorCode
}, total=False)
OffsetFetchResponseTopics = TypedDict("OffsetFetchResponseTopics", {
    "name": str, "partitions": Iterable[OffsetFetchResponsePartitions], "topic_id": UUID | None
}, total=False)
OffsetFetchResponseGroup = TypedDict("OffsetFetchResponseGroup", {
    "group_id": str, "topics": Iterable[OffsetFetchResponseTopics], "error_code": ErrorCode
}, total=False)
OffsetFetchResponse = TypedDict("OffsetFetchResponse", {
    "topics": Iterable[OffsetFetchResponseTopic], "error_code": ErrorCode, "throttle_time": timedelta,
    "groups": Iterable[OffsetFetchResponseGroup]
}, total=False)
FindCoordinatorCoordinator = TypedDict("FindCoordinatorCoordinator", {
    "key": str, "node_id": int, "host": str, "port": int, "error_code": ErrorCode, "error_message": str | None
}, total=False)
FindCoordinatorResponse = TypedDict("FindCoordinatorResponse", {
    "error_code": ErrorCode, "node_id": int, "host": str, "port": int, "throttle_time": timedelta,
    "error_message": str | None, "coordinators": Iterable[FindCoordinatorCoordinator]
}, total=False)
JoinGroupResponseMember = TypedDict("JoinGroupResponseMember", {
    "member_id": str, "metadata": bytes, "group_instance_id": str | None
}, total=False)
JoinGroupResponse = TypedDict("JoinGroupResponse", {
    "error_code": ErrorCode, "generation_id": int, "protocol_name": str | None, "leader": str,
    "member_id": str, "members": Iterable[JoinGroupResponseMember], "throttle_time": timedelta,
    "protocol_type": str | None, "skip_assignment": bool
}, total=False)
HeartbeatResponse = TypedDict("HeartbeatResponse", {
    "error_code": ErrorCode, "throttle_time": timedelta
}, total=False)
LeaveGroupMemberResponse = TypedDict("LeaveGroupMemberResponse", {
    "member_id": str, "group_instance_id": str | None, "error_code": ErrorCode
}, total=False)
LeaveGroupResponse = TypedDict("LeaveGroupResponse", {
    "error_code": ErrorCode, "throttle_time": timedelta, "members": Iterable[LeaveGroupMemberResponse]
}, total=False)
SyncGroupResponse = TypedDict("SyncGroupResponse", {
    "error_code": ErrorCode, "assignment": bytes, "throttle_time": timedelta, "protocol_type": str | None,
    "protocol_name": str | None
}, total=False)
DescribedGroupMember = TypedDict("DescribedGroupMember", {
    "member_id": str, "client_id": str, "client_host": str, "member_metadata": bytes,
    "member_assignment": bytes, "group_instance_id": str | None
}, total=False)
DescribeGroupsDescribedGroup = TypedDict("DescribeGroupsDescribedGroup", {
    "error_code": ErrorCode, "group_id": str, "group_state": str, "protocol_type": str, "protocol_data": str,
    "members": Iterable[DescribedGroupMember], "authorized_operations": int, "error_message": str | None
}, total=False)
DescribeGroupsResponse = TypedDict("DescribeGroupsResponse", {
    "groups": Iterable[DescribeGroupsDescribedGroup], "throttle_time": timedelta
}, total=False)
ListedGroup = TypedDict("ListedGroup", {
    "group_id": str, "protocol_type": str, "group_state": str, "group_type": str
}, total=False)
ListGroupsResponse = TypedDict("ListGroupsResponse", {
    "error_code": ErrorCode, "groups": Iterable[ListedGroup], "throttle_time": timedelta
}, total=False)
SaslHandshakeResponse = TypedDict("SaslHandshakeResponse", {
    "error_code": ErrorCode, "mechanisms": Iterable[str]
}, total=False)
ApiVersion = TypedDict("ApiVersion", {"api_key": int, "min_version": int, "max_version": int}, total=False)
SupportedFeatureKey = TypedDict("SupportedFeatureKey", {
    "name": str, "min_version": int, "max_version": int
}, total=False)
FinalizedFeatureKey = TypedDict("FinalizedFeatureKey", {
    "name": str, "max_version_level": int, "min_version_level": int
}, total=False)
ApiVersionsResponse = TypedDict("ApiVersionsResponse", {
    "error_code": ErrorCode, "api_keys": Iterable[ApiVersion], "throttle_time": timedelta,
    "supported_features": Iterable[SupportedFeatureKey], "finalized_features_epoch": int,
    "finalized_features": Iterable[FinalizedFeatureKey], "zk_migration_ready": bool
}, total=False)
CreatableTopicConfigs = TypedDict("CreatableTopicConfigs", {
    "name": str, "value": str | None, "read_only": bool, "config_source": int, "is_sensitive": bool
}, total=False)
CreatableTopicResult = TypedDict("CreatableTopicResult", {
    "name": str, "error_code": ErrorCode, "error_message": str | None, "topic_config_error_code": int,
    "num_partitions": int, "replication_factor": int, "configs": Iterable[CreatableTopicConfigs] | None,
    "topic_id": UUID | None
}, total=False)
CreateTopicsResponse = TypedDict("CreateTopicsResponse", {
    "throttle_time": timedelta, "topics": Iterable[CreatableTopicResult]
}, total=False)
DeletableTopicResult = TypedDict("DeletableTopicResult", {
    "name": str | None, "error_code": ErrorCode, "error_message": str | None, "topic_id": UUID | None
}, total=False)
DeleteTopicsResponse = TypedDict("DeleteTopicsResponse", {
    "throttle_time": timedelta, "responses": Iterable[DeletableTopicResult]
}, total=False)
DeleteRecordsPartitionResult = TypedDict("DeleteRecordsPartitionResult", {
    "partition_index": int, "low_watermark": int, "error_code": ErrorCode
}, total=False)
DeleteRecordsTopicResult = TypedDict("DeleteRecordsTopicResult", {
    "name": str, "partitions": Iterable[DeleteRecordsPartitionResult]
}, total=False)
DeleteRecordsResponse = TypedDict("DeleteRecordsResponse", {
    "throttle_time": timedelta, "topics": Iterable[DeleteRecordsTopicResult]
}, total=False)
InitProducerIdResponse = TypedDict("InitProducerIdResponse", {
    "throttle_time": timedelta, "error_code": ErrorCode, "producer_id": int, "producer_epoch": int
}, total=False)
EpochEndOffset = TypedDict("EpochEndOffset", {
    "error_code": ErrorCode, "partition": int, "leader_epoch": int, "end_offset": int
}, total=False)
OffsetForLeaderTopicResult = TypedDict("OffsetForLeaderTopicResult", {
    "topic": str, "partitions": Iterable[EpochEndOffset]
}, total=False)
OffsetForLeaderEpochResponse = TypedDict("OffsetForLeaderEpochResponse", {
    "throttle_time": timedelta, "topics": Iterable[OffsetForLeaderTopicResult]
}, total=False)
AclDescription = TypedDict("AclDescription", {
    "principal": str, "host": str, "operation": int, "permission_type": int
}, total=False)
DescribeAclsResource = TypedDict("DescribeAclsResource", {
    "resource_type": int, "resource_name": str, "pattern_type": int, "acls": Iterable[AclDescription]
}, total=False)
DescribeAclsResponse = TypedDict("DescribeAclsResponse", {
    "throttle_time": timedelta, "error_code": ErrorCode, "error_message": str | None,
    "resources": Iterable[DescribeAclsResource]
}, total=False)
AclCreationResult = TypedDict("AclCreationResult", {
    "error_code": ErrorCode, "error_message": str | None
}, total=False)
CreateAclsResponse = TypedDict("CreateAclsResponse", {
    "throttle_time": timedelta, "results": Iterable[AclCreationResult]
}, total=False)
DeleteAclsMatchingAcl = TypedDict("DeleteAclsMatchingAcl", {
    "error_code": ErrorCode, "error_message": str | None, "resource_type": int, "resource_name": str,
    "pattern_type": int, "principal": str, "host": str, "operation": int, "permission_type": int
}, total=False)
DeleteAclsFilterResult = TypedDict("DeleteAclsFilterResult", {
    "error_code": ErrorCode, "error_message": str | None, "matching_acls": Iterable[DeleteAclsMatchingAcl]
}, total=False)
DeleteAclsResponse = TypedDict("DeleteAclsResponse", {
    "throttle_time": timedelta, "filter_results": Iterable[DeleteAclsFilterResult]
}, total=False)
DescribeConfigsSynonym = TypedDict("DescribeConfigsSynonym", {
    "name": str, "value": str | None, "source": int
}, total=False)
DescribeConfigsResourceResult = TypedDict("DescribeConfigsResourceResult", {
    "name": str, "value": str | None, "read_only": bool, "config_source": int, "is_sensitive": bool,
    "synonyms": Iterable[DescribeConfigsSynonym], "config_type": int, "documentation": str | None
}, total=False)
DescribeConfigsResult = TypedDict("DescribeConfigsResult", {
    "error_code": ErrorCode, "error_message": str | None, "resource_type": int, "resource_name": str,
    "configs": Iterable[DescribeConfigsResourceResult]
}, total=False)
DescribeConfigsResponse = TypedDict("DescribeConfigsResponse", {
    "throttle_time": timedelta, "results": Iterable[DescribeConfigsResult]
}, total=False)
AlterConfigsAlterConfigsResourceResponse = TypedDict("AlterConfigsAlterConfigsResourceResponse", {
    "error_code": ErrorCode, "error_message": str | None, "resource_type": int, "resource_name": str
}, total=False)
AlterConfigsResponse = TypedDict("AlterConfigsResponse", {
    "throttle_time": timedelta, "responses": Iterable[AlterConfigsAlterConfigsResourceResponse]
}, total=False)
AlterReplicaLogDirPartitionResult = TypedDict("AlterReplicaLogDirPartitionResult", {
    "partition_index": int, "error_code": ErrorCode
}, total=False)
AlterReplicaLogDirTopicResult = TypedDict("AlterReplicaLogDirTopicResult", {
    "topic_name": str, "partitions": Iterable[AlterReplicaLogDirPartitionResult]
}, total=False)
AlterReplicaLogDirsResponse = TypedDict("AlterReplicaLogDirsResponse", {
    "throttle_time": timedelta, "results": Iterable[AlterReplicaLogDirTopicResult]
}, total=False)
DescribeLogDirsPartition = TypedDict("DescribeLogDirsPartition", {
    "partition_index": int, "partition_size": int, "offset_lag": int, "is_future_key": bool
}, total=False)
DescribeLogDirsTopic = TypedDict("DescribeLogDirsTopic", {
    "name": str, "partitions": Iterable[DescribeLogDirsPartition]
}, total=False)
DescribeLogDirsResult = TypedDict("DescribeLogDirsResult", {
    "error_code": ErrorCode, "log_dir": str, "topics": Iterable[DescribeLogDirsTopic], "total_bytes": int,
    "usable_bytes": int, "is_cordoned": bool
}, total=False)
DescribeLogDirsResponse = TypedDict("DescribeLogDirsResponse", {
    "throttle_time": timedelta, "results": AwaitedStructs[DescribeLogDirsResult], "error_code": ErrorCode
}, total=False)
SaslAuthenticateResponse = TypedDict("SaslAuthenticateResponse", {
    "error_code": ErrorCode, "error_message": str | None, "auth_bytes": bytes, "session_lifetime": timedelta
}, total=False)
CreatePartitionsTopicResult = TypedDict("CreatePartitionsTopicResult", {
    "name": str, "error_code": ErrorCode, "error_message": str | None
}, total=False)
CreatePartitionsResponse = TypedDict("CreatePartitionsResponse", {
    "throttle_time": timedelta, "results": Iterable[CreatePartitionsTopicResult]
}, total=False)
DeletableGroupResult = TypedDict("DeletableGroupResult", {
    "group_id": str, "error_code": ErrorCode
}, total=False)
DeleteGroupsResponse = TypedDict("DeleteGroupsResponse", {
    "throttle_time": timedelta, "results": Iterable[DeletableGroupResult]
}, total=False)
ElectLeadersPartitionResult = TypedDict("ElectLeadersPartitionResult", {
    "partition_id": int, "error_code": ErrorCode, "error_message": str | None
}, total=False)
ReplicaElectionResult = TypedDict("ReplicaElectionResult", {
    "topic": str, "partition_result": Iterable[ElectLeadersPartitionResult]
}, total=False)
ElectLeadersResponse = TypedDict("ElectLeadersResponse", {
    "throttle_time": timedelta, "replica_election_results": Iterable[ReplicaElectionResult],
    "error_code": ErrorCode
}, total=False)
IncrementalAlterConfigsAlterConfigsResourceResponse = TypedDict("IncrementalAlterConfigsAlterConfigsResourceResponse", {
    "error_code": ErrorCode, "error_message": str | None, "resource_type": int, "resource_name": str
}, total=False)
IncrementalAlterConfigsResponse = TypedDict("IncrementalAlterConfigsResponse", {
    "throttle_time": timedelta, "responses": Iterable[IncrementalAlterConfigsAlterConfigsResourceResponse]
}, total=False)
ReassignablePartitionResponse = TypedDict("ReassignablePartitionResponse", {
    "partition_index": int, "error_code": ErrorCode, "error_message": str | None
}, total=False)
ReassignableTopicResponse = TypedDict("ReassignableTopicResponse", {
    "name": str, "partitions": Iterable[ReassignablePartitionResponse]
}, total=False)
AlterPartitionReassignmentsResponse = TypedDict("AlterPartitionReassignmentsResponse", {
    "throttle_time": timedelta, "error_code": ErrorCode, "error_message": str | None,
    "responses": Iterable[ReassignableTopicResponse], "allow_replication_factor_change": bool
}, total=False)
OngoingPartitionReassignment = TypedDict("OngoingPartitionReassignment", {
    "partition_index": int, "replicas": Iterable[int], "adding_replicas": Iterable[int],
    "removing_replicas": Iterable[int]
}, total=False)
OngoingTopicReassignment = TypedDict("OngoingTopicReassignment", {
    "name": str, "partitions": Iterable[OngoingPartitionReassignment]
}, total=False)
ListPartitionReassignmentsResponse = TypedDict("ListPartitionReassignmentsResponse", {
    "throttle_time": timedelta, "error_code": ErrorCode, "error_message": str | None,
    "topics": Iterable[OngoingTopicReassignment]
}, total=False)
OffsetDeleteResponsePartition = TypedDict("OffsetDeleteResponsePartition", {
    "partition_index": int, "error_code": ErrorCode
}, total=False)
OffsetDeleteResponseTopic = TypedDict("OffsetDeleteResponseTopic", {
    "name": str, "partitions": Iterable[OffsetDeleteResponsePartition]
}, total=False)
OffsetDeleteResponse = TypedDict("OffsetDeleteResponse", {
    "error_code": ErrorCode, "throttle_time": timedelta, "topics": Iterable[OffsetDeleteResponseTopic]
}, total=False)
DescribeClientQuotasEntityData = TypedDict("DescribeClientQuotasEntityData", {
    "entity_type": str, "entity_name": str | None
}, total=False)
ValueData = TypedDict("ValueData", {"key": str, "value": float}, total=False)
DescribeClientQuotasEntryData = TypedDict("DescribeClientQuotasEntryData", {
    "entity": Iterable[DescribeClientQuotasEntityData], "values": Iterable[ValueData]
}, total=False)
DescribeClientQuotasResponse = TypedDict("DescribeClientQuotasResponse", {
    "throttle_time": timedelta, "error_code": ErrorCode, "error_message": str | None,
    "entries": Iterable[DescribeClientQuotasEntryData] | None
}, total=False)
AlterClientQuotasEntityData = TypedDict("AlterClientQuotasEntityData", {
    "entity_type": str, "entity_name": str | None
}, total=False)
AlterClientQuotasEntryData = TypedDict("AlterClientQuotasEntryData", {
    "error_code": ErrorCode, "error_message": str | None, "entity": Iterable[AlterClientQuotasEntityData]
}, total=False)
AlterClientQuotasResponse = TypedDict("AlterClientQuotasResponse", {
    "throttle_time": timedelta, "entries": Iterable[AlterClientQuotasEntryData]
}, total=False)
CredentialInfo = TypedDict("CredentialInfo", {"mechanism": int, "iterations": int}, total=False)
DescribeUserScramCredentialsResult = TypedDict("DescribeUserScramCredentialsResult", {
    "user": str, "error_code": ErrorCode, "error_message": str | None,
    "credential_infos": Iterable[CredentialInfo]
}, total=False)
DescribeUserScramCredentialsResponse = TypedDict("DescribeUserScramCredentialsResponse", {
    "throttle_time": timedelta, "error_code": ErrorCode, "error_message": str | None,
    "results": Iterable[DescribeUserScramCredentialsResult]
}, total=False)
AlterUserScramCredentialsResult = TypedDict("AlterUserScramCredentialsResult", {
    "user": str, "error_code": ErrorCode, "error_message": str | None
}, total=False)
AlterUserScramCredentialsResponse = TypedDict("AlterUserScramCredentialsResponse", {
    "throttle_time": timedelta, "results": Iterable[AlterUserScramCredentialsResult]
}, total=False)
DescribeQuorumReplicaState = TypedDict("DescribeQuorumReplicaState", {
    "replica_id": int, "log_end_offset": int, "last_fetch_timestamp": int, "last_caught_up_timestamp": int,
    "replica_directory_id": UUID | None
}, total=False)
DescribeQuorumPartitionData = TypedDict("DescribeQuorumPartitionData", {
    "partition_index": int, "error_code": ErrorCode, "leader_id": int, "leader_epoch": int,
    "high_watermark": int, "current_voters": Iterable[DescribeQuorumReplicaState],
    "observers": Iterable[DescribeQuorumReplicaState], "error_message": str | None
}, total=False)
DescribeQuorumTopicData = TypedDict("DescribeQuorumTopicData", {
    "topic_name": str, "partitions": Iterable[DescribeQuorumPartitionData]
}, total=False)
DescribeQuorumListener = TypedDict("DescribeQuorumListener", {
    "name": str, "host": str, "port": int
}, total=False)
DescribeQuorumNode = TypedDict("DescribeQuorumNode", {
    "node_id": int, "listeners": Iterable[DescribeQuorumListener]
}, total=False)
DescribeQuorumResponse = TypedDict("DescribeQuorumResponse", {
    "error_code": ErrorCode, "topics": Iterable[DescribeQuorumTopicData], "error_message": str | None,
    "nodes": Iterable[DescribeQuorumNode]
}, total=False)
UpdatableFeatureResult = TypedDict("UpdatableFeatureResult", {
    "feature": str, "error_code": ErrorCode, "error_message": str | None
}, total=False)
UpdateFeaturesResponse = TypedDict("UpdateFeaturesResponse", {
    "throttle_time": timedelta, "error_code": ErrorCode, "error_message": str | None,
    "results": Iterable[UpdatableFeatureResult]
}, total=False)
DescribeClusterBroker = TypedDict("DescribeClusterBroker", {
    "broker_id": int, "host": str, "port": int, "rack": str | None, "is_fenced": bool
}, total=False)
DescribeClusterResponse = TypedDict("DescribeClusterResponse", {
    "throttle_time": timedelta, "error_code": ErrorCode, "error_message": str | None, "cluster_id": str,
    "controller_id": int, "brokers": Iterable[DescribeClusterBroker], "cluster_authorized_operations": int,
    "endpoint_type": int
}, total=False)
ProducerState = TypedDict("ProducerState", {
    "producer_id": int, "producer_epoch": int, "last_sequence": int, "last_timestamp": int,
    "coordinator_epoch": int, "current_txn_start_offset": int
}, total=False)
DescribeProducersPartitionResponse = TypedDict("DescribeProducersPartitionResponse", {
    "partition_index": int, "error_code": ErrorCode, "error_message": str | None,
    "active_producers": Iterable[ProducerState]
}, total=False)
DescribeProducersTopicResponse = TypedDict("DescribeProducersTopicResponse", {
    "name": str, "partitions": Iterable[DescribeProducersPartitionResponse]
}, total=False)
DescribeProducersResponse = TypedDict("DescribeProducersResponse", {
    "throttle_time": timedelta, "topics": Iterable[DescribeProducersTopicResponse]
}, total=False)
UnregisterBrokerResponse = TypedDict("UnregisterBrokerResponse", {
    "throttle_time": timedelta, "error_code": ErrorCode, "error_message": str | None
}, total=False)
TopicPartitions = TypedDict("TopicPartitions", {
    "topic_id": UUID | None, "topic_name": str, "partitions": Iterable[int]
}, total=False)
ConsumerGroupDescribeAssignment = TypedDict("ConsumerGroupDescribeAssignment", {
    "topic_partitions": Iterable[TopicPartitions]
}, total=False)
ConsumerGroupDescribeMember = TypedDict("ConsumerGroupDescribeMember", {
    "member_id": str, "instance_id": str | None, "rack_id": str | None, "member_epoch": int, "client_id": str,
    "client_host": str, "subscribed_topic_names": Iterable[str], "subscribed_topic_regex": str | None,
    "assignment": ConsumerGroupDescribeAssignment, "target_assignment": ConsumerGroupDescribeAssignment,
    "member_type": int
}, total=False)
ConsumerGroupDescribeDescribedGroup = TypedDict("ConsumerGroupDescribeDescribedGroup", {
    "error_code": ErrorCode, "error_message": str | None, "group_id": str, "group_state": str,
    "group_epoch": int, "assignment_epoch": int, "assignor_name": str,
    "members": Iterable[ConsumerGroupDescribeMember], "authorized_operations": int
}, total=False)
ConsumerGroupDescribeResponse = TypedDict("ConsumerGroupDescribeResponse", {
    "throttle_time": timedelta, "groups": Iterable[ConsumerGroupDescribeDescribedGroup]
}, total=False)
AssignReplicasToDirsPartitionData = TypedDict("AssignReplicasToDirsPartitionData", {
    "partition_index": int, "error_code": ErrorCode
}, total=False)
AssignReplicasToDirsTopicData = TypedDict("AssignReplicasToDirsTopicData", {
    "topic_id": UUID | None, "partitions": Iterable[AssignReplicasToDirsPartitionData]
}, total=False)
DirectoryData = TypedDict("DirectoryData", {
    "id_": UUID | None, "topics": Iterable[AssignReplicasToDirsTopicData]
}, total=False)
AssignReplicasToDirsResponse = TypedDict("AssignReplicasToDirsResponse", {
    "throttle_time": timedelta, "error_code": ErrorCode, "directories": Iterable[DirectoryData]
}, total=False)
ConfigResource = TypedDict("ConfigResource", {"resource_name": str, "resource_type": int}, total=False)
ListConfigResourcesResponse = TypedDict("ListConfigResourcesResponse", {
    "throttle_time": timedelta, "error_code": ErrorCode, "config_resources": Iterable[ConfigResource]
}, total=False)
DescribeTopicPartitionsResponsePartition = TypedDict("DescribeTopicPartitionsResponsePartition", {
    "error_code": ErrorCode, "partition_index": int, "leader_id": int, "leader_epoch": int,
    "replica_nodes": Iterable[int], "isr_nodes": Iterable[int],
    "eligible_leader_replicas": Iterable[int] | None, "last_known_elr": Iterable[int] | None,
    "offline_replicas": Iterable[int]
}, total=False)
DescribeTopicPartitionsResponseTopic = TypedDict("DescribeTopicPartitionsResponseTopic", {
    "error_code": ErrorCode, "name": str | None, "topic_id": UUID | None, "is_internal": bool,
    "partitions": Iterable[DescribeTopicPartitionsResponsePartition], "topic_authorized_operations": int
}, total=False)
DescribeTopicPartitionsCursor = TypedDict("DescribeTopicPartitionsCursor", {
    "topic_name": str, "partition_index": int
}, total=False)
DescribeTopicPartitionsResponse = TypedDict("DescribeTopicPartitionsResponse", {
    "throttle_time": timedelta, "topics": Iterable[DescribeTopicPartitionsResponseTopic],
    "next_cursor": DescribeTopicPartitionsCursor | None
}, total=False)
AddRaftVoterResponse = TypedDict("AddRaftVoterResponse", {
    "throttle_time": timedelta, "error_code": ErrorCode, "error_message": str | None
}, total=False)
RemoveRaftVoterResponse = TypedDict("RemoveRaftVoterResponse", {
    "throttle_time": timedelta, "error_code": ErrorCode, "error_message": str | None
}, total=False)
CurrentLeader = TypedDict("CurrentLeader", {
    "leader_id": int, "leader_epoch": int, "host": str, "port": int
}, total=False)
UpdateRaftVoterResponse = TypedDict("UpdateRaftVoterResponse", {
    "throttle_time": timedelta, "error_code": ErrorCode, "current_leader": CurrentLeader
}, total=False)
RefetchReplicaResponse = TypedDict("RefetchReplicaResponse", {
    "throttle_time": timedelta, "error_code": ErrorCode, "error_message": str | None, "path": str | None
}, total=False)
DamagedReplica = TypedDict("DamagedReplica", {
    "topic_name": str, "partition_index": int, "segment": str | None, "position": int, "start_offset": int,
    "end_offset": int, "problem": str
}, total=False)
SetAsideLog = TypedDict("SetAsideLog", {"path": str}, total=False)
DescribeDamageResponse = TypedDict("DescribeDamageResponse", {
    "throttle_time": timedelta, "error_code": ErrorCode, "error_message": str | None,
    "damaged": Iterable[DamagedReplica], "set_aside": Iterable[SetAsideLog]
}, total=False)
JournaledChange = TypedDict("JournaledChange", {
    "topic_name": str, "topic_id": UUID | None, "partition_index": int, "change": str, "outcome": str,
    "problem": str | None, "leader_epoch": int, "metadata_offset": int, "received_ms": int, "duration_us": int
}, total=False)
DescribeStateChangesResponse = TypedDict("DescribeStateChangesResponse", {
    "throttle_time": timedelta, "error_code": ErrorCode, "error_message": str | None, "broker_id": int,
    "received_offset": int, "completed_offset": int, "dropped_offset": int, "pending": int, "backlog": int,
    "oldest_ms": int, "changes": Iterable[JournaledChange], "now_ms": int
}, total=False)
ReplicaInState = TypedDict("ReplicaInState", {"broker_id": int, "state": str}, total=False)
PartitionInState = TypedDict("PartitionInState", {
    "partition_index": int, "state": str, "leader_id": int, "replicas": Iterable[ReplicaInState]
}, total=False)
DescribeStatesResponse = TypedDict("DescribeStatesResponse", {
    "throttle_time": timedelta, "error_code": ErrorCode, "error_message": str | None,
    "partitions": Iterable[PartitionInState]
}, total=False)
SealAgainResponse = TypedDict("SealAgainResponse", {
    "throttle_time": timedelta, "error_code": ErrorCode, "error_message": str | None, "sealed": int,
    "kept": int, "unopened": int, "missing_key": str | None
}, total=False)
UnusedAcl = TypedDict("UnusedAcl", {
    "resource_type": int, "resource_name": str, "pattern_type": int, "principal": str, "host": str,
    "operation": int, "permission_type": int
}, total=False)
DescribeUnusedAclsResponse = TypedDict("DescribeUnusedAclsResponse", {
    "throttle_time": timedelta, "error_code": ErrorCode, "error_message": str | None, "counted_ms": int,
    "acls": Iterable[UnusedAcl]
}, total=False)
AnyAnswer: TypeAlias = (
    ListOffsetsResponse | MetadataResponse | OffsetCommitResponse | OffsetFetchResponse |
    FindCoordinatorResponse | JoinGroupResponse | HeartbeatResponse | LeaveGroupResponse |
    SyncGroupResponse | DescribeGroupsResponse | ListGroupsResponse | SaslHandshakeResponse |
    ApiVersionsResponse | CreateTopicsResponse | DeleteTopicsResponse | DeleteRecordsResponse |
    InitProducerIdResponse | OffsetForLeaderEpochResponse | DescribeAclsResponse | CreateAclsResponse |
    DeleteAclsResponse | DescribeConfigsResponse | AlterConfigsResponse | AlterReplicaLogDirsResponse |
    DescribeLogDirsResponse | SaslAuthenticateResponse | CreatePartitionsResponse | DeleteGroupsResponse |
    ElectLeadersResponse | IncrementalAlterConfigsResponse | AlterPartitionReassignmentsResponse |
    ListPartitionReassignmentsResponse | OffsetDeleteResponse | DescribeClientQuotasResponse |
    AlterClientQuotasResponse | DescribeUserScramCredentialsResponse | AlterUserScramCredentialsResponse |
    DescribeQuorumResponse | UpdateFeaturesResponse | DescribeClusterResponse | DescribeProducersResponse
    | UnregisterBrokerResponse | ConsumerGroupDescribeResponse | AssignReplicasToDirsResponse |
    ListConfigResourcesResponse | DescribeTopicPartitionsResponse | AddRaftVoterResponse |
    RemoveRaftVoterResponse | UpdateRaftVoterResponse | RefetchReplicaResponse | DescribeDamageResponse |
    DescribeStateChangesResponse | DescribeStatesResponse | SealAgainResponse | DescribeUnusedAclsResponse
)
