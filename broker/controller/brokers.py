"""The life of a broker as the controller sees it: registered, unfenced, shutting down, fenced, gone.

Order matters wherever work may be split into batches: a broker leaves the ISRs before the record that fences
it or registers it anew, and is unfenced before it is elected. Half of either is a state to live with.
"""

import enum
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import assert_never

from quorate.broker.controller.configs import min_insync_replicas, unclean_elections
from quorate.broker.controller.elections import Selector, as_change, elect, eligible_after
from quorate.broker.controller.errors import ErrorCode
from quorate.broker.controller.image import MetadataImage
from quorate.broker.controller.offline_replicas import leave_partitions
from quorate.broker.controller.outcome import Outcome
from quorate.broker.controller.records import (
    NO_LEADER,
    BrokerRegistrationChange,
    PartitionChange,
    Record,
    RegisterBroker,
    UnregisterBroker,
)
from quorate.broker.controller.rpc import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from quorate.broker.controller.states import BrokerState, PartitionKey, PartitionState

Groups = tuple[tuple[Record, ...], ...]


def register_broker(
    image: MetadataImage,
    request: RegisterBrokerRequest,
    *,
    cluster_id: str,
    live_session: bool,
    next_offset: int,
    static: Mapping[str, str],
) -> Outcome[RegisterBrokerResponse]:
    """Register a broker process.

    `live_session`: whether the incarnation registered now is unfenced and was heard of within the session
    timeout. `next_offset`: what the next record appended gets. The same incarnation again keeps its epoch and
    its state (KAFKA-16952). A new one starts fenced, and leaves every ISR. It stays eligible to lead
    (KIP-966) only if it names the epoch registered now as the one whose data it has in full; else what it
    has may end earlier than what its predecessor acknowledged.
    """

    def refuse(error: ErrorCode, message: str) -> Outcome[RegisterBrokerResponse]:
        return Outcome(response=RegisterBrokerResponse(error=error, error_message=message))

    if request.cluster_id != cluster_id:
        return refuse(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {cluster_id}, but got cluster ID {request.cluster_id}",
        )
    if not request.listeners:
        return refuse(ErrorCode.INVALID_REGISTRATION, "A broker must have at least one listener.")
    held = image.broker(request.broker_id)
    if held is not None and held.incarnation_id == request.incarnation_id:
        again = _registration(
            request, epoch=held.epoch, fenced=held.fenced, leaving=held.in_controlled_shutdown
        )
        response = RegisterBrokerResponse(broker_epoch=held.epoch)
        return Outcome(response=response, groups=() if _says(held, again) else ((again,),))
    if held is not None and live_session:
        return refuse(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"Another broker is registered with that broker id ({request.broker_id}). If it was this one "
            "before a crash, try again when its session has run out.",
        )
    departures: Groups = ()
    if held is not None:
        departures = leave_isrs(
            image,
            request.broker_id,
            selector=Selector.OFFLINE,
            static=static,
            lost=request.previous_broker_epoch != held.epoch,
        )
    epoch = next_offset + sum(map(len, departures))
    record = _registration(request, epoch=epoch, fenced=True, leaving=False)
    return Outcome(response=RegisterBrokerResponse(broker_epoch=epoch), groups=(*departures, (record,)))


def _registration(
    request: RegisterBrokerRequest, *, epoch: int, fenced: bool, leaving: bool
) -> RegisterBroker:
    return RegisterBroker(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        listeners=request.listeners,
        rack=request.rack,
        features=request.features,
        fenced=fenced,
        in_controlled_shutdown=leaving,
        log_dirs=request.log_dirs,
    )


def _says(held: BrokerState, record: RegisterBroker) -> bool:
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
    shutdown_offset: int | None,
    lowest_active_offset: int | None,
    static: Mapping[str, str],
) -> Outcome[BrokerHeartbeatResponse]:
    """Answer a heartbeat, and move the broker on in its life.

    `shutdown_offset`: what every active broker must have applied (inclusive) before this one may stop; None
    until its controlled shutdown has begun. `lowest_active_offset`: what every active broker is known to have
    applied (inclusive); None if there is none.
    """
    broker = image.broker(request.broker_id)
    if broker is None:
        message = f"Broker ID {request.broker_id} is not currently registered."
        return Outcome(
            response=BrokerHeartbeatResponse(error=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message=message)
        )
    if broker.epoch != request.broker_epoch:
        message = f"Expected broker epoch {broker.epoch}, but got broker epoch {request.broker_epoch}"
        return Outcome(
            response=BrokerHeartbeatResponse(error=ErrorCode.STALE_BROKER_EPOCH, error_message=message)
        )
    caught_up = request.current_metadata_offset >= broker.epoch
    status = _next_status(
        image,
        broker,
        request,
        caught_up=caught_up,
        all_have_seen=shutdown_offset is not None
        and (lowest_active_offset is None or lowest_active_offset >= shutdown_offset),
    )
    groups: Groups = ()
    match status:
        case BrokerStatus.FENCED | BrokerStatus.SHUTDOWN_NOW:
            groups = fence_broker(image, broker.broker_id, static=static)
        case BrokerStatus.UNFENCED:
            if broker.fenced:
                groups = unfence_broker(image, broker, static=static)
            elif request.offline_replicas:
                groups = tuple(
                    leave_partitions(image, broker.broker_id, request.offline_replicas, static=static)
                )
        case BrokerStatus.CONTROLLED_SHUTDOWN:
            if not broker.in_controlled_shutdown:
                groups = begin_controlled_shutdown(image, broker, static=static)
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
    caught_up: bool,
    all_have_seen: bool,
) -> BrokerStatus:
    leads = image.leader_count(broker.broker_id) > 0
    if broker.fenced:
        if request.want_shut_down:
            return BrokerStatus.SHUTDOWN_NOW
        if not request.want_fence and caught_up:
            return BrokerStatus.UNFENCED
        return BrokerStatus.FENCED
    if broker.in_controlled_shutdown:
        return BrokerStatus.SHUTDOWN_NOW if all_have_seen and not leads else BrokerStatus.CONTROLLED_SHUTDOWN
    if request.want_fence:
        return BrokerStatus.FENCED
    if request.want_shut_down:
        return BrokerStatus.CONTROLLED_SHUTDOWN if leads else BrokerStatus.SHUTDOWN_NOW
    return BrokerStatus.UNFENCED


def leave_isrs(
    image: MetadataImage,
    broker_id: int,
    *,
    selector: Selector,
    static: Mapping[str, str],
    lost: bool = False,
) -> Groups:
    """Take a broker out of every ISR, and its partitions to other leaders. `lost`: out of every ELR too,
    because it may lack records that were committed."""
    return _elections(
        image,
        image.partitions_in_isr_or_elr(broker_id) if lost else image.partitions_in_isr(broker_id),
        acceptable=image.is_active,
        selector=selector,
        leaving=broker_id,
        lost=lost,
        static=static,
    )


def fence_broker(image: MetadataImage, broker_id: int, *, static: Mapping[str, str]) -> Groups:
    """Fence a broker that is registered and isn't fenced; nothing for any other."""
    broker = image.broker(broker_id)
    if broker is None or broker.fenced:
        return ()
    departures = leave_isrs(image, broker_id, selector=Selector.OFFLINE, static=static)
    fencing = BrokerRegistrationChange(broker_id=broker_id, broker_epoch=broker.epoch, fenced=True)
    return (*departures, (fencing,))


def unfence_broker(image: MetadataImage, broker: BrokerState, *, static: Mapping[str, str]) -> Groups:
    """Unfence a broker, and let it lead what nobody could."""
    # A broker that was fenced in its controlled shutdown and wants to go on is through with it.
    record = BrokerRegistrationChange(
        broker_id=broker.broker_id,
        broker_epoch=broker.epoch,
        fenced=False,
        in_controlled_shutdown=False if broker.in_controlled_shutdown else None,
    )
    elections = elect_leaderless(image, static=static, also_active=broker.broker_id)
    return ((record,), *elections)


def begin_controlled_shutdown(
    image: MetadataImage, broker: BrokerState, *, static: Mapping[str, str]
) -> Groups:
    """Move leaderships away from a broker that wants to stop, and keep it from getting others."""
    # First the record: were it last, a split could elect the broker again in between.
    record = BrokerRegistrationChange(
        broker_id=broker.broker_id, broker_epoch=broker.epoch, in_controlled_shutdown=True
    )
    departures = leave_isrs(image, broker.broker_id, selector=Selector.CONTROLLED_SHUTDOWN, static=static)
    return ((record,), *departures)


def elect_leaderless(
    image: MetadataImage, *, static: Mapping[str, str], also_active: int | None = None
) -> Groups:
    """Leaders for the partitions that have none and could have one. `also_active`: a broker that is about to
    be unfenced."""

    def acceptable(broker_id: int) -> bool:
        return broker_id == also_active or image.is_active(broker_id)

    return _elections(
        image,
        image.leaderless(),
        acceptable=acceptable,
        selector=Selector.OFFLINE,
        leaving=None,
        static=static,
    )


def settle_elrs(image: MetadataImage, *, static: Mapping[str, str]) -> Groups:
    """Partitions whose ISR has enough members by now, because min.insync.replicas was lowered: nobody else is
    eligible, and until that is committed their leaders commit nothing."""
    least: dict[str, int] = {}
    changes: list[tuple[PartitionChange]] = []
    for key, state in image.partitions_with_elr():
        topic = image.topics[key.topic_id].name
        if topic not in least:
            least[topic] = min_insync_replicas(image, topic, static=static)
        if not eligible_after(state, isr=state.isr, min_isr=least[topic]):
            changes.append(
                (
                    PartitionChange(
                        topic_id=key.topic_id, partition_id=key.partition_id, eligible_leader_replicas=()
                    ),
                )
            )
    return tuple(changes)


def repair(image: MetadataImage, *, static: Mapping[str, str]) -> Groups:
    """What a controller that failed halfway through split work may have left undone: ELRs that are not
    needed any more, leaders to elect, and brokers that aren't active in an ISR."""
    groups: list[tuple[Record, ...]] = [*settle_elrs(image, static=static)]
    if groups:
        return tuple(groups)  # what follows needs an image that has these applied
    groups += elect_leaderless(image, static=static)
    inactive = [broker.broker_id for broker in image.brokers.values() if not broker.active]
    for broker_id in inactive:
        if not image.isr_count(broker_id):
            continue
        groups += _elections(
            image,
            image.partitions_in_isr(broker_id),
            acceptable=image.is_active,
            selector=Selector.OFFLINE,
            leaving=broker_id,
            static=static,
        )
        if groups:
            break  # the next broker's elections need an image that has these applied
    return tuple(groups)


def elect_preferred(image: MetadataImage, *, static: Mapping[str, str], most: int) -> Groups:
    """Give up to `most` partitions back to their first replica where that can lead: leaders that moved away
    when a broker stopped don't come back by themselves."""
    return _elections(
        image,
        islice(
            (
                (key, state)
                for key, state in image.all_partitions()
                if state.leader not in (NO_LEADER, state.replicas[0])
                and state.replicas[0] in state.isr
                and image.is_active(state.replicas[0])
            ),
            most,
        ),
        acceptable=image.is_active,
        selector=Selector.PREFERRED,
        leaving=None,
        static=static,
    )


def unregister_broker(
    image: MetadataImage, request: UnregisterBrokerRequest, *, static: Mapping[str, str]
) -> Outcome[UnregisterBrokerResponse]:
    """Forget a broker. Its replicas stay assigned to it."""
    broker = image.broker(request.broker_id)
    if broker is None:
        message = f"Broker ID {request.broker_id} is not currently registered."
        return Outcome(
            response=UnregisterBrokerResponse(error=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message=message)
        )
    departures = leave_isrs(image, request.broker_id, selector=Selector.OFFLINE, static=static, lost=True)
    record = UnregisterBroker(broker_id=broker.broker_id, broker_epoch=broker.epoch)
    return Outcome(response=UnregisterBrokerResponse(), groups=(*departures, (record,)))


def _elections(
    image: MetadataImage,
    partitions: Iterable[tuple[PartitionKey, PartitionState]],
    *,
    acceptable: Callable[[int], bool],
    selector: Selector,
    leaving: int | None,
    static: Mapping[str, str],
    lost: bool = False,
) -> Groups:
    by_topic: dict[str, tuple[bool, int]] = {}
    changes: list[tuple[PartitionChange]] = []
    for key, state in partitions:
        topic = image.topics[key.topic_id].name
        held = by_topic.get(topic)
        if held is None:
            held = by_topic[topic] = (
                unclean_elections(image, topic, static=static),
                min_insync_replicas(image, topic, static=static),
            )
        unclean, min_isr = held
        election = elect(
            state,
            acceptable=acceptable,
            unclean=unclean,
            min_isr=min_isr,
            selector=selector,
            leaving=leaving,
            lost=lost,
        )
        change = as_change(key.topic_id, key.partition_id, state, election)
        if change is not None:
            changes.append((change,))
    return tuple(changes)
