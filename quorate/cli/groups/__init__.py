"""Consumer groups, as `quorate groups` shows and changes them."""

from quorate.cli.groups.broker_connections import BrokerConnections, run_with_brokers
from quorate.cli.groups.group_requests import (
    DescribedGroup,
    commit_offsets,
    delete_groups,
    delete_offsets,
    describe_group,
    list_groups,
    reason_of,
)
from quorate.cli.groups.group_tables import (
    print_json,
    print_members,
    print_partitions,
    print_rows,
    print_state,
)
from quorate.cli.groups.group_views import (
    MemberView,
    PartitionView,
    member_views,
    partition_views,
    partition_views_of,
)
from quorate.cli.groups.offset_resets import (
    ResetError,
    ResetTarget,
    Scope,
    parse_duration_ms,
    parse_offsets_file,
    parse_time_ms,
    parse_topics,
    plan_reset,
)

__all__ = [
    "BrokerConnections",
    "DescribedGroup",
    "MemberView",
    "PartitionView",
    "ResetError",
    "ResetTarget",
    "Scope",
    "commit_offsets",
    "delete_groups",
    "delete_offsets",
    "describe_group",
    "list_groups",
    "member_views",
    "parse_duration_ms",
    "parse_offsets_file",
    "parse_time_ms",
    "parse_topics",
    "partition_views",
    "partition_views_of",
    "plan_reset",
    "print_json",
    "print_members",
    "print_partitions",
    "print_rows",
    "print_state",
    "reason_of",
    "run_with_brokers",
]
