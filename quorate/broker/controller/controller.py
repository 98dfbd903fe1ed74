"""The active controller: operations one after the other, on an image ahead of what is committed.

Each step of an operation decides, is applied and takes its place in the log in one stretch without a pause,
so that the next one sees what it did. No step is longer than some milliseconds: what concerns many partitions
is done in pieces, by `work`, and whoever needs the outcome waits for it (`chores`). A topic of many
partitions is decided and appended in pieces too, which a transaction makes one change; everybody else waits
for their turn meanwhile (`Tenure.alone`). An answer waits until
everything that it was decided from is committed. A controller that loses leadership throws its image away:
nothing of it was said to anybody.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Final, TypeVar, cast

import trio

from quorate.broker.controller.administration import Administration
from quorate.broker.controller.broker_progress import BrokerProgress
from quorate.broker.controller.broker_watch import BrokerWatch
from quorate.broker.controller.chores import Chores
from quorate.broker.controller.controller_telemetry import ControllerTelemetry, NoControllerTelemetry
from quorate.broker.controller.metadata_log import MetadataLog
from quorate.broker.controller.mutation_quotas import MutationQuotas
from quorate.broker.controller.operations import (
    Departure,
    Draw,
    Outcome,
    TopicDefaults,
    allocate_producer_ids,
    alter_partition,
    asks_too_much,
    assign_replicas_to_dirs,
    create_topics,
    fence_broker,
    heartbeat,
    register_broker,
    unregister_broker,
)
from quorate.broker.controller.packing import TooLargeError
from quorate.broker.controller.portions import joined, joined_once, portions
from quorate.broker.controller.rpc import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    NewTopic,
    Refusal,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    Request,
    Response,
    RpcDecodeError,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
    decode_request,
    encode_response,
)
from quorate.broker.controller.sessions import Sessions
from quorate.broker.controller.tenure import Tenure, leadership_lost
from quorate.broker.metadata import (
    LATEST_METADATA_VERSION,
    METADATA_VERSION,
    AbortTransaction,
    ChangeReason,
    FeatureLevel,
    MetadataImage,
    PartitionKey,
)
from quorate.error_code import ErrorCode
from quorate.raft import Caller, NotLeaderError, OutcomeUnknownError, QuorumStoppedError
from quorate.runtime import Entropy, Steps, WallClock, at_once, get_logger, in_slices
from quorate.types import Epoch

log = get_logger(__name__)

FENCING_THE_DEAD: Final = "fencing a broker whose process is gone"
"""The event of a log line; the simulation compares it with what runs."""
_LEADERSHIP_LOST: Final = (NotLeaderError, OutcomeUnknownError, QuorumStoppedError)
_DRAW_LIMIT: Final = 1 << 30
_MAX_LEADER_MOVES: Final = 1000
"""Per rebalance, so that one does not swamp the brokers."""


T = TypeVar("T")
R = TypeVar("R", bound=Response)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    cluster_id: str
    broker_session_timeout_ms: int = 9000
    """`broker.session.timeout.ms`"""
    refusal_confirm_ms: int = 150
    """How long a broker's address must refuse connections before its process counts as gone; 0: it never
    does."""
    topic_defaults: TopicDefaults = field(default_factory=TopicDefaults)
    static: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The node's checked `server.properties`, where topics' defaults come from."""
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    leader_imbalance_per_broker_percentage: int = 10
    max_batch_bytes: int = 4 << 20
    """Of one append; the quorum's own limit or less. An operation that needs more in one piece is refused."""
    partitions_per_step: int = 128
    """That one step changes; it may look at 16 times as many. Some 20 us each, to decide, encode and
    apply."""


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
        watch: BrokerWatch | None = None,
        wall_clock: WallClock | None = None,
        progress: BrokerProgress | None = None,
    ) -> None:
        """`watch`: finds brokers whose process has ended; without one they are fenced when their session runs
        out. `wall_clock`: for records that say when a broker was last heard; without one they don't."""
        self._log = metadata_log
        self._telemetry = telemetry or NoControllerTelemetry()
        self._settings = settings
        self._entropy = entropy
        self._watch = watch
        self._wall_clock = wall_clock
        self._progress = progress or BrokerProgress()
        self._active: Tenure | None = None
        self.mutations = MutationQuotas(lambda: self.image)
        self._wake = trio.Event()
        self._rested = True
        """No piece of work was done in this pass of the event loop, and none is waiting."""
        self.operations: Mapping[type[Request[Response]], Callable[..., Awaitable[Response]]] = {
            AllocateProducerIdsRequest: self._allocate_producer_ids,
            AlterPartitionRequest: self._alter_partition,
            AssignReplicasToDirsRequest: self._assign_replicas_to_dirs,
            BrokerHeartbeatRequest: self._heartbeat,
            CreateTopicsRequest: self._create_topics,
            RegisterBrokerRequest: self._register_broker,
            UnregisterBrokerRequest: self._unregister_broker,
            **Administration(self).operations,
        }

    # Leadership

    @property
    def active(self) -> bool:
        return self._active is not None

    @property
    def image(self) -> MetadataImage | None:
        """What the next operation is decided from: of an active controller, ahead of what is committed."""
        return None if self._active is None else self._active.image

    @property
    def settings(self) -> ControllerSettings:
        return self._settings

    @property
    def patience_s(self) -> float:
        """A broker with a state change older than this (s) is behind: half a session."""
        return self._settings.broker_session_timeout_ms / 2000

    @property
    def static(self) -> Mapping[str, str]:
        """The node's checked `server.properties`, where topics' defaults come from."""
        return self._settings.static

    def activate(self, image: MetadataImage, *, epoch: Epoch, in_transaction: bool = False) -> None:
        """Begin to answer as leader of `epoch`. `image`: a copy of the committed one, with everything from
        before this epoch applied; it is the controller's from here on. What an earlier controller left undone
        is done by `work`, but a transaction that it left open (`in_transaction`) is aborted."""
        now = trio.current_time()
        sessions = Sessions(timeout=self._settings.broker_session_timeout_ms / 1000)
        for broker_id in image.brokers:
            sessions.begin(broker_id, now=now, heard=False)
        settings = self._settings
        active = Tenure(
            epoch=epoch,
            image=image,
            metadata_log=self._log,
            max_batch_bytes=settings.max_batch_bytes,
            sessions=sessions,
            chores=Chores(image, static=settings.static, size=settings.partitions_per_step),
            rebalance_at=now + settings.leader_imbalance_check_interval_seconds,
        )
        self._active = active
        log.info("controller is active", epoch=epoch, next_offset=self._log.next_offset)
        self._guarded(active, lambda: self._settle(active, in_transaction=in_transaction))
        if self._watch is not None:
            self._watch.hurry()

    def deactivate(self) -> None:
        """Stop answering and forget what isn't committed. What waits for a commit is answered when the quorum
        says that it lost leadership."""
        if self._active is not None:
            log.info("controller is no longer active", epoch=self._active.epoch)
            active, self._active = self._active, None
            active.chores.give_up()
            self._progress.forget()

    async def run(self) -> None:
        """Fence brokers whose session has run out, bring leaders back, and do what operations left to be
        done, for as long as this runs."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.work)
            if self._watch is not None:
                nursery.start_soon(self._watch.run, self._fence_gone)
            await self._tend_brokers()

    async def _tend_brokers(self) -> None:
        interval = self._settings.broker_session_timeout_ms / 1000 / 10
        while True:
            due = trio.current_time() + interval
            await trio.sleep_until(due)
            active = self._active
            if active is not None:
                await active.wait_turn()
                if self._active is active:
                    self._guarded(active, partial(self._tend, active, interval), due=due)

    def _settle(self, active: Tenure, *, in_transaction: bool) -> None:
        if in_transaction:
            log.warning("aborting what an earlier controller did not complete", epoch=active.epoch)
            active.append(((AbortTransaction(reason="another controller"),),))
        if METADATA_VERSION not in active.image.features:
            level = FeatureLevel(name=METADATA_VERSION, level=LATEST_METADATA_VERSION)
            active.append(((level,),))
        active.chores.repair()
        self._begin_chores(active)

    def _tend(self, active: Tenure, interval: float) -> None:
        self._fence_silent(active, interval)
        self._tell_who_is_behind()
        settings = self._settings
        if settings.auto_leader_rebalance_enable and trio.current_time() >= active.rebalance_at:
            least = settings.leader_imbalance_per_broker_percentage / 100
            image = active.image
            brokers = frozenset(
                each for each in image.brokers if image.is_active(each) and image.imbalance(each) > least
            )
            if brokers:
                active.chores.prefer(most=_MAX_LEADER_MOVES, brokers=brokers)
                self._begin_chores(active)
            active.rebalance_at = trio.current_time() + settings.leader_imbalance_check_interval_seconds

    def _tell_who_is_behind(self) -> None:
        for each in self._progress.newly_behind(now=trio.current_time(), patience=self.patience_s):
            log.warning(
                "a broker is behind with the state changes of its replicas",
                broker_id=each.broker_id,
                oldest_seconds=round(each.oldest_s, 1),
                completed_offset=each.completed_offset,
                records_behind=each.lag,
                pending=each.pending,
            )

    def _fence_silent(self, active: Tenure, interval: float) -> None:
        now = trio.current_time()
        for broker_id in active.sessions.expired(active.image, now=now, interval=interval):
            log.warning("fencing a broker that went silent", broker_id=broker_id, epoch=active.epoch)
            self._telemetry.broker_timed_out()
            self._fence(active, broker_id, ChangeReason.BROKER_FENCED)
        self._begin_chores(active)

    async def _fence_gone(self, broker_id: int, broker_epoch: int) -> None:
        """Fence a registration whose process has ended, if this controller is active."""
        active, watch = self._active, self._watch
        if active is None or watch is None:
            return
        await active.wait_turn()
        # It may have been heard meanwhile.
        if self._active is active and watch.process_gone(broker_id, broker_epoch):
            self._guarded(active, lambda: self._fence_dead(active, broker_id, broker_epoch))

    def _fence_dead(self, active: Tenure, broker_id: int, broker_epoch: int) -> None:
        held = active.image.broker(broker_id)
        if held is None or held.fenced or held.epoch != broker_epoch:
            return
        log.warning(FENCING_THE_DEAD, broker_id=broker_id, broker_epoch=broker_epoch, epoch=active.epoch)
        active.sessions.end(broker_id)
        self._fence(active, broker_id, ChangeReason.BROKER_GONE)
        self._begin_chores(active)

    def _fence(self, active: Tenure, broker_id: int, reason: ChangeReason) -> None:
        last_heard_ms = self._last_heard_ms(active, broker_id)
        active.append(fence_broker(active.image, broker_id, reason=reason, last_heard_ms=last_heard_ms))

    def _last_heard_ms(self, active: Tenure, broker_id: int) -> int | None:
        """When this controller last heard of the broker, by the wall clock; None if it never did."""
        heard_at = active.sessions.last_heard(broker_id)
        if heard_at is None or self._wall_clock is None:
            return None
        return max(0, self._wall_clock.now_ms() - round((trio.current_time() - heard_at) * 1000))

    # What operations leave to be done

    async def work(self) -> None:
        """Do it, one piece in each pass of the event loop. Runs until cancelled; `run` has it running."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while (active := self._active) is not None and active.chores:
                await trio.lowlevel.checkpoint()
                await active.wait_turn()
                if self._active is active:
                    self._guarded(active, active.do_piece)
                    try:
                        await active.keep_up()
                    except _LEADERSHIP_LOST:
                        self._lost(active)
            self._rested = True

    def _begin_chores(self, active: Tenure) -> None:
        """Do the first piece at once, which is all that there is in a small cluster. Not if a piece was done
        in this pass already: `work` comes to the rest, a piece a pass."""
        if active.chores and self._rested and active.do_piece():
            self._rested = False
        if active.chores or not self._rested:
            self._wake.set()

    async def _departed(self, active: Tenure, departure: Departure) -> bool:
        """Wait until the broker has left; whether it has."""
        chore = active.chores.depart(departure)
        self._begin_chores(active)
        if not chore.finished.is_set():
            await chore.finished.wait()
        return self._active is active

    async def settled(self) -> bool:
        """Wait until no settings are waiting for their consequences; whether that came to be."""
        active = self._active
        if active is None:
            return False
        for chore in active.chores.of_settings():
            await chore.finished.wait()
        return self._active is active and await self._committed(active)

    # Operations

    async def answer(self, request: Request[R]) -> R:
        """Carry out `request`; its answer, when everything it was decided from is committed."""
        return cast(R, await self.operations[type(request)](request))

    async def answer_encoded(self, payload: bytes, caller: Caller | None = None) -> bytes:
        """Do the same as `answer` for another node's bytes. A `Refusal` if `payload` is no request."""
        try:
            request = decode_request(payload)
        except RpcDecodeError as error:
            log.warning("refused a request to the controller", size=len(payload), reason=str(error))
            return encode_response(Refusal(error=ErrorCode.INVALID_REQUEST, error_message=str(error)[:1000]))
        if isinstance(request, BrokerHeartbeatRequest) and self._watch is not None:
            self._watch.heard(request.broker_id, request.broker_epoch, caller)
        return encode_response(await self.answer(request))

    async def _register_broker(self, request: RegisterBrokerRequest) -> RegisterBrokerResponse:
        def decide(active: Tenure, departed: int | None) -> Outcome[RegisterBrokerResponse]:
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
                departed=departed,
                last_heard_ms=self._last_heard_ms(active, request.broker_id),
            )
            registered = outcome.response
            if (
                outcome.first is None
                and registered.error is ErrorCode.NONE
                and (held is None or held.epoch != registered.broker_epoch)
            ):
                active.sessions.begin(request.broker_id, now=now)
                log.info(
                    "broker registered",
                    broker_id=request.broker_id,
                    broker_epoch=registered.broker_epoch,
                    # Of the life before: whether it may have left records unsynced that are lost.
                    previous="none"
                    if held is None
                    else "complete"
                    if held.has_data_of(request.previous_broker_epoch)
                    else "may have lost records",
                )
            return outcome

        return await self._perform(decide, RegisterBrokerResponse)

    async def _heartbeat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        if self._active is not None:
            # On arrival: it may have to wait for its turn.
            self._touch(self._active, request)

        def decide(active: Tenure, _: int | None) -> Outcome[BrokerHeartbeatResponse]:
            now = trio.current_time()
            held = active.image.broker(request.broker_id)
            sessions = active.sessions
            leaves = active.chores.leaves(request.broker_id)
            return_offset = -1
            if held is not None and held.fenced and not leaves:
                return_offset = sessions.return_offset(held.broker_id, offset=active.image.offset, now=now)
            return heartbeat(
                active.image,
                request,
                return_offset=return_offset,
                shutdown_offset=sessions.shutdown_offset(request.broker_id),
                lowest_active_offset=sessions.lowest_active_offset(active.image),
                leaves=leaves,
                now_ms=None if self._wall_clock is None else self._wall_clock.now_ms(),
            )

        def answer(active: Tenure, response: BrokerHeartbeatResponse) -> BrokerHeartbeatResponse:
            in_isrs = active.image.isr_count(request.broker_id) > 0
            held = active.image.broker(request.broker_id)
            if response.error is not ErrorCode.NONE or held is None:
                return response
            if response.should_shut_down:
                if in_isrs:
                    # Leaders wait for it until it has left: it may ask again.
                    return replace(response, should_shut_down=False)
                active.sessions.forget(request.broker_id)
            elif held.in_controlled_shutdown and not held.fenced and not in_isrs:
                # The last record there is: brokers report offsets of records.
                active.sessions.fix_shutdown_offset(
                    request.broker_id, offset=active.image.offset, now=trio.current_time()
                )
            return response

        return await self._perform(decide, BrokerHeartbeatResponse, answer=answer)

    def _touch(self, active: Tenure, request: BrokerHeartbeatRequest) -> None:
        held = active.image.broker(request.broker_id)
        if held is not None and held.epoch == request.broker_epoch:
            active.sessions.touch(
                request.broker_id, now=trio.current_time(), metadata_offset=request.current_metadata_offset
            )
            self._progress.heard(request, now=trio.current_time())

    async def _unregister_broker(self, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
        def decide(active: Tenure, departed: int | None) -> Outcome[UnregisterBrokerResponse]:
            outcome = unregister_broker(
                active.image,
                request,
                departed=departed,
                last_heard_ms=self._last_heard_ms(active, request.broker_id),
            )
            if outcome.first is None and outcome.response.error is ErrorCode.NONE:
                active.sessions.forget(request.broker_id)
            return outcome

        return await self._perform(decide, UnregisterBrokerResponse)

    async def _alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        seen: set[PartitionKey] = set()
        answers = await self.perform_portions(
            request.partitions,
            lambda part, image: alter_partition(
                image, replace(request, partitions=part), static=self._settings.static, seen=seen
            ),
            AlterPartitionResponse,
        )
        return replace(answers[-1], partitions=joined(each.partitions for each in answers))

    async def _assign_replicas_to_dirs(
        self, request: AssignReplicasToDirsRequest
    ) -> AssignReplicasToDirsResponse:
        seen: set[PartitionKey] = set()
        answers = await self.perform_portions(
            request.assignments,
            lambda part, image: assign_replicas_to_dirs(
                image,
                replace(request, assignments=part),
                static=self._settings.static,
                asked=len(request.assignments),
                seen=seen,
            ),
            AssignReplicasToDirsResponse,
        )
        return replace(answers[-1], results=joined(each.results for each in answers))

    async def _create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        defaults = self._settings.topic_defaults
        asked = Counter(topic.name for topic in request.topics)
        too_many = asks_too_much(request, defaults)
        quota = self.mutations.of(request.who)

        def steps(part: tuple[NewTopic, ...], image: MetadataImage) -> Steps[Outcome[CreateTopicsResponse]]:
            draws = [
                Draw(
                    topic_id=self._entropy.uuid(),
                    start=self._entropy.below(_DRAW_LIMIT),
                    shift=self._entropy.below(_DRAW_LIMIT),
                )
                for _ in part
            ]
            return create_topics(
                image,
                replace(request, topics=part),
                draws=draws,
                defaults=defaults,
                asked=asked,
                too_many=too_many,
                charge=quota.charge,
            )

        answers = await self.perform_portions(
            request.topics,
            lambda part, image: at_once(steps(part, image)),
            CreateTopicsResponse,
            cost=(lambda topic: 1) if too_many else defaults.partitions_of,
            steps=steps,
        )
        return replace(
            answers[-1],
            topics=joined_once(each.topics for each in answers),
            throttle_ms=quota.throttle_ms,
        )

    async def _allocate_producer_ids(
        self, request: AllocateProducerIdsRequest
    ) -> AllocateProducerIdsResponse:
        return await self.perform_on_image(
            lambda image: allocate_producer_ids(image, request), AllocateProducerIdsResponse
        )

    # One operation

    async def perform_portions(
        self,
        items: Sequence[T],
        decide: Callable[[tuple[T, ...], MetadataImage], Outcome[R]],
        refuse: type[R],
        *,
        cost: Callable[[T], int] | None = None,
        steps: Callable[[tuple[T, ...], MetadataImage], Steps[Outcome[R]]] | None = None,
    ) -> list[R]:
        """The answers for `items`, some at a time; the error alone where a portion was refused. `steps`: as
        `decide`, for an item that costs more than one step may."""
        answers: list[R] = []
        most = self._settings.partitions_per_step
        for part in portions(items, most=most, cost=cost):
            if steps is not None and cost is not None and sum(map(cost, part)) > most:
                answer = await self.perform_in_pieces(partial(steps, part), refuse)
            else:
                answer = await self.perform_on_image(partial(decide, part), refuse)
            if answer.error is ErrorCode.NOT_CONTROLLER and answers:
                # Of the earlier ones something may have happened.
                answer = leadership_lost(refuse, wrote=True)
            if answer.error:
                return [answer]
            answers.append(answer)
        return answers

    async def perform_on_image(self, decide: Callable[[MetadataImage], Outcome[R]], refuse: type[R]) -> R:
        return await self._perform(lambda active, _: decide(active.image), refuse)

    async def _perform(
        self,
        decide: Callable[[Tenure, int | None], Outcome[R]],
        refuse: type[R],
        *,
        answer: Callable[[Tenure, R], R] | None = None,
    ) -> R:
        """`decide` is called once more if a broker has to leave its ISRs first, then with the epoch of the
        broker that did. `answer`: the last word on the answer, with everything applied that could be at
        once."""
        active = self._active
        if active is None:
            return _not_controller(refuse)
        before, departed = active.last, None
        while True:
            await active.wait_turn()
            if self._active is not active:
                return leadership_lost(refuse, wrote=active.last is not before)
            try:
                with self._measured():
                    outcome = decide(active, departed)
                    response = outcome.response
                    active.append(outcome.groups)
                    self._begin_chores(active)
                    if answer is not None:
                        response = answer(active, response)
            except Exception as error:
                return self._refusal(active, error, refuse, wrote=active.last is not before)
            if outcome.first is None:
                break
            if not await self._departed(active, outcome.first):
                return leadership_lost(refuse, wrote=active.last is not before)
            departed = outcome.first.broker_epoch
        wrote = active.last is not before
        if not await self._committed(active):
            return leadership_lost(refuse, wrote=wrote)
        return response

    async def perform_in_pieces(
        self, decide: Callable[[MetadataImage], Steps[Outcome[R]]], refuse: type[R]
    ) -> R:
        """An operation that decides, and writes, too much for one step; each group is a transaction. Others
        wait for their turn until it has been written. If it is cancelled before that, nothing happened."""
        active = self._active
        if active is None:
            return _not_controller(refuse)
        wrote = False
        try:
            # Who waited for an earlier one comes first.
            await trio.lowlevel.checkpoint()
            async with active.alone():
                outcome = await in_slices(decide(active.image))
                self._check_active(active)
                for group in outcome.groups:
                    with active.transaction(refuse.__name__.removesuffix("Response")):
                        for piece in portions(group, most=self._settings.partitions_per_step):
                            with self._measured():
                                active.append(tuple((record,) for record in piece))
                            await active.keep_up()
                            await trio.lowlevel.checkpoint()
                            self._check_active(active)
                    wrote = True
                self._begin_chores(active)
        except Exception as error:
            return self._refusal(active, error, refuse, wrote=wrote)
        return outcome.response if await self._committed(active) else leadership_lost(refuse, wrote=wrote)

    def _check_active(self, active: Tenure) -> None:
        """Raises `NotLeaderError` if its time has ended."""
        if self._active is not active:
            raise NotLeaderError(leader=None, epoch=active.epoch)

    def _refusal(self, active: Tenure, error: Exception, refuse: type[R], *, wrote: bool) -> R:
        """The answer to an operation that ended with `error`, and the end of a leadership that it ends."""
        match error:
            case TooLargeError():
                return refuse(error=ErrorCode.POLICY_VIOLATION, error_message=str(error))
            case NotLeaderError() | OutcomeUnknownError() | QuorumStoppedError():
                self._lost(active)
                return leadership_lost(refuse, wrote=wrote)
            case _:
                self._failed(active)
                return refuse(
                    error=ErrorCode.UNKNOWN_SERVER_ERROR,
                    error_message="The controller failed and gave up its leadership.",
                )

    @contextmanager
    def _measured(self, *, late_seconds: float = 0.0) -> Iterator[None]:
        began = trio.current_time()
        try:
            yield
        finally:
            self._telemetry.performed(late_seconds=late_seconds, busy_seconds=trio.current_time() - began)

    async def _committed(self, active: Tenure) -> bool:
        """Wait until everything appended so far is committed; whether it is."""
        try:
            committed = await active.wait_committed()
        except _LEADERSHIP_LOST:
            committed = False
        except trio.Cancelled:
            self._telemetry.given_up()
            raise
        if not committed:
            self._lost(active)
        return committed

    def _guarded(self, active: Tenure, work: Callable[[], object], *, due: float | None = None) -> None:
        """Do what nobody asked for. `due`: when it should begin (s); now by default."""
        try:
            with self._measured(late_seconds=0.0 if due is None else trio.current_time() - due):
                work()
        except _LEADERSHIP_LOST:
            self._lost(active)
        except Exception:
            self._failed(active)

    def _failed(self, active: Tenure) -> None:
        # Our bug. Its image can't be trusted from here on; another node's may be (KAFKA-13104).
        log.exception("the active controller failed", epoch=active.epoch)
        self._telemetry.failed()
        self._lost(active)

    def _lost(self, active: Tenure) -> None:
        if self._active is active:
            self.deactivate()
            self._log.resign()


def _not_controller(refuse: type[R]) -> R:
    return refuse(error=ErrorCode.NOT_CONTROLLER, error_message="This node is not the active controller.")
