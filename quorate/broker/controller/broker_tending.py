"""The active controller's work on brokers that no request asks for.

It fences brokers that are silent or whose process has ended, logs those that are behind, and returns leaders
to the brokers that should lead.
"""

from functools import partial
from typing import Final

import trio

from quorate.broker.controller.controller_telemetry import ControllerTelemetry
from quorate.broker.controller.liveness.broker_progress import BrokerProgress
from quorate.broker.controller.liveness.broker_watch import BrokerWatch
from quorate.broker.controller.operations.brokers import fence_broker
from quorate.broker.controller.performer import Performer
from quorate.broker.controller.tenure import Tenure
from quorate.broker.metadata.metadata_records import ChangeReason
from quorate.runtime import get_logger

log = get_logger(__name__)

FENCING_THE_DEAD: Final = "fencing a broker whose process is gone"
"""The event of a log line. The simulation compares it with the processes that run."""
_MAX_LEADER_MOVES: Final = 1000
"""The leaders moved by one rebalance, so that it does not swamp the brokers."""


class BrokerTending:
    """The active controller's own work on brokers. Its tasks act on the tenure that there is when they wake
    up."""

    def __init__(
        self,
        performer: Performer,
        *,
        telemetry: ControllerTelemetry,
        watch: BrokerWatch | None,
        progress: BrokerProgress,
    ) -> None:
        self._performer = performer
        self._settings = performer.settings
        self._telemetry = telemetry
        self._watch = watch
        self._progress = progress

    async def run(self) -> None:
        """Tend the brokers until cancelled."""
        async with trio.open_nursery() as nursery:
            if self._watch is not None:
                nursery.start_soon(self._watch.run, self._fence_ended)
            await self._tend_in_turns()

    async def _tend_in_turns(self) -> None:
        interval = self._settings.tuning.broker_session_timeout_ms / 1000 / 10
        while True:
            due = trio.current_time() + interval
            await trio.sleep_until(due)
            active = self._performer.tenure
            if active is not None:
                await active.wait_turn()
                if self._performer.tenure is active:
                    self._performer.guarded(active, partial(self._tend, active, interval), due=due)

    def _tend(self, active: Tenure, interval: float) -> None:
        self._fence_silent(active, interval)
        self._log_brokers_behind()
        balance = self._settings.balance
        if balance.auto_leader_rebalance_enable and trio.current_time() >= active.rebalance_at:
            least = balance.leader_imbalance_per_broker_percentage / 100
            image = active.image
            brokers = frozenset(
                each for each in image.brokers if image.is_active(each) and image.imbalance(each) > least
            )
            if brokers:
                active.chores.prefer(most=_MAX_LEADER_MOVES, brokers=brokers)
                self._performer.begin_chores(active)
            active.rebalance_at = trio.current_time() + balance.leader_imbalance_check_interval_seconds

    def _log_brokers_behind(self) -> None:
        for each in self._progress.newly_behind(
            now=trio.current_time(), patience=self._settings.tuning.patience_s
        ):
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
        self._performer.begin_chores(active)

    async def _fence_ended(self, broker_id: int, broker_epoch: int) -> None:
        """Fence a registration whose process has ended, if this controller is active."""
        active, watch = self._performer.tenure, self._watch
        if active is None or watch is None:
            return
        await active.wait_turn()
        # It may have been heard meanwhile.
        if self._performer.tenure is active and watch.process_ended(broker_id, broker_epoch):
            self._performer.guarded(active, lambda: self._fence_dead(active, broker_id, broker_epoch))

    def _fence_dead(self, active: Tenure, broker_id: int, broker_epoch: int) -> None:
        held = active.image.broker(broker_id)
        if held is None or held.fenced or held.epoch != broker_epoch:
            return
        log.warning(FENCING_THE_DEAD, broker_id=broker_id, broker_epoch=broker_epoch, epoch=active.epoch)
        active.sessions.end(broker_id)
        self._fence(active, broker_id, ChangeReason.BROKER_GONE)
        self._performer.begin_chores(active)

    def _fence(self, active: Tenure, broker_id: int, reason: ChangeReason) -> None:
        last_heard_ms = active.sessions.last_heard_ms(broker_id, now=trio.current_time())
        active.append(fence_broker(active.image, broker_id, reason=reason, last_heard_ms=last_heard_ms))
