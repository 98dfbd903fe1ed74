"""Log directories bound to replicas (KIP-858): a replica counts only while its directory is there.

Two rules of ours on top of Kafka's. A replica in a directory that its broker doesn't have any more is not
eligible to lead, whatever the broker proves of its other directories. And where nobody else is sure to have
all committed records, the partition waits for that directory: an empty one in its place has none of them.
"""

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from quorate.broker.controller.operations.belongings import Belongings
from quorate.broker.controller.operations.elections import Election, NoLeader, as_change
from quorate.broker.controller.operations.leader_selectors import offline_partition
from quorate.broker.controller.operations.online_directories import directory_online, may_lead
from quorate.broker.controller.operations.outcome import Groups, Outcome
from quorate.broker.controller.operations.topic_rules import TopicRules
from quorate.broker.controller.rpc import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryAssignment,
    DirectoryAssignmentResult,
    RegisterBrokerRequest,
)
from quorate.broker.metadata import (
    DISCARDED,
    LOST,
    NO_LEADER,
    ApiError,
    BrokerRegistrationChange,
    BrokerState,
    ChangeReason,
    LeaderRecoveryState,
    MetadataImage,
    PartitionChange,
    PartitionKey,
    PartitionState,
    as_eligible,
    is_reserved,
)
from quorate.error_code import ErrorCode

MAX_ASSIGNMENTS: Final = 2250
"""In one AssignReplicasToDirs request, as in Kafka."""

Changes = Iterator[tuple[PartitionChange]]


# A broker registers


def check_registration(image: MetadataImage, request: RegisterBrokerRequest) -> None:
    """Raises `ApiError` for directories that a broker can't have."""
    code = ErrorCode.INVALID_REGISTRATION
    if not request.log_dirs:
        raise ApiError(code, "No directories specified in request")
    if any(map(is_reserved, request.log_dirs)):
        raise ApiError(code, "Reserved directory ID in request")
    if len(set(request.log_dirs)) < len(request.log_dirs):
        raise ApiError(code, "Duplicate directory ID in request")
    for broker in image.brokers.values():
        taken = set(request.log_dirs) & set(broker.log_dirs)
        if taken and broker.broker_id != request.broker_id:
            raise ApiError(
                code,
                f"Broker {broker.broker_id} is already registered with directory {taken.pop()}: one broker's "
                "directory was copied or mounted into another's log.dirs",
            )


def returning(held: BrokerState, request: RegisterBrokerRequest) -> Belongings:
    """The data of the earlier life that the broker `held` still has when it registers again. A registration
    whose broker never heard of it, or was never active, has added nothing to what it proved itself."""
    proves = held.has_data_of(request.previous_broker_epoch)
    return Belongings(
        online=frozenset(request.log_dirs),
        proven=frozenset(request.previous_log_dirs) if proves else frozenset(),
        before=frozenset((*held.log_dirs, *request.previous_log_dirs)),
    )


def leave_with(
    image: MetadataImage,
    broker_id: int,
    has: Collection[Belongings],
    *,
    among: Iterable[tuple[PartitionKey, PartitionState]],
    static: Mapping[str, str],
) -> Changes:
    """Take a broker that registers anew out of the ISRs of some partitions, and out of their ELRs where it
    may lack records: it doesn't prove what that directory holds, or the directory is gone.

    `has`: what it registers with; where it has tried more than once, what holds of each.
    """
    rules = _Rules(image, static)
    for key, state in among:
        directory = state.directory_of(broker_id)
        missing = any(each.is_missing(directory) for each in has)
        lost = missing or any(each.lost(directory) for each in has)
        change: PartitionChange | None = None
        if broker_id in state.isr or (lost and broker_id in state.elr):
            election = _leave(rules, key, state, broker_id, lost=lost, awaited=missing)
            change = as_change(*key, state, election, reason=ChangeReason.BROKER_RESTARTED)
        elif state.leader != NO_LEADER or broker_id not in state.eligible.last_known:
            continue
        if missing and is_reserved(directory) and directory != LOST:
            # Or what nobody wrote down would pass for what it has now.
            change = _with_directories(
                key, change, state.moved_to(broker_id, LOST), reason=ChangeReason.BROKER_RESTARTED
            )
        if change is not None:
            yield (change,)


# A directory fails


def newly_failed(broker: BrokerState, offline: Collection[uuid.UUID]) -> frozenset[uuid.UUID]:
    """The registered directories of the broker that a heartbeat reports as failed. None of them if it has no
    other: the broker stops."""
    failed = frozenset(broker.log_dirs) & frozenset(offline)
    return failed if len(failed) < len(broker.log_dirs) else frozenset()


def lose_directories(broker: BrokerState, failed: Collection[uuid.UUID]) -> Groups:
    """Write down what a broker has left. What was in the others it leaves in pieces (`leave_offline`)."""
    left = tuple(each for each in broker.log_dirs if each not in failed)
    record = BrokerRegistrationChange(
        broker_id=broker.broker_id,
        broker_epoch=broker.epoch,
        log_dirs=left,
        reason=ChangeReason.DIRECTORY_FAILED,
    )
    return ((record,),)


def leave_offline(
    image: MetadataImage, *, among: Iterable[tuple[PartitionKey, PartitionState]], static: Mapping[str, str]
) -> Changes:
    """Take brokers out of the ISR and the ELR of those of some partitions whose replica is in a directory
    that its broker has no more. Replicas that it has not reported yet leave when it does
    (`assign_replicas_to_dirs`)."""
    rules = _Rules(image, static)
    for key, state in among:
        after, unclean = state, False
        for broker_id in (*state.isr, *state.elr):
            # Who is not registered has left already, or is about to.
            if image.broker(broker_id) is not None and not directory_online(image, state, broker_id):
                election = _leave(rules, key, after, broker_id, lost=True, awaited=True)
                after, unclean = _elected(after, election), unclean or election.unclean
        if after is not state:
            change = as_change(
                *key,
                state,
                Election(
                    leader=after.leader,
                    isr=after.isr,
                    recovery=after.leader_recovery_state,
                    elr=after.elr,
                    last_known=after.eligible.last_known,
                    unclean=unclean,
                ),
                reason=ChangeReason.DIRECTORY_FAILED,
            )
            if change is not None:
                yield (change,)


def _elected(state: PartitionState, election: Election) -> PartitionState:
    return state._replace(
        leader=election.leader,
        isr=election.isr,
        leader_recovery_state=election.recovery,
        eligible=as_eligible(election.elr, election.last_known),
    )


# A broker says where its replicas are


def assign_replicas_to_dirs(
    image: MetadataImage,
    request: AssignReplicasToDirsRequest,
    *,
    static: Mapping[str, str],
    asked: int | None = None,
    seen: set[PartitionKey] | None = None,
) -> Outcome[AssignReplicasToDirsResponse]:
    """Record the directories of a broker's replicas. Each is recorded or refused by itself. In a directory
    that is not online the replica also leaves the ISR; one that is may let somebody lead. LOST records
    nothing: the broker can't use what it has for now, and gives it up where another member can lead.
    DISCARDED is what a broker asks for before it sets a damaged log aside.

    Where this is a portion of a request, `asked` is the number of the whole request's assignments, and `seen`
    the partitions of its earlier portions, to which these are added."""

    def refuse(error: ErrorCode, message: str) -> Outcome[AssignReplicasToDirsResponse]:
        return Outcome(response=AssignReplicasToDirsResponse(error=error, error_message=message))

    broker = image.broker(request.broker_id)
    if broker is None:
        return refuse(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {request.broker_id} is not currently registered."
        )
    if broker.epoch != request.broker_epoch:
        return refuse(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Expected broker epoch {broker.epoch}, but got broker epoch {request.broker_epoch}",
        )
    asked = len(request.assignments) if asked is None else asked
    if asked > MAX_ASSIGNMENTS:
        return refuse(
            ErrorCode.INVALID_REQUEST,
            f"{asked} assignments, more than the {MAX_ASSIGNMENTS} allowed in a request",
        )
    rules = _Rules(image, static)
    results: list[DirectoryAssignmentResult] = []
    groups: list[tuple[PartitionChange]] = []
    seen = set() if seen is None else seen
    for item in request.assignments:
        key, error = PartitionKey(item.topic_id, item.partition_id), ErrorCode.NONE
        try:
            state = _checked(image, broker.broker_id, item)
            if key in seen:
                raise ApiError(ErrorCode.INVALID_REQUEST, "each partition may appear once")
            seen.add(key)
            change = _assigned(rules, key, state, broker, item.directory_id)
        except ApiError as refused:
            error = refused.code
        else:
            if change is not None:
                groups.append((change,))
        results.append(
            DirectoryAssignmentResult(topic_id=item.topic_id, partition_id=item.partition_id, error=error)
        )
    return Outcome(response=AssignReplicasToDirsResponse(results=tuple(results)), groups=tuple(groups))


def _checked(image: MetadataImage, broker_id: int, item: DirectoryAssignment) -> PartitionState:
    if image.topic_by_id(item.topic_id) is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "no such topic")
    state = image.partition(item.topic_id, item.partition_id)
    if state is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such partition")
    if broker_id not in state.replicas:
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the sender has no replica of it")
    if is_reserved(item.directory_id) and item.directory_id not in (LOST, DISCARDED):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a reserved directory id")
    return state


def _assigned(
    rules: "_Rules", key: PartitionKey, state: PartitionState, broker: BrokerState, directory: uuid.UUID
) -> PartitionChange | None:
    broker_id = broker.broker_id
    if directory == LOST:
        return _given_up(rules, key, state, broker_id)
    if directory == DISCARDED:
        return _discarded(rules, key, state, broker_id)
    if state.directory_of(broker_id) == directory:
        return None
    after = state._replace(directories=state.moved_to(broker_id, directory))
    change: PartitionChange | None = None
    reason = ChangeReason.DIRECTORY_ASSIGNED
    if broker.log_dirs and directory not in broker.log_dirs:
        reason = ChangeReason.DIRECTORY_FAILED
        if broker_id in (*state.isr, *state.elr):
            election = _leave(rules, key, after, broker_id, lost=True, awaited=True)
            change = as_change(*key, after, election, reason=reason)
    elif state.leader == NO_LEADER:
        change = as_change(*key, after, rules.elect(key, after), reason=reason)
    return _with_directories(key, change, after.directories, reason=reason)


def _given_up(
    rules: "_Rules", key: PartitionKey, state: PartitionState, broker_id: int
) -> PartitionChange | None:
    """Another member leads, or another eligible replica where there is none. This one stays eligible where it
    would have been: it is opened with all its records, or not at all."""
    if state.leader != broker_id:
        return None
    election = rules.elect(key, state, leaving=broker_id)
    if election.leader not in (*state.isr, *state.elr):
        return None
    return as_change(*key, state, election, reason=ChangeReason.DIRECTORY_FAILED)


def _discarded(rules: "_Rules", key: PartitionKey, state: PartitionState, broker_id: int) -> PartitionChange:
    """The replica leaves the ISR and the ELR, and its directory counts as lost until the broker names one: it
    can't lead meanwhile, nor join the ISR.

    The leader epoch goes up in any case. A fetch that still tells of the old log, or an ISR that the leader
    asked for because of one, is of an older epoch and refused. Raises `ApiError` where the others would not
    be enough.
    """
    others = [each for each in state.isr if each != broker_id and rules.may_lead(state, each)]
    if not others or state.leader_recovery_state is LeaderRecoveryState.RECOVERING:
        raise ApiError(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "no other live replica is sure to have every record"
        )
    counts = broker_id in (*state.isr, *state.elr)
    if counts and len(others) < min(rules.min_isr(key), len(state.original_replicas)):
        raise ApiError(
            ErrorCode.NOT_ENOUGH_REPLICAS, "fewer than min.insync.replicas would be left in the ISR"
        )
    election = rules.elect(key, state, leaving=broker_id, lost=True)
    change = as_change(*key, state, election, reason=ChangeReason.REPLICA_DISCARDED)
    change = _with_directories(
        key, change, state.moved_to(broker_id, LOST), reason=ChangeReason.REPLICA_DISCARDED
    )
    return replace(change, leader=election.leader)


# Elections


class _Rules:
    """Elections by the settings of the partition's topic."""

    def __init__(self, image: MetadataImage, static: Mapping[str, str]) -> None:
        self._image = image
        self._topics = TopicRules(image, static)

    def unclean(self, key: PartitionKey) -> bool:
        return self._topics.of(key.topic_id).unclean

    def min_isr(self, key: PartitionKey) -> int:
        return self._topics.of(key.topic_id).min_isr

    def may_lead(self, state: PartitionState, broker_id: int) -> bool:
        return may_lead(self._image, state, broker_id)

    def elect(
        self, key: PartitionKey, state: PartitionState, *, leaving: int | None = None, lost: bool = False
    ) -> Election:
        unclean, min_isr = self._topics.of(key.topic_id)
        return offline_partition(
            state,
            acceptable=partial(may_lead, self._image, state),
            unclean=unclean,
            min_isr=min_isr,
            leaving=leaving,
            lost=lost,
        )


def _leave(
    rules: _Rules, key: PartitionKey, state: PartitionState, broker_id: int, *, lost: bool, awaited: bool
) -> Election:
    """The broker leaves the ISR; the ELR too if it is `lost`. `awaited`: its directory may come back, and if
    nobody else is sure to have all committed records, the partition has no leader until then."""
    others = {*state.isr, *state.elr} - {broker_id}
    if awaited and not others and not rules.unclean(key):
        return Election(
            leader=NO_LEADER,
            isr=(),
            recovery=state.leader_recovery_state,
            last_known=(broker_id,),
            none=NoLeader.DIRECTORY_AWAITED,
        )
    return rules.elect(key, state, leaving=broker_id, lost=lost)


def _with_directories(
    key: PartitionKey,
    change: PartitionChange | None,
    directories: tuple[uuid.UUID, ...],
    *,
    reason: ChangeReason,
) -> PartitionChange:
    if change is None:
        return PartitionChange(
            topic_id=key.topic_id, partition_id=key.partition_id, directories=directories, reason=reason
        )
    return replace(change, directories=directories)
