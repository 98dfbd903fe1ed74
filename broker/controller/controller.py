"""The active controller: operations one after the other, on an image ahead of what is committed.

Each operation decides, is applied and takes its place in the log in one stretch without a pause, so that the
next one sees what it did. Its answer waits until everything that it was decided from is committed. A
controller that loses leadership throws its image away: nothing of it was said to anybody.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Final, Protocol, TypeVar

import trio

from quorate.broker.controller.alter_configs import alter_configs
from quorate.broker.controller.alter_partition import alter_partition
from quorate.broker.controller.brokers import (
    elect_leaderless,
    elect_preferred,
    fence_broker,
    heartbeat,
    register_broker,
    repair,
    settle_elrs,
    unregister_broker,
)
from quorate.broker.controller.errors import ErrorCode
from quorate.broker.controller.image import MetadataImage
from quorate.broker.controller.metadata_log import MetadataLog, Pending
from quorate.broker.controller.outcome import Outcome
from quorate.broker.controller.packing import TooLargeError, packed
from quorate.broker.controller.producer_ids import allocate_producer_ids
from quorate.broker.controller.records import FeatureLevel, Record
from quorate.broker.controller.rpc import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from quorate.broker.controller.sessions import Sessions
from quorate.broker.controller.telemetry import ControllerTelemetry, NoControllerTelemetry
from quorate.broker.controller.topics import Draw, TopicDefaults, create_topics, delete_topics
from quorate.raft.errors import NotLeaderError, OutcomeUnknownError, QuorumStoppedError
from quorate.runtime.entropy import Entropy
from quorate.runtime.log import get_logger

log = get_logger(__name__)

METADATA_VERSION: Final = "metadata.version"
LATEST_METADATA_VERSION: Final = 1
_LEADERSHIP_LOST: Final = (NotLeaderError, OutcomeUnknownError, QuorumStoppedError)
_DRAW_LIMIT: Final = 1 << 30
_MAX_LEADER_MOVES: Final = 1000
"""Per rebalance, so that one does not swamp the brokers."""


class Answer(Protocol):
    """What every response has."""

    @property
    def error(self) -> ErrorCode: ...


R = TypeVar("R", bound=Answer)
R_co = TypeVar("R_co", bound=Answer, covariant=True)


class Refuse(Protocol[R_co]):
    """Makes an answer that says only why there is none. Every type of response is one."""

    def __call__(self, *, error: ErrorCode, error_message: str) -> R_co: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    cluster_id: str
    broker_session_timeout_ms: int = 9000
    """`broker.session.timeout.ms`"""
    topic_defaults: TopicDefaults = field(default_factory=TopicDefaults)
    static: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The node's checked `server.properties`, where topics' defaults come from."""
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    max_batch_bytes: int = 4 << 20
    """Of one append; the quorum's own limit or less. An operation that needs more in one piece is refused."""


@dataclass(slots=True, kw_only=True)
class _Active:
    """What lives and dies with one leadership."""

    epoch: int
    image: MetadataImage
    sessions: Sessions
    rebalance_at: float
    """When leaders next go back to their first replicas, on trio's clock."""
    last: Pending | None = None
    """The last append. It commits after everything before it."""
    last_offset: int = -1
    """That append's base offset."""


class Controller:
    """The controller of one node: answers NOT_CONTROLLER until `activate`, and from `deactivate` on.

    All methods belong to one trio run. A request that is cancelled may have happened.
    """

    def __init__(
        self,
        metadata_log: MetadataLog,
        *,
        settings: ControllerSettings,
        entropy: Entropy,
        telemetry: ControllerTelemetry | None = None,
    ) -> None:
        self._log = metadata_log
        self._telemetry = telemetry or NoControllerTelemetry()
        self._settings = settings
        self._entropy = entropy
        self._active: _Active | None = None

    # Leadership

    @property
    def active(self) -> bool:
        return self._active is not None

    def activate(self, image: MetadataImage, *, epoch: int) -> None:
        """Begin to answer as leader of `epoch`. `image`: a copy of the committed one, with everything from
        before this epoch applied; it is the controller's from here on."""
        now = trio.current_time()
        sessions = Sessions(timeout=self._settings.broker_session_timeout_ms / 1000)
        for broker_id in image.brokers:
            sessions.begin(broker_id, now=now)
        active = _Active(
            epoch=epoch,
            image=image,
            sessions=sessions,
            rebalance_at=now + self._settings.leader_imbalance_check_interval_seconds,
        )
        self._active = active
        log.info("controller is active", epoch=epoch, next_offset=self._log.next_offset)
        self._guarded(active, lambda: self._settle(active))

    def deactivate(self) -> None:
        """Stop answering and forget what isn't committed. What waits for a commit is answered when the quorum
        says that it lost leadership."""
        if self._active is not None:
            log.info("controller is no longer active", epoch=self._active.epoch)
            self._active = None

    async def run(self) -> None:
        """Fence brokers whose session has run out, and bring leaders back, for as long as this runs."""
        interval = self._settings.broker_session_timeout_ms / 1000 / 10
        while True:
            due = trio.current_time() + interval
            await trio.sleep_until(due)
            active = self._active
            if active is not None:
                self._guarded(active, partial(self._tend, active, interval), due=due)

    def _settle(self, active: _Active) -> None:
        if METADATA_VERSION not in active.image.features:
            level = FeatureLevel(name=METADATA_VERSION, level=LATEST_METADATA_VERSION)
            self._append(active, ((level,),))
        while groups := repair(active.image, static=self._settings.static):
            self._append(active, groups)

    def _tend(self, active: _Active, interval: float) -> None:
        self._fence_silent(active, interval)
        settings = self._settings
        if settings.auto_leader_rebalance_enable and trio.current_time() >= active.rebalance_at:
            moves = elect_preferred(active.image, static=settings.static, most=_MAX_LEADER_MOVES)
            if moves:
                log.info("leaders go back to their first replicas", partitions=len(moves), epoch=active.epoch)
            self._append(active, moves)
            active.rebalance_at = trio.current_time() + settings.leader_imbalance_check_interval_seconds

    def _fence_silent(self, active: _Active, interval: float) -> None:
        now = trio.current_time()
        for broker_id in active.sessions.expired(active.image, now=now, interval=interval):
            log.warning("fencing a broker that went silent", broker_id=broker_id, epoch=active.epoch)
            self._telemetry.broker_timed_out()
            self._append(active, fence_broker(active.image, broker_id, static=self._settings.static))

    # Operations

    async def register_broker(self, request: RegisterBrokerRequest) -> RegisterBrokerResponse:
        def decide(active: _Active) -> Outcome[RegisterBrokerResponse]:
            now = trio.current_time()
            held = active.image.broker(request.broker_id)
            outcome = register_broker(
                active.image,
                request,
                cluster_id=self._settings.cluster_id,
                live_session=held is not None
                and not held.fenced
                and active.sessions.live(request.broker_id, now=now),
                next_offset=self._log.next_offset,
                static=self._settings.static,
            )
            registered = outcome.response
            if registered.error is ErrorCode.NONE and (held is None or held.epoch != registered.broker_epoch):
                active.sessions.begin(request.broker_id, now=now)
                log.info(
                    "broker registered",
                    broker_id=request.broker_id,
                    broker_epoch=registered.broker_epoch,
                    # Of the life before: whether it may have left records unsynced that are lost.
                    previous="none"
                    if held is None
                    else "complete"
                    if request.previous_broker_epoch == held.epoch
                    else "may have lost records",
                )
            return outcome

        return await self._perform(decide, RegisterBrokerResponse)

    async def heartbeat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        def decide(active: _Active) -> Outcome[BrokerHeartbeatResponse]:
            now = trio.current_time()
            held = active.image.broker(request.broker_id)
            sessions = active.sessions
            if held is not None and held.epoch == request.broker_epoch:
                sessions.touch(request.broker_id, now=now, metadata_offset=request.current_metadata_offset)
            outcome = heartbeat(
                active.image,
                request,
                shutdown_offset=sessions.shutdown_offset(request.broker_id),
                lowest_active_offset=sessions.lowest_active_offset(active.image),
                static=self._settings.static,
            )
            answer = outcome.response
            if answer.error is ErrorCode.NONE and not answer.is_fenced:
                leaves = held is not None and (held.in_controlled_shutdown or request.want_shut_down)
                if leaves:
                    written = len(outcome.records)
                    # With nothing written, the last record there is: brokers report offsets of records.
                    goal = self._log.next_offset + written - 1 if written else active.image.offset
                    sessions.fix_shutdown_offset(request.broker_id, offset=goal, now=now)
            elif answer.should_shut_down:
                sessions.forget(request.broker_id)
            return outcome

        return await self._perform(decide, BrokerHeartbeatResponse)

    async def unregister_broker(self, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
        def decide(active: _Active) -> Outcome[UnregisterBrokerResponse]:
            outcome = unregister_broker(active.image, request, static=self._settings.static)
            if outcome.response.error is ErrorCode.NONE:
                active.sessions.forget(request.broker_id)
            return outcome

        return await self._perform(decide, UnregisterBrokerResponse)

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        return await self._perform(
            lambda active: alter_partition(active.image, request, static=self._settings.static),
            AlterPartitionResponse,
        )

    async def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        draws = [
            Draw(
                topic_id=self._entropy.uuid(),
                start=self._entropy.below(_DRAW_LIMIT),
                shift=self._entropy.below(_DRAW_LIMIT),
            )
            for _ in request.topics
        ]
        return await self._perform(
            lambda active: create_topics(
                active.image, request, draws=draws, defaults=self._settings.topic_defaults
            ),
            CreateTopicsResponse,
        )

    async def delete_topics(self, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        return await self._perform(lambda active: delete_topics(active.image, request), DeleteTopicsResponse)

    async def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        return await self._perform(
            lambda active: allocate_producer_ids(active.image, request), AllocateProducerIdsResponse
        )

    async def alter_configs(self, request: AlterConfigsRequest) -> AlterConfigsResponse:
        return await self._perform(
            lambda active: alter_configs(active.image, request),
            AlterConfigsResponse,
            then=self._after_configs,
        )

    def _after_configs(self, active: _Active) -> None:
        static = self._settings.static
        self._append(active, settle_elrs(active.image, static=static))
        # Unclean elections may be on now for a partition that nobody could lead.
        self._append(active, elect_leaderless(active.image, static=static))

    # One operation

    async def _perform(
        self,
        decide: Callable[[_Active], Outcome[R]],
        refuse: Refuse[R],
        *,
        then: Callable[[_Active], None] | None = None,
    ) -> R:
        active = self._active
        if active is None:
            return refuse(
                error=ErrorCode.NOT_CONTROLLER, error_message="This node is not the active controller."
            )
        began, before = trio.current_time(), active.last
        try:
            outcome = decide(active)
            response = outcome.response
            self._append(active, outcome.groups)
            if then is not None:
                then(active)
        except TooLargeError as error:
            response = refuse(error=ErrorCode.POLICY_VIOLATION, error_message=str(error))
        except _LEADERSHIP_LOST:
            self._lost(active)
            return _leadership_lost(refuse, wrote=active.last is not before)
        except Exception:
            self._failed(active)
            return refuse(
                error=ErrorCode.UNKNOWN_SERVER_ERROR,
                error_message="The controller failed and gave up its leadership.",
            )
        finally:
            self._telemetry.performed(late_seconds=0.0, busy_seconds=trio.current_time() - began)
        wrote = active.last is not before
        if not await self._committed(active):
            return _leadership_lost(refuse, wrote=wrote)
        return response

    async def _committed(self, active: _Active) -> bool:
        """Wait until everything appended so far is committed; whether it is."""
        pending, expected = active.last, active.last_offset
        if pending is None:
            return True
        try:
            base_offset = await pending.wait()
        except _LEADERSHIP_LOST:
            self._lost(active)
            return False
        except trio.Cancelled:
            self._telemetry.given_up()
            raise
        if base_offset != expected:
            log.error("an append went to another offset", expected=expected, found=base_offset)
            self._lost(active)
            return False
        return True

    def _guarded(self, active: _Active, work: Callable[[], None], *, due: float | None = None) -> None:
        """Do what nobody asked for. `due`: when it should begin (s); now by default."""
        began = trio.current_time()
        try:
            work()
        except _LEADERSHIP_LOST:
            self._lost(active)
        except Exception:
            self._failed(active)
        finally:
            late = 0.0 if due is None else began - due
            self._telemetry.performed(late_seconds=late, busy_seconds=trio.current_time() - began)

    def _failed(self, active: _Active) -> None:
        # Our bug. Its image can't be trusted from here on; another node's may be (KAFKA-13104).
        log.exception("the active controller failed", epoch=active.epoch)
        self._telemetry.failed()
        self._lost(active)

    def _lost(self, active: _Active) -> None:
        if self._active is active:
            self.deactivate()
            self._log.resign()

    def _append(self, active: _Active, groups: tuple[tuple[Record, ...], ...]) -> None:
        """Raises `TooLargeError` before anything happened, and what `append_nowait` raises."""
        if not groups:
            return
        batches = packed(groups, limit=self._settings.max_batch_bytes)
        # Applied first: a record that doesn't fit the image must not get into the log, where it would stop
        # every node that applies it.
        first = offset = self._log.next_offset
        for group in groups:
            for record in group:
                active.image.apply(record, offset=offset, epoch=active.epoch)
                offset += 1
        for batch in batches:
            active.last = self._log.append_nowait(batch, epoch=active.epoch)
            active.last_offset = first
            first += len(batch)


def _leadership_lost(refuse: Refuse[R], *, wrote: bool) -> R:
    """`wrote`: something was appended for the operation, which the next leader may commit."""
    if wrote:
        return refuse(
            error=ErrorCode.REQUEST_TIMED_OUT,
            error_message="The controller lost its leadership before the change was committed; it may be.",
        )
    return refuse(
        error=ErrorCode.NOT_CONTROLLER, error_message="This node is no longer the active controller."
    )
