"""Operations one after the other, on an image ahead of the committed one.

Each step of an operation decides, is applied and takes its place in the log without a pause, so that the next
operation sees what it did. No step is longer than some milliseconds: the consequences in many partitions are
chores, done in pieces, and an operation that needs them waits. A topic of many partitions is decided and
appended in pieces too. A transaction makes these one change, and other operations wait for their turn
meanwhile (`Tenure.alone`). An answer waits until all records that it was decided from are committed.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias, TypeVar

import trio

from quorate.broker.controller.controller_settings import ControllerSettings
from quorate.broker.controller.controller_telemetry import ControllerTelemetry
from quorate.broker.controller.liveness.broker_progress import BrokerProgress
from quorate.broker.controller.metadata_log import MetadataLog
from quorate.broker.controller.mutation_quotas import MutationQuotas
from quorate.broker.controller.operations.outcome import Departure, Outcome
from quorate.broker.controller.permits import DeniedError, Permit
from quorate.broker.controller.portions import portions
from quorate.broker.controller.rpc import ControllerRequest, ControllerResponse
from quorate.broker.controller.tenure import LEADERSHIP_LOST, Tenure, TooLargeError
from quorate.broker.metadata.image import MetadataImage
from quorate.error_code import ErrorCode
from quorate.raft import HeardLeader, NotLeaderError, OutcomeUnknownError, QuorumStoppedError
from quorate.runtime import Slices, Steps, WallClock, at_once, get_logger, in_slices
from quorate.types import Epoch

log = get_logger(__name__)

Operations: TypeAlias = Mapping[
    type[ControllerRequest[ControllerResponse]], Callable[..., Awaitable[ControllerResponse]]
]
"""The operations of the controller, by the type of their request."""

T = TypeVar("T")
R = TypeVar("R", bound=ControllerResponse)


class Performer:
    """Carries out operations and chores on the image of this node's tenure, and ends the tenure that loses
    its leadership. It answers NOT_CONTROLLER without one. A cancelled operation may have taken effect."""

    def __init__(
        self,
        metadata_log: MetadataLog,
        *,
        settings: ControllerSettings,
        telemetry: ControllerTelemetry,
        wall_clock: WallClock | None,
        progress: BrokerProgress,
    ) -> None:
        """`progress`: forgets the brokers when a tenure ends."""
        self.log = metadata_log
        self.settings = settings
        self.tenure: Tenure | None = None
        """The state of this node as the active controller. None on every other node."""
        self.mutations = MutationQuotas(lambda: self.image)
        self._telemetry = telemetry
        self._wall_clock = wall_clock
        self._progress = progress
        self._wake = trio.Event()
        self._rested = True
        """True if no piece of a chore was done in this pass of the event loop, and none is waiting."""

    @property
    def image(self) -> MetadataImage | None:
        """The image that the next operation uses. On the active controller it is ahead of the committed
        image."""
        return None if self.tenure is None else self.tenure.image

    # Tenures

    def begin(
        self,
        image: MetadataImage,
        *,
        epoch: Epoch,
        in_transaction: bool,
        predecessor: HeardLeader | None,
    ) -> None:
        """Begin a tenure, with the consequences of records that an earlier controller left undone. `image`: a
        copy of the committed one. `in_transaction`: it left a transaction open, which is aborted.
        `predecessor`: the leader of the quorum before."""
        active = self.tenure = Tenure.begin(
            image,
            self.log,
            self.settings,
            epoch=epoch,
            wall_clock=self._wall_clock,
            predecessor=predecessor,
        )
        log.info("controller is active", epoch=epoch, next_offset=self.log.next_offset)

        def settle() -> None:
            active.settle(in_transaction=in_transaction, first_records=self.settings.first_records)
            self.begin_chores(active)

        self.guarded(active, settle)

    def end(self) -> None:
        """End the tenure, if there is one, and forget uncommitted changes. Requests that wait for a commit
        are answered when the quorum reports the lost leadership."""
        if self.tenure is not None:
            log.info("controller is no longer active", epoch=self.tenure.epoch)
            active, self.tenure = self.tenure, None
            active.chores.give_up()
            self._progress.forget()

    def lose(self, active: Tenure) -> None:
        """End `active`, if it has not ended, so that another node's controller takes over."""
        if self.tenure is active:
            self.end()
            self.log.resign()

    def _fail(self, active: Tenure) -> None:
        # Our bug. Its image can't be trusted from here on; another node's may be (KAFKA-13104).
        log.exception("the active controller failed", epoch=active.epoch)
        self._telemetry.failed()
        self.lose(active)

    def guarded(self, active: Tenure, work: Callable[[], object], *, due: float | None = None) -> None:
        """Do `work` that no request asked for, as one step. `due`: its due time (s); None: now."""
        try:
            with self._measured(late_seconds=0.0 if due is None else trio.current_time() - due):
                work()
        except LEADERSHIP_LOST:
            self.lose(active)
        except Exception:
            self._fail(active)

    @contextmanager
    def _measured(self, *, late_seconds: float = 0.0) -> Iterator[None]:
        began = trio.current_time()
        try:
            yield
        finally:
            self._telemetry.performed(late_seconds=late_seconds, busy_seconds=trio.current_time() - began)

    # Chores

    async def run(self) -> None:
        """Do one piece of the chores in each pass of the event loop. Runs until cancelled."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while (active := self.tenure) is not None and active.chores:
                await trio.lowlevel.checkpoint()
                await active.wait_turn()
                if self.tenure is active:
                    self.guarded(active, active.do_piece)
                    try:
                        await active.keep_up()
                    except LEADERSHIP_LOST:
                        self.lose(active)
            self._rested = True

    def begin_chores(self, active: Tenure) -> None:
        """Do the first piece at once, which is all that there is in a small cluster. `run` does the others, a
        piece in each pass of the event loop, and the first too if there was one in this pass already."""
        if active.chores and self._rested and active.do_piece():
            self._rested = False
        if active.chores or not self._rested:
            self._wake.set()

    async def _departed(self, active: Tenure, departure: Departure) -> bool:
        """Wait until the broker has left. Return False if the tenure ended before."""
        chore = active.chores.depart(departure)
        self.begin_chores(active)
        if not chore.finished.is_set():
            await chore.finished.wait()
        return self.tenure is active

    async def settled(self) -> bool:
        """Wait until the consequences of settings are committed. Return False if the tenure ended before."""
        active = self.tenure
        if active is None:
            return False
        for chore in active.chores.of_settings():
            await chore.finished.wait()
        return self.tenure is active and await self._committed(active)

    # Operations

    async def perform_portions(
        self,
        items: Sequence[T],
        decide: Callable[[tuple[T, ...], MetadataImage], Outcome[R]],
        refuse: type[R],
        *,
        cost: Callable[[T, MetadataImage], int] = lambda item, image: 1,
        permit: Permit,
    ) -> list[R]:
        """Return the answers for `items`, which are decided in portions; for a refused portion the error
        alone. `cost`: an item's share of `partitions_per_step`."""
        most = self.settings.tuning.partitions_per_step
        parts = portions(items, most=most, cost=partial(self._cost, cost))
        return await self._each(
            parts,
            lambda part: self.perform_on_image(partial(decide, part), refuse, permit=permit),
            refuse,
        )

    async def perform_in_steps(
        self,
        items: Sequence[T],
        decide: Callable[[tuple[T, ...], MetadataImage], Steps[Outcome[R]]],
        refuse: type[R],
        *,
        cost: Callable[[T, MetadataImage], int],
        permit: Permit,
    ) -> list[R]:
        """Do the same as `perform_portions` for items that may cost more than one step may."""
        most = self.settings.tuning.partitions_per_step
        cost_now = partial(self._cost, cost)

        async def perform(part: tuple[T, ...]) -> R:
            if sum(map(cost_now, part)) > most:
                return await self._perform_in_pieces(partial(decide, part), refuse, permit)
            return await self.perform_on_image(
                lambda image: at_once(decide(part, image)), refuse, permit=permit
            )

        return await self._each(portions(items, most=most, cost=cost_now), perform, refuse)

    def _cost(self, cost: Callable[[T, MetadataImage], int], item: T) -> int:
        """Return the cost by the present image. Without one every item is refused."""
        return 1 if self.image is None else cost(item, self.image)

    async def _each(
        self,
        parts: Iterable[tuple[T, ...]],
        perform: Callable[[tuple[T, ...]], Awaitable[R]],
        refuse: type[R],
    ) -> list[R]:
        answers: list[R] = []
        slices = Slices()
        for part in parts:
            answer = await perform(part)
            if answer.error is ErrorCode.NOT_CONTROLLER and answers:
                # The earlier ones may have had an effect.
                answer = leadership_lost(refuse, wrote=True)
            if answer.error:
                return [answer]
            answers.append(answer)
            # A portion that writes nothing does not wait for a commit.
            await slices.pause()
        return answers

    async def perform_on_image(
        self, decide: Callable[[MetadataImage], Outcome[R]], refuse: type[R], *, permit: Permit
    ) -> R:
        """Perform an operation that depends on the image alone."""
        return await self.perform(lambda active, _: decide(active.image), refuse, permit=permit)

    async def perform(
        self,
        decide: Callable[[Tenure, int | None], Outcome[R]],
        refuse: type[R],
        *,
        answer: Callable[[Tenure, R], R] | None = None,
        permit: Permit,
    ) -> R:
        """Perform an operation, if `permit` has what the whole request needs by the image that it changes. If
        a broker must leave its ISRs first, `decide` is called again with that broker's epoch. `answer`:
        completes the response after all possible changes are applied."""
        active = self.tenure
        if active is None:
            return not_controller(refuse)
        before, departed = active.last, None
        while True:
            await active.wait_turn()
            if self.tenure is not active:
                return leadership_lost(refuse, wrote=active.last is not before)
            try:
                with self._measured():
                    permit.check()
                    outcome = decide(active, departed)
                    response = outcome.response
                    active.append(outcome.groups)
                    self.begin_chores(active)
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

    async def _perform_in_pieces(
        self, decide: Callable[[MetadataImage], Steps[Outcome[R]]], refuse: type[R], permit: Permit
    ) -> R:
        """Perform an operation that decides and writes too much for one step. Each group is a transaction.
        Other operations wait until it is written. If it is cancelled before that, nothing happened."""
        active = self.tenure
        if active is None:
            return not_controller(refuse)
        wrote = False
        try:
            # Operations that waited for an earlier one come first.
            await trio.lowlevel.checkpoint()
            async with active.alone():
                permit.check()
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
                self.begin_chores(active)
        except Exception as error:
            return self._refusal(active, error, refuse, wrote=wrote)
        return outcome.response if await self._committed(active) else leadership_lost(refuse, wrote=wrote)

    def _check_active(self, active: Tenure) -> None:
        """Raises `NotLeaderError` if the tenure has ended."""
        if self.tenure is not active:
            raise NotLeaderError(leader=None, epoch=active.epoch)

    def _refusal(self, active: Tenure, error: Exception, refuse: type[R], *, wrote: bool) -> R:
        """Return the answer to an operation that ended with `error`, and end the tenure if that ends it."""
        match error:
            case DeniedError():
                return refuse(error=error.code, error_message=str(error))
            case TooLargeError():
                return refuse(error=ErrorCode.POLICY_VIOLATION, error_message=str(error))
            case NotLeaderError() | OutcomeUnknownError() | QuorumStoppedError():
                self.lose(active)
                return leadership_lost(refuse, wrote=wrote)
            case _:
                self._fail(active)
                return refuse(
                    error=ErrorCode.UNKNOWN_SERVER_ERROR,
                    error_message="The controller failed and gave up its leadership.",
                )

    async def _committed(self, active: Tenure) -> bool:
        """Wait until all records appended so far are committed. Return False if the leadership is lost."""
        try:
            committed = await active.wait_committed()
        except LEADERSHIP_LOST:
            committed = False
        except trio.Cancelled:
            self._telemetry.given_up()
            raise
        if not committed:
            self.lose(active)
        return committed


def leadership_lost(refuse: type[R], *, wrote: bool) -> R:
    """Return the answer of a controller that lost its leadership. `wrote`: a record was appended for the
    operation, which the next leader may commit."""
    if wrote:
        return refuse(
            error=ErrorCode.REQUEST_TIMED_OUT,
            error_message="The controller lost its leadership before the change was committed; it may be.",
        )
    return refuse(
        error=ErrorCode.NOT_CONTROLLER, error_message="This node is no longer the active controller."
    )


def not_controller(refuse: type[R]) -> R:
    """Return the answer of a node that is not the active controller."""
    return refuse(error=ErrorCode.NOT_CONTROLLER, error_message="This node is not the active controller.")
