"""Operators commit offsets for groups without members, and delete the offsets and the groups."""

from collections.abc import Awaitable, Callable
from typing import Final

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.admin import groups
from quorate.broker.admin.admin_client import AdminClient, TopicPartition
from quorate.broker.wire.wire_errors import KafkaError
from quorate.simulation.violations import SafetyViolation
from tests.simulator.administration.admin_history import Answer
from tests.simulator.administration.answered_state import GroupOffset
from tests.simulator.brokers.broker_clients import TOPIC
from tests.simulator.brokers.broker_cluster import BrokerHost
from tests.simulator.brokers.one_broker import code_of
from tests.simulator.brokers.operating import operator_requests as requests
from tests.simulator.brokers.operating.operator_client import OperatorClient, answer_of

_GROUPS_MAX = 4
"""The number of groups that one operator uses at a time."""
_PARTITION: Final = TopicPartition(TOPIC, 0)
_MAY_BE_STORED: Final = frozenset(
    {ErrorCode.coordinator_not_available, ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress}
)
"""Answers of a coordinator that appended, and was deposed before it knew the outcome."""


async def use_group(operator: OperatorClient) -> None:
    """Commit an offset, delete it, or delete the group; half of the time one of a group that has one."""
    known = [group for group in operator.groups if group.known]
    if len(known) < _GROUPS_MAX:
        known.append(GroupOffset(operator.new_name()))
        operator.groups.append(known[-1])
    group = operator.random.choice(known)
    if group.offset == requests.NO_OFFSET or operator.random.random() < 0.5:
        offset = operator.serial()
        await _ask(operator, group, offset, lambda admin: _commit(admin, group.group, offset))
    elif operator.random.random() < 0.5:
        await _ask(operator, group, requests.NO_OFFSET, lambda admin: _delete_offset(admin, group.group))
    else:
        await _ask(operator, group, requests.NO_OFFSET, lambda admin: _delete_group(admin, group.group))


async def _commit(admin: AdminClient, group: str, offset: int) -> ErrorCode:
    return await code_of(groups.commit_offsets(admin, group, {_PARTITION: offset}))


async def _delete_offset(admin: AdminClient, group: str) -> ErrorCode:
    try:
        return (await groups.delete_offsets(admin, group, [_PARTITION]))[_PARTITION]
    except KafkaError as error:
        return error.code


async def _delete_group(admin: AdminClient, group: str) -> ErrorCode:
    return (await groups.delete_groups(admin, [group]))[group]


async def _ask(
    operator: OperatorClient,
    group: GroupOffset,
    wanted: int,
    send: Callable[[AdminClient], Awaitable[ErrorCode]],
) -> None:
    """Send the group's coordinator, if one is known, a request that leaves the group at `wanted`."""
    coordinator = await _coordinator(operator, group.group)
    if coordinator is None:
        return
    code = await operator.connected(send, to=coordinator)
    operator.cluster.trace.add(
        operator.name, f"{group.group} to {wanted}: {'no answer' if code is None else code.name}"
    )
    if code is ErrorCode.group_id_not_found:
        try:
            group.not_there()
        except SafetyViolation as violation:
            operator.cluster.found("Administration", violation)
        return
    group.answered(wanted, Answer.UNKNOWN if code in _MAY_BE_STORED else answer_of(code))


async def _coordinator(operator: OperatorClient, group: str) -> BrokerHost | None:
    found = await operator.connected(lambda admin: requests.coordinator_of(admin, group))
    return None if found is None or found < 1 else operator.cluster.nodes[found - 1]


async def offsets_topic(operator: OperatorClient) -> None:
    """See to it that the topic of committed offsets is there before faults begin: it is created when it is
    first asked for, and must not be on a broker alone that is about to lose a directory."""
    while await _coordinator(operator, operator.name) is None:  # noqa: ASYNC110
        await trio.sleep(0.1)


async def check_groups(operator: OperatorClient) -> None:
    """Each group has the offset that the answers say. For a cluster that is idle. Raises
    `SafetyViolation`."""
    for group in operator.groups:
        while (held := await _held(operator, group.group)) is None:  # noqa: ASYNC110
            await trio.sleep(0.1)
        group.check(held)


async def _held(operator: OperatorClient, group: str) -> int | None:
    coordinator = await _coordinator(operator, group)
    if coordinator is None:
        return None
    return await operator.connected(
        lambda admin: requests.committed(admin, group, _PARTITION), to=coordinator
    )
