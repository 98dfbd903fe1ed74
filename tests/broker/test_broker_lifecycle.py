"""When a broker speaks to its controller."""

import itertools
import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from quorate.broker.controller.rpc.rpc import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
)
from quorate.broker.controller_channel import ControllerTimedOutError
from quorate.broker.lifecycle import BrokerLifecycle, ControllerContact, Identity, LifecycleTimes
from quorate.broker.replication.changes import ChangeSummary
from quorate.broker.replication.storage.directory_files import NO_PROOF

INTERVAL_S, SESSION_S = 2.0, 9.0


class Controller:
    """Answers at once, or not at all."""

    def __init__(self) -> None:
        self.heartbeats: list[tuple[float, bool]] = []
        """When each came, and whether the broker wants to stop."""
        self.lost = 0
        """So many of the next answers get lost."""

    async def ask(self, request: Any, *, timeout_seconds: float) -> Any:
        await trio.lowlevel.checkpoint()
        if isinstance(request, RegisterBrokerRequest):
            return RegisterBrokerResponse(broker_epoch=7)
        assert isinstance(request, BrokerHeartbeatRequest)
        self.heartbeats.append((trio.current_time(), request.want_shut_down))
        if self.lost:
            self.lost -= 1
            await trio.sleep(timeout_seconds)
            raise ControllerTimedOutError("no answer")
        return BrokerHeartbeatResponse(should_shut_down=request.want_shut_down)


def lifecycle(controller: Controller) -> BrokerLifecycle:
    metadata: Any = SimpleNamespace(
        subscribe=lambda listener: None, image=SimpleNamespace(broker=lambda broker_id: None)
    )
    nothing: Callable[..., Any] = lambda *_: None  # noqa: E731
    channel: Any = controller
    return BrokerLifecycle(
        Identity(broker_id=1, cluster_id="c", incarnation_id=uuid.UUID(int=1), listeners=(), rack=None),
        times=LifecycleTimes(
            heartbeat_interval=INTERVAL_S,
            session_timeout=SESSION_S,
            registration_timeout=60,
            directory_failure_timeout=30,
        ),
        channel=channel,
        metadata=metadata,
        contact=ControllerContact(),
        log_dirs=lambda: (),
        failed_dirs=lambda: (),
        proof=NO_PROOF,
        changes=ChangeSummary,
        registered=nothing,
        told=nothing,
    )


@pytest.mark.bug("KAFKA-13167")
async def test_the_wish_to_stop_does_not_wait_for_the_next_heartbeat(autojump_clock: object) -> None:
    controller = Controller()
    async with trio.open_nursery() as nursery:
        broker = lifecycle(controller)
        nursery.start_soon(broker.run)
        await trio.sleep(5 * INTERVAL_S + 0.1)
        asked_at = trio.current_time()
        await broker.shut_down()
        assert trio.current_time() - asked_at < 0.1
    assert controller.heartbeats[-1][1]


@pytest.mark.bug("KAFKA-19294")
async def test_one_lost_answer_costs_no_session(autojump_clock: object) -> None:
    controller = Controller()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lifecycle(controller).run)
        await trio.sleep(10)
        controller.lost = 1
        await trio.sleep(30)
        nursery.cancel_scope.cancel()
    came = [at for at, _ in controller.heartbeats]
    longest = max(later - earlier for earlier, later in itertools.pairwise(came))
    assert longest < SESSION_S - INTERVAL_S, f"the controller heard nothing for {longest:.1f} s"
