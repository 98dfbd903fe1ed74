"""When a broker speaks to its controller."""

import itertools
import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from quorate.broker.controller.rpc import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
)
from quorate.broker.controller_channel import ControllerTimedOutError
from quorate.broker.lifecycle import BrokerLifecycle, ControllerContact, Identity, LifecycleTimes
from quorate.broker.replication.hosting.state_changes import ChangeSummary
from quorate.broker.replication.storage.proofs import NO_PROOF, Proof
from quorate.error_code import ErrorCode

INTERVAL_S, SESSION_S = 2.0, 9.0
DIRECTORY = uuid.UUID(int=200)


class Controller:
    """Answers at once, or not at all."""

    def __init__(self) -> None:
        self.heartbeats: list[tuple[float, bool]] = []
        """When each came, and whether the broker wants to stop."""
        self.lost = 0
        """So many of the next answers get lost."""
        self.replaced = 0
        """So many of the next heartbeats find that another incarnation took the broker's place."""
        self.proven: list[int] = []
        """What each registration proved: the broker epoch of an earlier life, or -1."""

    async def ask(self, request: Any, *, timeout_seconds: float, asker: object = None) -> Any:
        await trio.lowlevel.checkpoint()
        if isinstance(request, RegisterBrokerRequest):
            self.proven.append(request.previous_broker_epoch)
            return RegisterBrokerResponse(broker_epoch=7)
        assert isinstance(request, BrokerHeartbeatRequest)
        self.heartbeats.append((trio.current_time(), request.want_shut_down))
        if self.replaced:
            self.replaced -= 1
            return BrokerHeartbeatResponse(error=ErrorCode.STALE_BROKER_EPOCH)
        if self.lost:
            self.lost -= 1
            await trio.sleep(timeout_seconds)
            raise ControllerTimedOutError("no answer")
        return BrokerHeartbeatResponse(should_shut_down=request.want_shut_down)


def lifecycle(
    controller: Controller,
    *,
    proof: Proof = NO_PROOF,
    metadata: Any = None,
    log_dirs: Callable[[], tuple[uuid.UUID, ...]] = lambda: (DIRECTORY,),
) -> BrokerLifecycle:
    metadata = metadata or SimpleNamespace(
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
        log_dirs=log_dirs,
        failed_dirs=lambda: (),
        proof=proof,
        changes=ChangeSummary,
        registered=nothing,
        reported=nothing,
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


@pytest.mark.parametrize(("was_active", "proven"), [(False, [5, 5]), (True, [5, -1])])
async def test_a_broker_proves_what_it_has_until_it_is_active(
    was_active: bool, proven: list[int], autojump_clock: object
) -> None:
    """A registration that an earlier process sent may arrive late and take the place of this one's."""
    controller = Controller()
    own = SimpleNamespace(incarnation_id=uuid.UUID(int=1), fenced=not was_active, epoch=7)
    image = SimpleNamespace(broker=lambda broker_id: own)
    listeners: list[Callable[[object, object], None]] = []
    metadata = SimpleNamespace(subscribe=listeners.append, image=image)
    async with trio.open_nursery() as nursery:
        broker = lifecycle(controller, proof=Proof(5, frozenset()), metadata=metadata)
        nursery.start_soon(broker.run)
        await trio.sleep(INTERVAL_S)
        listeners[0](SimpleNamespace(brokers=(own,)), image)
        controller.replaced = 1
        await trio.sleep(3 * INTERVAL_S)
        nursery.cancel_scope.cancel()
    assert controller.proven == proven


async def test_a_broker_whose_directories_have_all_failed_does_not_register_again(
    autojump_clock: object,
) -> None:
    """It was refused with "No directories specified in request", and ended with that instead of saying that
    its disk has failed (seed 9304073)."""
    controller = Controller()
    works = [DIRECTORY]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lifecycle(controller, log_dirs=lambda: tuple(works)).run)
        await trio.sleep(INTERVAL_S)
        works.clear()
        controller.replaced = 1
        await trio.sleep(3 * INTERVAL_S)
        nursery.cancel_scope.cancel()
    assert (controller.replaced, len(controller.proven)) == (0, 1)
