"""Log directories bound to replicas (KIP-858): a replica counts only while its directory is online.

Two rules of ours on top of Kafka's. A replica in a directory that its broker has lost is not eligible to
lead, whatever the broker proves of its other directories. And where no other replica is sure to have all
committed records, the partition waits for that directory: an empty one in its place has none of them.
"""

import uuid
from collections.abc import Collection, Mapping
from typing import Final

from quorate.broker.controller.operations.directories import Belongings, directory_online, may_lead
from quorate.broker.controller.operations.elections import (
    Election,
    NoLeader,
    as_change,
    change_between,
    elected,
)
from quorate.broker.controller.operations.leaderships import Changes, Elections, Partitions
from quorate.broker.controller.operations.outcome import Groups, Outcome, decide_each, refusal
from quorate.broker.controller.rpc import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryAssignment,
    DirectoryAssignmentResult,
    RegisterBrokerRequest,
)
from quorate.broker.metadata.api_error import ApiError
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
    DISCARDED,
    LOST,
    NO_LEADER,
    BrokerRegistrationChange,
    ChangeReason,
    LeaderRecoveryState,
    PartitionChange,
    is_reserved,
)
from quorate.broker.metadata.states import BrokerState, PartitionKey, PartitionState
from quorate.error_code import ErrorCode
from quorate.types import Epoch

MAX_ASSIGNMENTS: Final = 2250
"""The assignments in one AssignReplicasToDirs request, as in Kafka."""


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
    """Return the data of its earlier life that the broker `held` still has when it registers again. A
    registration that its broker never heard of, or that was never active, has added nothing to its proof."""
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
    among: Partitions,
    static: Mapping[str, str],
) -> Changes:
    """Remove a broker that registers anew from the ISRs of some partitions, and from their ELRs where it may
    lack records: it doesn't prove the content of that directory, or the directory is missing.

    `has`: the data that it registers with. If it has tried more than once, the data of each attempt.
    """
    elections = Elections(image, static)
    for key, state in among:
        directory = state.directory_of(broker_id)
        missing = any(each.is_missing(directory) for each in has)
        lost = missing or any(each.lost(directory) for each in has)
        after, reason = state, ChangeReason.BROKER_RESTARTED
        if broker_id in state.isr or (lost and broker_id in state.elr):
            election = _leave(elections, key, state, broker_id, lost=lost, awaited=missing)
            after, reason = elected(state, election), election.reason(reason)
        elif state.leader != NO_LEADER or broker_id not in state.eligible.last_known:
            continue
        if missing and is_reserved(directory) and directory != LOST:
            # Or a replica whose directory was never recorded would count as in one that is here now.
            after = after._replace(directories=state.moved_to(broker_id, LOST))
        change = change_between(key, state, after, reason=reason)
        if change is not None:
            yield (change,)


# A directory fails


def newly_failed(broker: BrokerState, offline: Collection[uuid.UUID]) -> frozenset[uuid.UUID]:
    """Return the registered directories of the broker that a heartbeat reports as failed. None of them if it
    has no other: the broker stops."""
    failed = frozenset(broker.log_dirs) & frozenset(offline)
    return failed if len(failed) < len(broker.log_dirs) else frozenset()


def lose_directories(broker: BrokerState, failed: Collection[uuid.UUID]) -> Groups:
    """Record the directories that a broker has left. It leaves the replicas in the others in pieces
    (`leave_offline`)."""
    left = tuple(each for each in broker.log_dirs if each not in failed)
    record = BrokerRegistrationChange(
        broker_id=broker.broker_id,
        broker_epoch=broker.epoch,
        log_dirs=left,
        reason=ChangeReason.DIRECTORY_FAILED,
    )
    return ((record,),)


def leave_offline(image: MetadataImage, *, among: Partitions, static: Mapping[str, str]) -> Changes:
    """Remove brokers from the ISR and the ELR of those of some partitions whose replica is in a directory
    that its broker has lost. Replicas that it has not reported yet leave when it does
    (`assign_replicas_to_dirs`)."""
    elections = Elections(image, static)
    for key, state in among:
        after, reason = state, ChangeReason.DIRECTORY_FAILED
        for broker_id in (*state.isr, *state.elr):
            # A broker that is not registered has left already, or is about to.
            if image.broker(broker_id) is not None and not directory_online(image, state, broker_id):
                election = _leave(elections, key, after, broker_id, lost=True, awaited=True)
                after, reason = elected(after, election), election.reason(reason)
        change = change_between(key, state, after, reason=reason)
        if change is not None:
            yield (change,)


# A broker says where its replicas are


def assign_replicas_to_dirs(
    image: MetadataImage,
    request: AssignReplicasToDirsRequest,
    *,
    static: Mapping[str, str],
    asked: int | None = None,
    seen: set[PartitionKey] | None = None,
) -> Outcome[AssignReplicasToDirsResponse]:
    """Record the directories of a broker's replicas. Each is recorded or refused by itself. In an offline
    directory the replica also leaves the ISR; in an online one it may end the partition's time without a
    leader. LOST records nothing: the broker can't use its replica for now, and gives it up where another
    member can lead. DISCARDED is the request of a broker that is about to set a damaged log aside.

    Where this is a portion of a request, `asked` is the number of the whole request's assignments, and `seen`
    the partitions of its earlier portions, to which these are added."""
    broker = image.broker(request.broker_id)
    if broker is None:
        return refusal(
            AssignReplicasToDirsResponse,
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            f"Broker ID {request.broker_id} is not currently registered.",
        )
    if broker.epoch != request.broker_epoch:
        return refusal(
            AssignReplicasToDirsResponse,
            ErrorCode.STALE_BROKER_EPOCH,
            f"Expected broker epoch {broker.epoch}, but got broker epoch {request.broker_epoch}",
        )
    asked = len(request.assignments) if asked is None else asked
    if asked > MAX_ASSIGNMENTS:
        return refusal(
            AssignReplicasToDirsResponse,
            ErrorCode.INVALID_REQUEST,
            f"{asked} assignments, more than the {MAX_ASSIGNMENTS} allowed in a request",
        )
    elections = Elections(image, static)
    seen = set() if seen is None else seen

    def decide(item: DirectoryAssignment) -> tuple[PartitionChange, ...]:
        key = PartitionKey(item.topic_id, item.partition_id)
        state = _checked(image, broker.broker_id, item)
        if key in seen:
            raise ApiError(ErrorCode.INVALID_REQUEST, "each partition may appear once")
        seen.add(key)
        change = _assigned(elections, key, state, broker, item.directory_id)
        return () if change is None else (change,)

    def answer(item: DirectoryAssignment, error: ErrorCode, _: str | None) -> DirectoryAssignmentResult:
        return DirectoryAssignmentResult(topic_id=item.topic_id, partition_id=item.partition_id, error=error)

    results, groups = decide_each(request.assignments, decide, answer)
    return Outcome(response=AssignReplicasToDirsResponse(results=results), groups=groups)


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
    elections: Elections, key: PartitionKey, state: PartitionState, broker: BrokerState, directory: uuid.UUID
) -> PartitionChange | None:
    broker_id = broker.broker_id
    if directory == LOST:
        return _given_up(elections, key, state, broker_id)
    if directory == DISCARDED:
        return _discarded(elections, key, state, broker_id)
    if state.directory_of(broker_id) == directory:
        return None
    after, reason = (
        state._replace(directories=state.moved_to(broker_id, directory)),
        ChangeReason.DIRECTORY_ASSIGNED,
    )
    election: Election | None = None
    if broker.log_dirs and directory not in broker.log_dirs:
        reason = ChangeReason.DIRECTORY_FAILED
        if broker_id in (*state.isr, *state.elr):
            election = _leave(elections, key, after, broker_id, lost=True, awaited=True)
    elif state.leader == NO_LEADER:
        election = elections.offline(key, after)
    if election is not None:
        after, reason = elected(after, election), election.reason(reason)
    return change_between(key, state, after, reason=reason)


def _given_up(
    elections: Elections, key: PartitionKey, state: PartitionState, broker_id: int
) -> PartitionChange | None:
    """Elect another member, or another eligible replica where there is none. The broker's own replica stays
    eligible where it would have been: it is opened with all its records, or not at all."""
    if state.leader != broker_id:
        return None
    election = elections.offline(key, state, leaving=broker_id)
    if election.leader not in (*state.isr, *state.elr):
        return None
    return as_change(key, state, election, cause=ChangeReason.DIRECTORY_FAILED)


def _discarded(
    elections: Elections, key: PartitionKey, state: PartitionState, broker_id: int
) -> PartitionChange | None:
    """Remove the replica from the ISR and the ELR. Its directory counts as lost until the broker names one:
    meanwhile it can't lead, nor join the ISR.

    The leader epoch goes up in any case. A fetch that still tells of the old log, or an ISR that the leader
    asked for because of one, is of an older epoch and refused. Raises `ApiError` where the others would not
    be enough.
    """
    others = [each for each in state.isr if each != broker_id and may_lead(elections.image, state, each)]
    if not others or state.leader_recovery_state is LeaderRecoveryState.RECOVERING:
        raise ApiError(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "no other live replica is sure to have every record"
        )
    counts = broker_id in (*state.isr, *state.elr)
    if counts and len(others) < min(elections.settings(key).min_isr, len(state.original_replicas)):
        raise ApiError(
            ErrorCode.NOT_ENOUGH_REPLICAS, "fewer than min.insync.replicas would be left in the ISR"
        )
    election = elections.offline(key, state, leaving=broker_id, lost=True)
    after = elected(state, election)._replace(
        directories=state.moved_to(broker_id, LOST), leader_epoch=Epoch(state.leader_epoch + 1)
    )
    return change_between(key, state, after, reason=election.reason(ChangeReason.REPLICA_DISCARDED))


def _leave(
    elections: Elections,
    key: PartitionKey,
    state: PartitionState,
    broker_id: int,
    *,
    lost: bool,
    awaited: bool,
) -> Election:
    """Remove the broker from the ISR; if it is `lost`, from the ELR too. `awaited`: its directory may come
    back. If no other replica is sure to have all committed records, the partition has no leader until
    then."""
    others = {*state.isr, *state.elr} - {broker_id}
    if awaited and not others and not elections.settings(key).unclean:
        return Election(
            leader=NO_LEADER,
            isr=(),
            recovery=state.leader_recovery_state,
            last_known=(broker_id,),
            none=NoLeader.DIRECTORY_AWAITED,
        )
    return elections.offline(key, state, leaving=broker_id, lost=lost)
