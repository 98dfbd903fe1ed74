"""The life of a broker as the controller sees it: registered, unfenced, shutting down, fenced, unregistered.

A change of one broker is one record. Its consequences in partitions come in pieces (`chores`). Anything may
happen between two pieces, so the order matters. A broker is fenced, or in controlled shutdown, before it
leaves the ISRs, so that it is not admitted again or elected meanwhile. It has left them before it is
registered anew or unregistered. It is unfenced before it is elected.
"""

import enum
from dataclasses import replace
from typing import assert_never

from quorate.broker.controller.operations.directory_changes import (
    check_registration,
    lose_directories,
    newly_failed,
    returning,
)
from quorate.broker.controller.operations.outcome import Departure, Groups, Outcome, refusal
from quorate.broker.controller.rpc import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from quorate.broker.metadata.api_error import ApiError
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
    BrokerRegistrationChange,
    ChangeReason,
    RegisterBroker,
    UnregisterBroker,
)
from quorate.broker.metadata.states import BrokerState
from quorate.error_code import ErrorCode


def register_broker(
    image: MetadataImage,
    request: RegisterBrokerRequest,
    *,
    cluster_id: str,
    live_session: bool,
    next_offset: int,
    departed: int | None = None,
    last_heard_ms: int | None = None,
) -> Outcome[RegisterBrokerResponse]:
    """Register a broker process.

    `live_session`: whether the incarnation registered now is unfenced and was heard of within the session
    timeout. `next_offset`: the offset of the next record. The same incarnation again keeps its epoch and
    its state (KAFKA-16952). A new one starts fenced. It stays eligible to lead (KIP-966) only if it names the
    epoch registered now as the one whose data it has in full (or one before it that no active life followed:
    answers may be lost, and registrations late, see `BrokerState.has_data_of`), and still has the directory
    that its replica was in (KIP-858). Otherwise its log may end before records that its predecessor
    acknowledged.

    Its predecessor must have left every ISR before, and every ELR where data may be missing: a broker acts
    upon its registration as soon as it has it, and must not find that it leads a partition. `departed`: the
    broker epoch that has left them. `last_heard_ms`: the time at which the predecessor was last heard.
    """
    if request.cluster_id != cluster_id:
        return refusal(
            RegisterBrokerResponse,
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {cluster_id}, but got cluster ID {request.cluster_id}",
        )
    if not request.listeners:
        return refusal(
            RegisterBrokerResponse,
            ErrorCode.INVALID_REGISTRATION,
            "A broker must have at least one listener.",
        )
    try:
        check_registration(image, request)
        _check_features(image, request)
    except ApiError as error:
        return refusal(RegisterBrokerResponse, error.code, error.message)
    held = image.broker(request.broker_id)
    if held is not None and held.incarnation_id == request.incarnation_id:
        again = _registration(request, epoch=held.epoch, held=held)
        response = RegisterBrokerResponse(broker_epoch=held.epoch)
        return Outcome(response=response, groups=() if _is_same(held, again) else ((again,),))
    if held is not None and live_session:
        return refusal(
            RegisterBrokerResponse,
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"Another broker is registered with that broker id ({request.broker_id}). If it was this one "
            "before a crash, try again when its session has run out.",
        )
    if held is not None and held.epoch != departed:
        has = returning(held, request)
        if (
            image.isr_count(held.broker_id)
            or (not has.complete and image.elr_count(held.broker_id))
            or (has.missing and image.leaderless_count)
        ):
            return Outcome(
                response=RegisterBrokerResponse(),
                groups=_out_of_service(held, ChangeReason.BROKER_RESTARTED, last_heard_ms),
                first=Departure(broker_id=held.broker_id, broker_epoch=held.epoch, has=has),
            )
    record = _registration(request, epoch=next_offset)
    if held is not None and request.previous_broker_epoch >= 0 and returning(held, request).complete:
        record = replace(record, proven_epoch=_proven(held, request))
    return Outcome(response=RegisterBrokerResponse(broker_epoch=next_offset), groups=((record,),))


def _proven(held: BrokerState, request: RegisterBrokerRequest) -> int:
    return request.previous_broker_epoch if held.proven_epoch is None else held.proven_epoch


def _check_features(image: MetadataImage, request: RegisterBrokerRequest) -> None:
    """Raises `ApiError` if the broker cannot work at a level at which the cluster does (KIP-584)."""
    offered = {each.name: each for each in request.features}
    for name, level in image.features.items():
        held = offered.get(name)
        if held is None:
            says = "it does not name the feature"
        elif not held.min_level <= level <= held.max_level:
            says = f"it supports levels {held.min_level} to {held.max_level} (inclusive)"
        else:
            continue
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"Unable to register because the cluster works at level {level} of feature {name}, and broker "
            f"{request.broker_id} cannot: {says}. Start it with a version that supports the level.",
        )


def _out_of_service(broker: BrokerState, reason: ChangeReason, last_heard_ms: int | None) -> Groups:
    """Take a broker out of service before it leaves its ISRs, unless it is out of service already."""
    return _fence(broker, reason, last_heard_ms) if broker.active else ()


def _fence(broker: BrokerState, reason: ChangeReason, last_heard_ms: int | None) -> Groups:
    record = BrokerRegistrationChange(
        broker_id=broker.broker_id,
        broker_epoch=broker.epoch,
        fenced=True,
        reason=reason,
        last_heard_ms=last_heard_ms,
    )
    return ((record,),)


def _registration(
    request: RegisterBrokerRequest, *, epoch: int, held: BrokerState | None = None
) -> RegisterBroker:
    """`held`: the same incarnation as it is registered, whose state stays."""
    return RegisterBroker(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        listeners=request.listeners,
        rack=request.rack,
        features=request.features,
        fenced=held is None or held.fenced,
        in_controlled_shutdown=held is not None and held.in_controlled_shutdown,
        log_dirs=request.log_dirs,
        inactive_reason=None if held is None else held.inactive_reason,
        proven_epoch=None if held is None else held.proven_epoch,
    )


def _is_same(held: BrokerState, record: RegisterBroker) -> bool:
    return (held.listeners, held.rack, held.features, held.log_dirs) == (
        record.listeners,
        record.rack,
        record.features,
        record.log_dirs,
    )


class BrokerStatus(enum.Enum):
    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"


def heartbeat(
    image: MetadataImage,
    request: BrokerHeartbeatRequest,
    *,
    return_offset: int = -1,
    shutdown_offset: int | None,
    lowest_active_offset: int | None,
    leaves: bool = False,
    now_ms: int | None = None,
) -> Outcome[BrokerHeartbeatResponse]:
    """Answer a heartbeat, and let the broker enter the next state of its life.

    Offsets are inclusive. `return_offset`: the offset that this broker, if it is fenced, must have applied to
    be unfenced, beside its registration. `shutdown_offset`: the offset that every active broker must have
    applied before this one may stop; None until its controlled shutdown has taken it out of every ISR.
    `lowest_active_offset`: the offset that every active broker is known to have applied; None if no broker is
    active. `leaves`: it is out of service and still has to leave ISRs or ELRs. `now_ms`: the time of arrival,
    ms since the Unix epoch.
    """
    broker = image.broker(request.broker_id)
    if broker is None:
        message = f"Broker ID {request.broker_id} is not currently registered."
        return refusal(BrokerHeartbeatResponse, ErrorCode.BROKER_ID_NOT_REGISTERED, message)
    if broker.epoch != request.broker_epoch:
        message = f"Expected broker epoch {broker.epoch}, but got broker epoch {request.broker_epoch}"
        return refusal(BrokerHeartbeatResponse, ErrorCode.STALE_BROKER_EPOCH, message)
    caught_up = request.current_metadata_offset >= max(broker.epoch, return_offset)
    status = _next_status(
        image,
        broker,
        request,
        may_return=caught_up and not leaves and not image.isr_count(broker.broker_id),
        all_have_seen=shutdown_offset is not None
        and (lowest_active_offset is None or lowest_active_offset >= shutdown_offset),
    )
    groups: Groups = ()
    match status:
        case BrokerStatus.FENCED | BrokerStatus.SHUTDOWN_NOW:
            leaves_in_order = status is BrokerStatus.SHUTDOWN_NOW
            groups = fence_broker(
                image,
                broker.broker_id,
                reason=ChangeReason.CONTROLLED_SHUTDOWN if leaves_in_order else ChangeReason.BROKER_FENCED,
                last_heard_ms=now_ms,
            )
        case BrokerStatus.UNFENCED:
            if failed := newly_failed(broker, request.offline_log_dirs):
                # Before it may lead a replica in them. It is unfenced with the next heartbeat.
                groups = lose_directories(broker, failed)
                status = BrokerStatus.FENCED if broker.fenced else status
            elif broker.fenced:
                groups = unfence_broker(broker)
        case BrokerStatus.CONTROLLED_SHUTDOWN:
            if not broker.in_controlled_shutdown:
                groups = begin_controlled_shutdown(broker)
        case _:
            assert_never(status)
    return Outcome(
        response=BrokerHeartbeatResponse(
            is_caught_up=caught_up,
            is_fenced=status in (BrokerStatus.FENCED, BrokerStatus.SHUTDOWN_NOW),
            should_shut_down=status is BrokerStatus.SHUTDOWN_NOW,
        ),
        groups=groups,
    )


def _next_status(
    image: MetadataImage,
    broker: BrokerState,
    request: BrokerHeartbeatRequest,
    *,
    may_return: bool,
    all_have_seen: bool,
) -> BrokerStatus:
    leads = image.leader_count(broker.broker_id) > 0
    if broker.fenced:
        if request.want_shut_down:
            return BrokerStatus.SHUTDOWN_NOW
        if not request.want_fence and may_return:
            return BrokerStatus.UNFENCED
        return BrokerStatus.FENCED
    if broker.in_controlled_shutdown:
        return BrokerStatus.SHUTDOWN_NOW if all_have_seen and not leads else BrokerStatus.CONTROLLED_SHUTDOWN
    if request.want_fence:
        return BrokerStatus.FENCED
    if request.want_shut_down:
        return BrokerStatus.CONTROLLED_SHUTDOWN if leads else BrokerStatus.SHUTDOWN_NOW
    return BrokerStatus.UNFENCED


def fence_broker(
    image: MetadataImage,
    broker_id: int,
    *,
    reason: ChangeReason,
    last_heard_ms: int | None,
) -> Groups:
    """Fence a broker that is registered and not fenced; nothing for any other. `last_heard_ms`: the time at
    which it was last heard, ms since the Unix epoch."""
    broker = image.broker(broker_id)
    if broker is None or broker.fenced:
        return ()
    return _fence(broker, reason, last_heard_ms)


def unfence_broker(broker: BrokerState) -> Groups:
    """Unfence a broker. It may lead partitions that have no leader."""
    # A broker that was fenced in its controlled shutdown and continues has ended that shutdown.
    record = BrokerRegistrationChange(
        broker_id=broker.broker_id,
        broker_epoch=broker.epoch,
        fenced=False,
        in_controlled_shutdown=False if broker.in_controlled_shutdown else None,
        reason=ChangeReason.BROKER_UNFENCED,
    )
    return ((record,),)


def begin_controlled_shutdown(broker: BrokerState) -> Groups:
    """Begin a controlled shutdown: the broker gets no leaderships, and may stop when it has none left."""
    record = BrokerRegistrationChange(
        broker_id=broker.broker_id,
        broker_epoch=broker.epoch,
        in_controlled_shutdown=True,
        reason=ChangeReason.CONTROLLED_SHUTDOWN,
    )
    return ((record,),)


def unregister_broker(
    image: MetadataImage,
    request: UnregisterBrokerRequest,
    *,
    departed: int | None = None,
    last_heard_ms: int | None = None,
) -> Outcome[UnregisterBrokerResponse]:
    """Unregister a broker. Its replicas stay assigned to it, but it leaves every ISR and ELR before: a later
    broker with its id may have an empty disk. `departed`: the broker epoch that has left them."""
    broker = image.broker(request.broker_id)
    if broker is None:
        message = f"Broker ID {request.broker_id} is not currently registered."
        return refusal(UnregisterBrokerResponse, ErrorCode.BROKER_ID_NOT_REGISTERED, message)
    if broker.epoch != departed and (image.isr_count(broker.broker_id) or image.elr_count(broker.broker_id)):
        return Outcome(
            response=UnregisterBrokerResponse(),
            groups=_out_of_service(broker, ChangeReason.BROKER_UNREGISTERED, last_heard_ms),
            first=Departure(broker_id=broker.broker_id, broker_epoch=broker.epoch, has=None),
        )
    record = UnregisterBroker(broker_id=broker.broker_id, broker_epoch=broker.epoch)
    return Outcome(response=UnregisterBrokerResponse(), groups=((record,),))
