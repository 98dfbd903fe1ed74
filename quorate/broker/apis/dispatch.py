"""The dispatch of a request to its handler."""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final, Never, cast

from kio.schema.errors import ErrorCode

from quorate.broker.apis import (
    alter_configs,
    cluster,
    describe_configs,
    features,
    fetch,
    find_coordinator,
    group_admin,
    group_membership,
    group_offsets,
    log_dirs,
    log_offsets,
    metadata,
    own_apis,
    produce,
    producers,
    quotas,
    raft_voters,
    reassignments,
    topics,
)
from quorate.broker.apis.context import Broker
from quorate.broker.controller_channel import ControllerTimedOutError
from quorate.broker.groups import GroupMovedError
from quorate.broker.wire import Answer, ApiKey, ErrorTable, Request, RequestContext
from quorate.raft import NotLeaderError, QuorumStoppedError

# Each takes the request of its key in the newest version, which the wire layer makes of all others. That
# layer answers ApiVersions itself.
_Handler = Callable[[Broker, RequestContext, Never], Answer]
_Awaited = Callable[[Broker, RequestContext, Never], Awaitable[Answer]]
_AWAITED: Final[Mapping[int, _Awaited]] = MappingProxyType(
    {
        ApiKey.PRODUCE: produce.handle_produce,
        ApiKey.FETCH: fetch.handle_fetch,
        ApiKey.METADATA: metadata.handle_metadata,
        ApiKey.OFFSET_COMMIT: group_offsets.handle_offset_commit,
        ApiKey.SYNC_GROUP: group_membership.handle_sync_group,
        ApiKey.LEAVE_GROUP: group_membership.handle_leave_group,
        ApiKey.DESCRIBE_CONFIGS: describe_configs.handle_describe_configs,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: metadata.handle_describe_topic_partitions,
    }
)
"""The handlers that take a large request in pieces of a few milliseconds, before the connection's next one. A
small request has no checkpoint."""
_HANDLERS: Final[Mapping[int, _Handler]] = MappingProxyType(
    {
        ApiKey.LIST_OFFSETS: log_offsets.handle_list_offsets,
        ApiKey.OFFSET_FETCH: group_offsets.handle_offset_fetch,
        ApiKey.FIND_COORDINATOR: find_coordinator.handle_find_coordinator,
        ApiKey.JOIN_GROUP: group_membership.handle_join_group,
        ApiKey.HEARTBEAT: group_membership.handle_heartbeat,
        ApiKey.DESCRIBE_GROUPS: group_admin.handle_describe_groups,
        ApiKey.LIST_GROUPS: group_admin.handle_list_groups,
        ApiKey.CREATE_TOPICS: topics.handle_create_topics,
        ApiKey.DELETE_TOPICS: topics.handle_delete_topics,
        ApiKey.DELETE_RECORDS: log_offsets.handle_delete_records,
        ApiKey.CREATE_PARTITIONS: topics.handle_create_partitions,
        ApiKey.INIT_PRODUCER_ID: producers.handle_init_producer_id,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: log_offsets.handle_offset_for_leader_epoch,
        ApiKey.ALTER_CONFIGS: alter_configs.handle_alter_configs,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: alter_configs.handle_incremental_alter_configs,
        ApiKey.LIST_CONFIG_RESOURCES: describe_configs.handle_list_config_resources,
        ApiKey.ALTER_REPLICA_LOG_DIRS: log_dirs.handle_alter_replica_log_dirs,
        ApiKey.DESCRIBE_LOG_DIRS: log_dirs.handle_describe_log_dirs,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: reassignments.handle_alter_partition_reassignments,
        ApiKey.LIST_PARTITION_REASSIGNMENTS: reassignments.handle_list_partition_reassignments,
        ApiKey.DESCRIBE_QUORUM: raft_voters.handle_describe_quorum,
        ApiKey.DESCRIBE_CLUSTER: cluster.handle_describe_cluster,
        ApiKey.DESCRIBE_PRODUCERS: producers.handle_describe_producers,
        ApiKey.DELETE_GROUPS: group_admin.handle_delete_groups,
        ApiKey.OFFSET_DELETE: group_offsets.handle_offset_delete,
        ApiKey.CONSUMER_GROUP_DESCRIBE: group_admin.handle_consumer_group_describe,
        ApiKey.ADD_RAFT_VOTER: raft_voters.handle_add_raft_voter,
        ApiKey.REMOVE_RAFT_VOTER: raft_voters.handle_remove_raft_voter,
        ApiKey.UPDATE_RAFT_VOTER: raft_voters.handle_update_raft_voter,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: quotas.handle_describe_user_scram_credentials,
        ApiKey.DESCRIBE_CLIENT_QUOTAS: quotas.handle_describe_client_quotas,
        ApiKey.ALTER_CLIENT_QUOTAS: quotas.handle_alter_client_quotas,
        ApiKey.ELECT_LEADERS: reassignments.handle_elect_leaders,
        ApiKey.UPDATE_FEATURES: features.handle_update_features,
        ApiKey.UNREGISTER_BROKER: cluster.handle_unregister_broker,
        ApiKey.REFETCH_REPLICA: own_apis.handle_refetch_replica,
        ApiKey.DESCRIBE_DAMAGE: own_apis.handle_describe_damage,
        ApiKey.DESCRIBE_STATE_CHANGES: own_apis.handle_describe_state_changes,
        ApiKey.DESCRIBE_STATES: own_apis.handle_describe_states,
    }
)


def error_table() -> ErrorTable:
    """Return the error codes of quorate's exceptions for clients."""
    return ErrorTable(
        {
            ControllerTimedOutError: ErrorCode.request_timed_out,
            GroupMovedError: ErrorCode.not_coordinator,
            NotLeaderError: ErrorCode.not_controller,
            QuorumStoppedError: ErrorCode.broker_not_available,
        }
    )


class Dispatcher:
    """`RequestHandler` of the wire layer."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def handle(self, context: RequestContext, request: Request) -> Answer:
        awaited = _AWAITED.get(context.api_key)
        if awaited is not None:
            return await awaited(self._broker, context, cast(Never, request))
        return _HANDLERS[context.api_key](self._broker, context, cast(Never, request))
