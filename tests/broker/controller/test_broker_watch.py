"""A controller dials brokers, not too often, and reports the dead ones."""

import random
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
import trio

from quorate.broker.controller.liveness.broker_watch import BrokerWatch
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import BrokerEndpoint, BrokerRegistrationChange, RegisterBroker
from quorate.broker.metadata_cache import whole_image
from quorate.runtime.network import Address, ConnectRefusedError, Listener, Network, Stream
from quorate.simulation.world.simulated_network import SimulatedNetwork

CONFIRM_S = 0.15
AT_ONCE_S = 0.3
OWN = 1
VICTIM = 2


class Counted:
    """The network of a node, and the dials that are under way."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.dials = 0
        self.at_once = 0
        self.most = 0

    async def connect(self, address: Address) -> Stream:
        self.dials += 1
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            return await self._network.connect(address)
        finally:
            self.at_once -= 1

    async def listen(self, address: Address) -> Listener:
        return await self._network.listen(address)


@dataclass
class Connection:
    is_closed: bool = False


@dataclass
class Scene:
    net: SimulatedNetwork
    network: Counted
    watch: BrokerWatch
    image: MetadataImage = field(default_factory=MetadataImage)
    fenced: list[tuple[int, int, float]] = field(default_factory=list)

    def apply(self, *records: RegisterBroker | BrokerRegistrationChange) -> None:
        for record in records:
            self.image.apply(record, offset=self.image.offset + 1, epoch=1)
        self.watch.changed(whole_image(self.image), self.image)

    def register(
        self, broker_id: int, *, epoch: int = 7, fenced: bool = False, ports: tuple[int, ...] = (9092,)
    ):
        listeners = tuple(
            BrokerEndpoint(name=f"L{port}", host=f"node-{broker_id}", port=port) for port in ports
        )
        self.apply(
            RegisterBroker(
                broker_id=broker_id,
                incarnation_id=uuid.UUID(int=epoch),
                broker_epoch=epoch,
                listeners=listeners,
                fenced=fenced,
            )
        )

    async def listen(self, broker_id: int, port: int = 9092) -> Listener:
        name = f"node-{broker_id}"
        return await self.net.for_node(name).listen(Address(name, port))

    async def fence(self, broker_id: int, broker_epoch: int) -> None:
        self.fenced.append((broker_id, broker_epoch, trio.current_time()))
        self.apply(BrokerRegistrationChange(broker_id=broker_id, broker_epoch=broker_epoch, fenced=True))

    def kill(self, broker_id: int) -> float:
        self.net.crash_node(f"node-{broker_id}", silent=False)
        return trio.current_time()


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    net = SimulatedNetwork(random.Random(1))
    network = Counted(net.for_node("controller"))
    watch = BrokerWatch(network, own_id=OWN, confirm_s=CONFIRM_S)
    made = Scene(net, network, watch)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run, made.fence)
        yield made
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def watched() -> AsyncIterator[Scene]:
    """The victim listens and has been watched for a while."""
    async with scene() as it:
        await it.listen(VICTIM)
        it.register(VICTIM)
        await trio.sleep(5)
        yield it


async def test_a_broker_that_is_killed_is_reported_once_and_soon(autojump_clock) -> None:
    async with watched() as it:
        killed = it.kill(VICTIM)
        await trio.sleep(5)
        ((broker_id, epoch, at),) = it.fenced
        assert (broker_id, epoch) == (VICTIM, 7)
        assert CONFIRM_S <= at - killed < AT_ONCE_S


async def test_a_broker_on_a_silent_host_is_not_reported(autojump_clock) -> None:
    async with watched() as it:
        it.net.crash_node(f"node-{VICTIM}", silent=True)
        await trio.sleep(60)
        assert it.fenced == []


async def test_a_broker_that_is_cut_off_and_does_not_answer_any_more_is_not_reported(
    autojump_clock,
) -> None:
    """A dial without an answer is no refusal, though the connection broke before."""
    async with watched() as it:
        dials = it.network.dials
        it.net.cut("controller", f"node-{VICTIM}")
        it.net.block("controller", f"node-{VICTIM}")
        await trio.sleep(60)
        assert it.network.dials - dials > 10
        assert it.fenced == []


async def test_a_broker_whose_connections_are_reset_but_not_its_listener_is_not_reported(
    autojump_clock,
) -> None:
    async with scene() as it:
        await it.listen(VICTIM)
        it.register(VICTIM)
        for _ in range(200):
            await trio.sleep(0.05)
            it.net.cut("controller", f"node-{VICTIM}")
        assert it.fenced == []
        assert it.network.dials < 100, "it is dialed less and less often"


@pytest.mark.parametrize("down_s", [0.01, 0.1])
async def test_a_listener_that_is_opened_again_soon_is_not_missed(autojump_clock, down_s: float) -> None:
    async with scene() as it:
        listener = await it.listen(VICTIM)
        it.register(VICTIM)
        await trio.sleep(5)
        listener.close()
        it.net.cut("controller", f"node-{VICTIM}")
        await trio.sleep(down_s)
        await it.listen(VICTIM)
        await trio.sleep(60)
        assert it.fenced == []


async def test_a_listener_that_is_not_open_yet_is_no_dead_broker(autojump_clock) -> None:
    async with scene() as it:
        await it.listen(VICTIM, port=1)
        it.register(VICTIM)
        await trio.sleep(30)
        assert it.fenced == []
        await it.listen(VICTIM)
        await trio.sleep(5)
        it.kill(VICTIM)
        await trio.sleep(1)
        assert len(it.fenced) == 1


async def test_while_one_of_its_listeners_accepts_a_broker_is_not_reported(autojump_clock) -> None:
    async with scene() as it:
        closed = await it.listen(VICTIM, 9092)
        await it.listen(VICTIM, 9093)
        it.register(VICTIM, ports=(9092, 9093))
        await trio.sleep(5)
        closed.close()
        it.net.cut("controller", f"node-{VICTIM}")
        await trio.sleep(30)
        assert it.fenced == []
        it.kill(VICTIM)
        await trio.sleep(2)
        assert len(it.fenced) == 1


async def test_a_broker_that_heartbeats_on_an_open_connection_is_not_reported_though_its_address_refuses(
    autojump_clock,
) -> None:
    async with scene() as it:
        heartbeats = Connection()
        proxy = await it.listen(VICTIM)
        it.register(VICTIM)
        await trio.sleep(5)
        it.watch.heard(VICTIM, 7, heartbeats)
        proxy.close()
        it.net.cut("controller", f"node-{VICTIM}")
        await trio.sleep(30)
        assert it.fenced == []
        heartbeats.is_closed = True
        await trio.sleep(2)
        assert len(it.fenced) == 1


async def test_a_heartbeat_of_an_earlier_life_proves_nothing(autojump_clock) -> None:
    async with watched() as it:
        it.watch.heard(VICTIM, 6, Connection())
        it.kill(VICTIM)
        await trio.sleep(1)
        assert len(it.fenced) == 1


async def test_a_new_controller_finds_who_died_before_it_was_active(autojump_clock) -> None:
    async with scene() as it:
        await it.listen(VICTIM)
        it.register(VICTIM)
        refused: list[float] = []

        async def not_active(broker_id: int, broker_epoch: int) -> None:
            refused.append(trio.current_time())

        await trio.sleep(5)
        it.watch._fence = not_active
        it.kill(VICTIM)
        await trio.sleep(30)
        assert refused
        it.watch._fence = it.fence
        it.watch.hurry()
        active_at = trio.current_time()
        await trio.sleep(5)
        ((_, _, at),) = it.fenced
        assert CONFIRM_S <= at - active_at < AT_ONCE_S, "by refusals that it got itself"


async def test_only_unfenced_brokers_of_other_processes_are_dialed(autojump_clock) -> None:
    async with scene() as it:
        it.register(OWN)
        it.register(VICTIM, fenced=True)
        await trio.sleep(5)
        assert it.network.dials == 0
        it.apply(BrokerRegistrationChange(broker_id=VICTIM, broker_epoch=7, fenced=False))
        await trio.sleep(1)
        assert it.network.dials > 0


async def test_the_next_registration_of_a_broker_is_watched_in_place_of_the_last(autojump_clock) -> None:
    async with watched() as it:
        it.kill(VICTIM)
        it.net.restart_node(f"node-{VICTIM}")
        await it.listen(VICTIM)
        it.register(VICTIM, epoch=9)
        await trio.sleep(5)
        assert it.fenced == []
        it.kill(VICTIM)
        await trio.sleep(1)
        assert [(broker_id, epoch) for broker_id, epoch, _ in it.fenced] == [(VICTIM, 9)]


async def test_a_broker_that_has_no_room_for_the_connection_is_dialed_once_a_second_at_most(
    autojump_clock,
) -> None:
    async with scene() as it:
        listener = await it.listen(VICTIM)

        async def refuse_politely() -> None:
            while True:
                (await listener.accept()).close()

        it.register(VICTIM)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(refuse_politely)
            await trio.sleep(60)
            nursery.cancel_scope.cancel()
        assert it.network.dials < 80
        assert it.fenced == []


async def test_many_silent_hosts_are_dialed_a_few_at_a_time_and_do_not_hide_a_dead_one(
    autojump_clock,
) -> None:
    async with watched() as it:
        for other in range(3, 60):
            await it.listen(other)
            it.net.block("controller", f"node-{other}")
            it.register(other)
        await trio.sleep(5)
        it.kill(VICTIM)
        await trio.sleep(1)
        assert [broker_id for broker_id, _, _ in it.fenced] == [VICTIM]
        assert it.network.most <= 8


async def test_a_connection_that_holds_for_long_is_opened_anew_and_none_is_left_behind(
    autojump_clock,
) -> None:
    async with scene() as it:
        listener = await it.listen(VICTIM)
        ended: list[bytes] = []

        async def serve() -> None:
            async with trio.open_nursery() as nursery:
                while True:
                    nursery.start_soon(receive, await listener.accept())

        async def receive(stream: Stream) -> None:
            ended.append(await stream.receive_some())

        it.register(VICTIM)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            await trio.sleep(1000)
            nursery.cancel_scope.cancel()
        assert it.network.dials == 4
        assert ended == [b""] * 3


async def test_a_refused_connect_is_what_the_network_says_it_is(autojump_clock) -> None:
    """What the scenarios above rest on."""
    async with scene() as it:
        await it.listen(VICTIM)
        it.kill(VICTIM)
        with pytest.raises(ConnectRefusedError):
            await it.network.connect(Address(f"node-{VICTIM}", 9092))
