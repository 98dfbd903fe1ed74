"""A watch over the processes of brokers: a broker whose process was killed is fenced without waiting for its
session.

Every controller, active or not, holds an idle connection to each address of every unfenced broker. When one
ends, it dials the address again, a few times in quick succession. When a refusal completes the evidence
(`process_evidence`), it asks its controller to fence that registration; only the active one does. Standbys
watch too, so that a new controller knows the addresses that worked, and finds brokers that died with the last
one without waiting for their sessions.

Soft state: it is not in the log, and it decides only how early a dead broker is fenced.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import trio

from quorate.broker.controller.liveness.process_evidence import ProcessEvidence
from quorate.broker.metadata.delta import MetadataDelta
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.states import BrokerState
from quorate.raft import Caller
from quorate.runtime import Address, ConnectRefusedError, Network, NetworkError, Stream, Tasks

_DIALS_MAX: Final = 4
"""The number of dials at once, and of those that confirm a death: they must not wait for silent hosts."""
_DIAL_SECONDS: Final = 1.0
_QUICK_PAUSE_SECONDS: Final = 0.05
_QUICK_DIALS: Final = 8
_PAUSE_MAX_SECONDS: Final = 1.0
_SHORT_SECONDS: Final = 1.0
"""A connection that ends sooner is not opened again at once: the broker may have no room for it."""
_RENEWAL_SECONDS: Final = 300.0
"""Half of the time that a broker keeps a silent connection (`connections.max.idle.ms`)."""

Fence = Callable[[int, int], Awaitable[None]]
"""Fences a registration whose process has ended, by broker id and broker epoch."""


@dataclass(slots=True)
class _Watched:
    registration: BrokerState
    evidence: ProcessEvidence
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    hurry: trio.Event = field(default_factory=trio.Event)


class BrokerWatch:
    """One controller's watch over broker processes. Call `changed` with every change of metadata."""

    def __init__(self, network: Network, *, own_id: int, confirm_s: float) -> None:
        """`own_id`: the broker that shares the controller's process is not watched. `confirm_s`: the time
        that an address must refuse."""
        self._network = network
        self._own_id = own_id
        self._confirm_s = confirm_s
        self._watched: dict[int, _Watched] = {}
        self._tasks = Tasks()
        self._opening = trio.CapacityLimiter(_DIALS_MAX)
        self._confirming = trio.CapacityLimiter(_DIALS_MAX)
        self._fence: Fence | None = None

    async def run(self, fence: Fence) -> None:
        """Dial until cancelled. `fence` is called repeatedly while a process has ended and its
        registration is not fenced."""
        self._fence = fence
        async with self._tasks.running():
            await trio.sleep_forever()

    def changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Watch the unfenced brokers of `image`, the result of `delta`."""
        for each in delta.brokers:
            self._look(each.broker_id, image.broker(each.broker_id))

    def _look(self, broker_id: int, broker: BrokerState | None) -> None:
        held = self._watched.get(broker_id)
        if broker is not None and (broker.fenced or broker_id == self._own_id):
            broker = None
        if held is not None and (broker is None or not _same(held.registration, broker)):
            held.scope.cancel()
            del self._watched[broker_id]
            held = None
        if broker is not None and held is None and not self._tasks.ended:
            watched = self._watched[broker_id] = _Watched(broker, ProcessEvidence(confirm_s=self._confirm_s))
            self._tasks.start(partial(self._watch, watched))

    def heard(self, broker_id: int, broker_epoch: int, caller: Caller | None) -> None:
        """Record a heartbeat of that registration."""
        watched = self._watched.get(broker_id)
        if watched is not None and watched.registration.epoch == broker_epoch:
            watched.evidence.heard(caller)

    def hurry(self) -> None:
        """Dial the listeners that do not answer at once, because this controller is now active. Earlier
        refusals don't count: living brokers had no reason to be heard here."""
        for watched in self._watched.values():
            watched.evidence.ask_again()
            woken, watched.hurry = watched.hurry, trio.Event()
            woken.set()

    def process_ended(self, broker_id: int, broker_epoch: int) -> bool:
        """Return whether the process of that registration is known to have ended."""
        watched = self._watched.get(broker_id)
        return (
            watched is not None
            and watched.registration.epoch == broker_epoch
            and watched.evidence.process_ended(now=trio.current_time())
        )

    async def _watch(self, watched: _Watched) -> None:
        with watched.scope:
            async with trio.open_nursery() as nursery:
                for number, endpoint in enumerate(watched.registration.listeners):
                    address = Address(endpoint.host, endpoint.port)
                    nursery.start_soon(self._watch_address, watched, number, address)

    async def _watch_address(self, watched: _Watched, number: int, address: Address) -> None:
        attempts = 0
        while True:
            hurry = watched.hurry
            if await self._visit(watched, number, address):
                attempts = 0
                continue
            attempts += 1
            with trio.move_on_after(_pause(attempts)):
                await hurry.wait()
                attempts = 0

    async def _visit(self, watched: _Watched, number: int, address: Address) -> bool:
        """One connection's life; False if it could not be opened, or ended soon."""
        evidence = watched.evidence
        try:
            async with self._confirming if evidence.reached(number) else self._opening:
                with trio.fail_after(_DIAL_SECONDS):
                    stream = await self._network.connect(address)
        except ConnectRefusedError:
            evidence.refused(number, now=trio.current_time())
            broker = watched.registration
            if self._fence is not None and self.process_ended(broker.broker_id, broker.epoch):
                await self._fence(broker.broker_id, broker.epoch)
            return False
        except (NetworkError, trio.TooSlowError):
            evidence.unclear(number)
            return False
        evidence.accepted(number)
        opened_at = trio.current_time()
        await _hold(stream)
        return trio.current_time() - opened_at >= _SHORT_SECONDS


async def _hold(stream: Stream) -> None:
    """Return when the connection ends, or should be opened anew."""
    try:
        with trio.move_on_after(_RENEWAL_SECONDS):
            while await stream.receive_some():
                pass
    except NetworkError:
        pass
    finally:
        stream.close()


def _pause(attempts: int) -> float:
    """Seconds until the next dial, after so many that led to nothing lasting."""
    return float(min(_PAUSE_MAX_SECONDS, _QUICK_PAUSE_SECONDS * 2 ** max(0, attempts - _QUICK_DIALS)))


def _same(before: BrokerState, after: BrokerState) -> bool:
    """Return whether both are one process at the same addresses."""
    return (before.epoch, before.listeners) == (after.epoch, after.listeners)
