"""A broker's life as the controller is told of it: registered, unfenced, heartbeating, shut down."""

import enum
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import trio

from quorate.broker.controller.rpc import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    RegisterBrokerRequest,
)
from quorate.broker.controller_channel import ControllerChannel, ControllerTimedOutError
from quorate.broker.metadata.delta import MetadataDelta
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import BrokerEndpoint
from quorate.broker.metadata.states import BrokerState
from quorate.broker.metadata.supported_features import SUPPORTED_FEATURES
from quorate.broker.metadata_cache import MetadataCache
from quorate.broker.replication.hosting.state_changes import ChangeSummary
from quorate.broker.replication.storage.proofs import NO_PROOF, Proof
from quorate.broker.settings.broker_settings import LifecycleTimes
from quorate.error_code import ErrorCode
from quorate.runtime import get_logger

log = get_logger(__name__)

_RETRY_SECONDS: Final = 0.1
_WAITING_SECONDS: Final = 0.05
"""The time between heartbeats while the broker is fenced or shuts down, because others wait for the
outcome."""


class BrokerRegistrationError(Exception):
    """The active controller refused the registration of this broker. The message names the reason."""


class LifecycleState(enum.Enum):
    """Kafka's BrokerState, as far as it is ours."""

    STARTING = "starting"
    RECOVERY = "recovery"
    RUNNING = "running"
    PENDING_CONTROLLED_SHUTDOWN = "pending controlled shutdown"
    SHUTTING_DOWN = "shutting down"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The identity with which the broker registers."""

    broker_id: int
    cluster_id: str
    incarnation_id: uuid.UUID
    listeners: tuple[BrokerEndpoint, ...]
    rack: str | None


class ControllerContact:
    """How long ago the controller confirmed this broker, and whether it should soon be asked to."""

    def __init__(self) -> None:
        self._heard_at = trio.current_time()
        self._wake = trio.Event()

    def heard(self, at: float) -> None:
        """Note that the controller has answered a heartbeat that left at this time (s)."""
        self._heard_at = at

    def silent_s(self) -> float:
        """Since the newest heartbeat left that was answered as this node's metadata has it. An answer that
        the broker is fenced, of which the metadata here says nothing yet, is none: others may lead what this
        broker led, as they may after a whole session of silence."""
        return trio.current_time() - self._heard_at

    def hurry(self) -> None:
        """There is something that the controller should know before the next heartbeat is due."""
        self._wake.set()

    async def wait_due(self, interval: float) -> None:
        """Return after `interval` (s), or earlier after `hurry`."""
        self._wake = trio.Event()
        with trio.move_on_after(interval):
            await self._wake.wait()


class BrokerLifecycle:
    """Runs from the start of a broker to its end."""

    def __init__(
        self,
        identity: Identity,
        *,
        times: LifecycleTimes,
        channel: ControllerChannel,
        metadata: MetadataCache,
        contact: ControllerContact,
        log_dirs: Callable[[], tuple[uuid.UUID, ...]],
        failed_dirs: Callable[[], tuple[uuid.UUID, ...]],
        proof: Proof,
        changes: Callable[[], ChangeSummary],
        registered: Callable[[int], None],
        reported: Callable[[tuple[uuid.UUID, ...]], None],
    ) -> None:
        """`log_dirs`: ids of the directories that work; `failed_dirs`: of those that have failed since the
        start, told in each heartbeat. `proof`: the life before whose data is all here; `changes`: how
        far this broker is with the state changes of its replicas. `registered` is called with each new
        broker epoch, `reported` with the failed directories that the controller has heard of."""
        self._identity = identity
        self._times = times
        self._channel = channel
        self._metadata = metadata
        self._contact = contact
        contact.heard(trio.current_time())
        self._log_dirs = log_dirs
        self._failed_dirs = failed_dirs
        self._proof = proof
        self._changes = changes
        self._on_registered = registered
        self._on_reported = reported
        self._ready = False
        self._want_shut_down = False
        self._unfenced = trio.Event()
        self._registered = trio.Event()
        self._may_stop = trio.Event()
        metadata.subscribe(self._look)
        self.broker_epoch = -1
        self.state = LifecycleState.STARTING

    async def run(self) -> None:
        """Register and heartbeat until the controller lets the broker stop. Raises `BrokerRegistrationError`,
        and `ControllerTimedOutError` if the first registration takes too long."""
        deadline = trio.current_time() + self._times.registration_timeout
        await self._register(deadline)
        self._registered.set()
        while not self._may_stop.is_set():
            interval = await self._heartbeat()
            if self._may_stop.is_set():
                return
            await self._contact.wait_due(interval)

    async def wait_caught_up(self) -> None:
        """Return when this node has applied the broker's own registration, and so everything that took it
        out of ISRs: what it led before is no longer its own to lead."""
        await self._registered.wait()
        await self._metadata.wait_until(lambda image: self.own is not None)

    def allow_unfencing(self) -> None:
        """Let the controller unfence the broker, which can serve from now on."""
        self._ready = True
        self._contact.hurry()

    def leader_changed(self) -> None:
        """Another controller may be active, which has not heard of this broker yet."""
        self._contact.hurry()

    def connection_lost(self) -> None:
        """The connection of the heartbeats has broken."""
        self._contact.hurry()

    async def wait_unfenced(self) -> None:
        """Return when the broker is unfenced in this node's own metadata."""
        await self._unfenced.wait()

    async def shut_down(self) -> None:
        """Ask the controller to move the leaderships of this broker, and return when it may stop. `run` must
        be running."""
        self._want_shut_down = True
        self.state = LifecycleState.PENDING_CONTROLLED_SHUTDOWN
        log.info("controlled shutdown begins", broker_id=self._identity.broker_id)
        self._contact.hurry()
        await self._may_stop.wait()
        self.state = LifecycleState.SHUTTING_DOWN

    @property
    def own(self) -> BrokerState | None:
        """This broker's registration as applied here; None while it is another incarnation's."""
        held = self._metadata.image.broker(self._identity.broker_id)
        if held is None or held.incarnation_id != self._identity.incarnation_id:
            return None
        return held

    @property
    def session_timeout_s(self) -> float:
        """After so much silence the controller fences this broker."""
        return self._times.session_timeout

    @property
    def controller_silent_s(self) -> float:
        """As `ControllerContact.silent_s`."""
        return self._contact.silent_s()

    async def _register(self, deadline: float) -> None:
        """Register with the directories that work; wait for the end where none does."""
        identity = self._identity
        while True:
            log_dirs = self._log_dirs()
            if not log_dirs:
                # The broker is about to end and to say that: `AllDirectoriesFailedError`.
                await trio.sleep_forever()
            request = RegisterBrokerRequest(
                broker_id=identity.broker_id,
                cluster_id=identity.cluster_id,
                incarnation_id=identity.incarnation_id,
                listeners=identity.listeners,
                features=SUPPORTED_FEATURES,
                rack=identity.rack,
                log_dirs=log_dirs,
                previous_broker_epoch=self._proof.broker_epoch,
                previous_log_dirs=tuple(sorted(self._proof.directories)),
            )
            asked_at = trio.current_time()
            left = max(deadline - trio.current_time(), self._times.heartbeat_interval)
            answer = await self._channel.ask(request, timeout_seconds=left)
            match answer.error:
                case ErrorCode.NONE:
                    break
                case ErrorCode.DUPLICATE_BROKER_REGISTRATION if trio.current_time() < deadline:
                    # Most likely this broker before a crash; its session has to run out.
                    log.info("broker id is still registered", reason=answer.error_message)
                    await trio.sleep(_RETRY_SECONDS)
                case ErrorCode.UNKNOWN_SERVER_ERROR if trio.current_time() < deadline:
                    await trio.sleep(_RETRY_SECONDS)
                case _:
                    raise BrokerRegistrationError(
                        f"the controller refused to register broker {identity.broker_id}: "
                        f"{answer.error.name}: {answer.error_message}"
                    )
        self.broker_epoch = answer.broker_epoch
        self._contact.heard(asked_at)
        if self.state is LifecycleState.STARTING:
            self.state = LifecycleState.RECOVERY
        log.info("broker registered", broker_id=identity.broker_id, broker_epoch=self.broker_epoch)
        self._on_registered(self.broker_epoch)

    async def _heartbeat(self) -> float:
        """Send one; how long to wait before the next, in seconds."""
        changes = self._changes()
        request = BrokerHeartbeatRequest(
            broker_id=self._identity.broker_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=changes.acted_offset,
            completed_metadata_offset=changes.completed_offset,
            pending_changes=changes.pending,
            want_fence=not self._ready,
            want_shut_down=self._want_shut_down,
            offline_log_dirs=self._failed_dirs(),
        )
        asked_at = trio.current_time()
        try:
            answer = await self._channel.ask(request, timeout_seconds=self._times.session_timeout / 2)
        except ControllerTimedOutError as error:
            log.warning("no heartbeat was answered", broker_id=self._identity.broker_id, reason=str(error))
            return _RETRY_SECONDS
        match answer.error:
            case ErrorCode.NONE:
                if not answer.is_fenced or self.own is None or self.own.fenced:
                    self._contact.heard(asked_at)
                self._on_reported(request.offline_log_dirs)
                return self._answered(answer)
            case ErrorCode.STALE_BROKER_EPOCH | ErrorCode.BROKER_ID_NOT_REGISTERED:
                log.warning(
                    "registering again",
                    broker_id=self._identity.broker_id,
                    reason=f"{answer.error.name}: {answer.error_message}",
                )
                await self._register(trio.current_time() + self._times.registration_timeout)
                return 0
            case _:
                log.warning("heartbeat failed", error=answer.error.name, reason=answer.error_message)
                return _RETRY_SECONDS

    def _answered(self, answer: BrokerHeartbeatResponse) -> float:
        if answer.should_shut_down:
            log.info("controlled shutdown is complete", broker_id=self._identity.broker_id)
            self._may_stop.set()
            return 0
        if self._want_shut_down or answer.is_fenced:
            return min(_WAITING_SECONDS, self._times.heartbeat_interval)
        return self._times.heartbeat_interval

    def _look(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if delta.brokers and not self._unfenced.is_set():
            own = self.own
            if own is not None and not own.fenced:
                if self.state is LifecycleState.RECOVERY:
                    self.state = LifecycleState.RUNNING
                self._unfenced.set()
                # What comes after is another life of the data. Until then a registration that an earlier
                # process sent may still arrive and take the place of ours: we must prove the same again.
                self._proof = NO_PROOF
                log.info("broker is unfenced", broker_id=self._identity.broker_id, broker_epoch=own.epoch)
