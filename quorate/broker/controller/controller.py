"""The active controller: operations one after the other, on an image ahead of what is committed.

Each step of an operation decides, is applied and takes its place in the log in one stretch without a pause,
so that the next one sees what it did. No step is longer than some milliseconds: what concerns many partitions
is done in pieces, by `ChoreWork`, and whoever needs the outcome waits for it (`chores`). A topic of many
partitions is decided and appended in pieces too, which a transaction makes one change; everybody else waits
for their turn meanwhile (`Tenure.alone`). An answer waits until
everything that it was decided from is committed. A controller that loses leadership throws its image away:
nothing of it was said to anybody.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Final, TypeVar, cast

import trio

from quorate.broker.controller.administration import Administration
from quorate.broker.controller.broker_requests import BrokerRequests
from quorate.broker.controller.broker_tending import BrokerTending
from quorate.broker.controller.chore_work import ChoreWork
from quorate.broker.controller.controller_settings import ControllerSettings
from quorate.broker.controller.controller_telemetry import ControllerTelemetry, NoControllerTelemetry
from quorate.broker.controller.liveness import BrokerProgress, BrokerWatch
from quorate.broker.controller.metadata_log import MetadataLog
from quorate.broker.controller.mutation_quotas import MutationQuotas
from quorate.broker.controller.operations import (
    Departure,
    Draw,
    Outcome,
    asks_too_much,
    create_topics,
    partitions_asked_for,
)
from quorate.broker.controller.packing import TooLargeError
from quorate.broker.controller.portions import joined_once, portions
from quorate.broker.controller.rpc import (
    BrokerHeartbeatRequest,
    ControllerRequest,
    ControllerResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    NewTopic,
    Refusal,
    RpcDecodeError,
    decode_request,
    encode_response,
)
from quorate.broker.controller.tenure import LEADERSHIP_LOST, Tenure, leadership_lost, not_controller
from quorate.broker.metadata import MetadataImage
from quorate.error_code import ErrorCode
from quorate.raft import Caller, NotLeaderError, OutcomeUnknownError, QuorumStoppedError
from quorate.runtime import Entropy, Slices, Steps, WallClock, at_once, get_logger, in_slices
from quorate.types import Epoch

log = get_logger(__name__)

_DRAW_LIMIT: Final = 1 << 30


T = TypeVar("T")
R = TypeVar("R", bound=ControllerResponse)


class Controller:
    """The controller of one node. It answers NOT_CONTROLLER before `activate` and after `deactivate`. All
    methods belong to one trio run. A cancelled request may have taken effect."""

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
        self.settings = settings
        self._entropy = entropy
        self._watch = watch
        self._wall_clock = wall_clock
        self._progress = progress or BrokerProgress()
        self._active: Tenure | None = None
        self.mutations = MutationQuotas(lambda: self.image)
        self.chore_work = ChoreWork(lambda: self._active, guarded=self._guarded, lost=self._lost)
        self._tending = BrokerTending(
            lambda: self._active,
            guarded=self._guarded,
            begin_chores=self.chore_work.begin,
            settings=settings,
            telemetry=self._telemetry,
            watch=watch,
            progress=self._progress,
        )
        requests = BrokerRequests(
            self,
            metadata_log,
            cluster_id=settings.cluster_id,
            progress=self._progress,
            wall_clock=wall_clock,
        )
        self.operations: Mapping[
            type[ControllerRequest[ControllerResponse]], Callable[..., Awaitable[ControllerResponse]]
        ] = {
            CreateTopicsRequest: self._create_topics,
            **requests.operations,
            **Administration(self).operations,
        }

    # Leadership

    @property
    def active(self) -> bool:
        """True if this node is the active controller."""
        return self._active is not None

    @property
    def tenure(self) -> Tenure | None:
        """The state of this node as the active controller. None on every other node."""
        return self._active

    @property
    def image(self) -> MetadataImage | None:
        """The image that the next operation uses. On the active controller it is ahead of the committed
        image."""
        return None if self._active is None else self._active.image

    def activate(self, image: MetadataImage, *, epoch: Epoch, in_transaction: bool = False) -> None:
        """Begin to answer as leader of `epoch`. `image`: a copy of the committed image with all records of
        earlier epochs; the controller owns it from here on. `run` finishes what an earlier controller
        began, but a transaction that it left open (`in_transaction`) is aborted."""
        active = self._active = Tenure.begin(
            image, self._log, self.settings, epoch=epoch, wall_clock=self._wall_clock
        )
        log.info("controller is active", epoch=epoch, next_offset=self._log.next_offset)
        self._guarded(active, lambda: self._settle(active, in_transaction=in_transaction))
        if self._watch is not None:
            self._watch.hurry()

    def deactivate(self) -> None:
        """Stop answering, and forget uncommitted changes. Requests that wait for a commit are answered
        when the quorum reports the lost leadership."""
        if self._active is not None:
            log.info("controller is no longer active", epoch=self._active.epoch)
            active, self._active = self._active, None
            active.chores.give_up()
            self._progress.forget()

    async def run(self) -> None:
        """Fence silent brokers, elect preferred leaders, and finish the chores of operations. Runs until
        cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.chore_work.run)
            await self._tending.run()

    def _settle(self, active: Tenure, *, in_transaction: bool) -> None:
        active.settle(in_transaction=in_transaction)
        self.chore_work.begin(active)

    # What operations leave to be done

    async def _departed(self, active: Tenure, departure: Departure) -> bool:
        """Wait until the broker has left; whether it has."""
        chore = active.chores.depart(departure)
        self.chore_work.begin(active)
        if not chore.finished.is_set():
            await chore.finished.wait()
        return self._active is active

    async def settled(self) -> bool:
        """Wait until the consequences of settings are done. Return whether they are."""
        active = self._active
        if active is None:
            return False
        for chore in active.chores.of_settings():
            await chore.finished.wait()
        return self._active is active and await self._committed(active)

    # Operations

    async def answer(self, request: ControllerRequest[R]) -> R:
        """Carry out `request`. Return its answer when every change that it depends on is committed."""
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

    async def _create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        defaults = self.settings.topics
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
            cost=lambda topic: 1 if too_many else partitions_asked_for(topic, defaults),
            steps=steps,
        )
        return replace(
            answers[-1],
            topics=joined_once((each.topics for each in answers), attrgetter("name")),
            throttle_ms=quota.throttle_ms,
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
        """Return the answers for `items`, which are decided in portions; for a refused portion the error
        alone. `steps`: as `decide`, for an item that costs more than one step may."""
        answers: list[R] = []
        most = self.settings.tuning.partitions_per_step
        slices = Slices()
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
            # What writes nothing waits for nothing.
            await slices.pause()
        return answers

    async def perform_on_image(self, decide: Callable[[MetadataImage], Outcome[R]], refuse: type[R]) -> R:
        """Perform an operation that depends on the image alone."""
        return await self.perform(lambda active, _: decide(active.image), refuse)

    async def perform(
        self,
        decide: Callable[[Tenure, int | None], Outcome[R]],
        refuse: type[R],
        *,
        answer: Callable[[Tenure, R], R] | None = None,
    ) -> R:
        """Perform an operation. If a broker must leave its ISRs first, `decide` is called again with that
        broker's epoch. `answer`: completes the response after all possible changes are applied."""
        active = self._active
        if active is None:
            return not_controller(refuse)
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
                    self.chore_work.begin(active)
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
        """Perform an operation that decides and writes too much for one step. Each group is a transaction.
        Other operations wait until it is written. If it is cancelled before that, nothing happened."""
        active = self._active
        if active is None:
            return not_controller(refuse)
        wrote = False
        try:
            # Who waited for an earlier one comes first.
            await trio.lowlevel.checkpoint()
            async with active.alone():
                outcome = await in_slices(decide(active.image))
                self._check_active(active)
                for group in outcome.groups:
                    with active.transaction(refuse.__name__.removesuffix("Response")):
                        for piece in portions(group, most=self.settings.tuning.partitions_per_step):
                            with self._measured():
                                active.append(tuple((record,) for record in piece))
                            await active.keep_up()
                            await trio.lowlevel.checkpoint()
                            self._check_active(active)
                    wrote = True
                self.chore_work.begin(active)
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
        except LEADERSHIP_LOST:
            committed = False
        except trio.Cancelled:
            self._telemetry.given_up()
            raise
        if not committed:
            self._lost(active)
        return committed

    def _guarded(self, active: Tenure, work: Callable[[], object], *, due: float | None = None) -> None:
        """Do `work` that no request asked for. `due`: its due time (s); None: now."""
        try:
            with self._measured(late_seconds=0.0 if due is None else trio.current_time() - due):
                work()
        except LEADERSHIP_LOST:
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
