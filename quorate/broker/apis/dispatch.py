"""The dispatch of a request to its handler."""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final, Never, cast

from kio.schema.errors import ErrorCode

from quorate.broker.apis import (
    add_raft_voter,
    alter_client_quotas,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    consumer_group_describe,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_damage,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_state_changes,
    describe_states,
    describe_topic_partitions,
    describe_user_scram_credentials,
    elect_leaders,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    refetch_replica,
    remove_raft_voter,
    replace_configs,
    sync_group,
    unregister_broker,
    update_features,
    update_raft_voter,
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
        ApiKey.PRODUCE: produce.handle,
        ApiKey.FETCH: fetch.handle,
        ApiKey.METADATA: metadata.handle,
        ApiKey.OFFSET_COMMIT: offset_commit.handle,
        ApiKey.SYNC_GROUP: sync_group.handle,
        ApiKey.LEAVE_GROUP: leave_group.handle,
        ApiKey.DESCRIBE_CONFIGS: describe_configs.handle,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions.handle,
    }
)
"""The handlers that take a large request in pieces of a few milliseconds, before the connection's next one. A
small request has no checkpoint."""
_HANDLERS: Final[Mapping[int, _Handler]] = MappingProxyType(
    {
        ApiKey.LIST_OFFSETS: list_offsets.handle,
        ApiKey.OFFSET_FETCH: offset_fetch.handle,
        ApiKey.FIND_COORDINATOR: find_coordinator.handle,
        ApiKey.JOIN_GROUP: join_group.handle,
        ApiKey.HEARTBEAT: heartbeat.handle,
        ApiKey.DESCRIBE_GROUPS: describe_groups.handle,
        ApiKey.LIST_GROUPS: list_groups.handle,
        ApiKey.CREATE_TOPICS: create_topics.handle,
        ApiKey.DELETE_TOPICS: delete_topics.handle,
        ApiKey.DELETE_RECORDS: delete_records.handle,
        ApiKey.CREATE_PARTITIONS: create_partitions.handle,
        ApiKey.INIT_PRODUCER_ID: init_producer_id.handle,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch.handle,
        ApiKey.ALTER_CONFIGS: replace_configs.handle,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs.handle,
        ApiKey.LIST_CONFIG_RESOURCES: list_config_resources.handle,
        ApiKey.ALTER_REPLICA_LOG_DIRS: alter_replica_log_dirs.handle,
        ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs.handle,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: alter_partition_reassignments.handle,
        ApiKey.LIST_PARTITION_REASSIGNMENTS: list_partition_reassignments.handle,
        ApiKey.DESCRIBE_QUORUM: describe_quorum.handle,
        ApiKey.DESCRIBE_CLUSTER: describe_cluster.handle,
        ApiKey.DESCRIBE_PRODUCERS: describe_producers.handle,
        ApiKey.DELETE_GROUPS: delete_groups.handle,
        ApiKey.OFFSET_DELETE: offset_delete.handle,
        ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_group_describe.handle,
        ApiKey.ADD_RAFT_VOTER: add_raft_voter.handle,
        ApiKey.REMOVE_RAFT_VOTER: remove_raft_voter.handle,
        ApiKey.UPDATE_RAFT_VOTER: update_raft_voter.handle,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: describe_user_scram_credentials.handle,
        ApiKey.DESCRIBE_CLIENT_QUOTAS: describe_client_quotas.handle,
        ApiKey.ALTER_CLIENT_QUOTAS: alter_client_quotas.handle,
        ApiKey.ELECT_LEADERS: elect_leaders.handle,
        ApiKey.UPDATE_FEATURES: update_features.handle,
        ApiKey.UNREGISTER_BROKER: unregister_broker.handle,
        ApiKey.REFETCH_REPLICA: refetch_replica.handle,
        ApiKey.DESCRIBE_DAMAGE: describe_damage.handle,
        ApiKey.DESCRIBE_STATE_CHANGES: describe_state_changes.handle,
        ApiKey.DESCRIBE_STATES: describe_states.handle,
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
