"""Limits of connections: their number, of all and of an address, and the rate at which they are opened
(KIP-402, KIP-612). In virtual time, on the simulated network."""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from served_wire import Handler, heartbeat_ok, read_until_closed

from quorate.broker.settings.client_settings import ConnectionRules, KafkaServerConfig
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.connection_quotas import ConnectionQuotas, address_of
from quorate.broker.wire.kafka_client import open_client
from quorate.broker.wire.kafka_server import WireServer
from quorate.runtime import Address, NetworkError, Stream
from quorate.simulation.world.simulated_network import NetworkSettings, SimulatedNetwork

HOMES = {"CLIENTS": Address("broker", 9092), "BROKERS": Address("broker", 9093)}


class Listeners:
    """Two listeners of one broker, which share their quotas."""

    def __init__(
        self, net: SimulatedNetwork, quotas: ConnectionQuotas, servers: dict[str, WireServer]
    ) -> None:
        self._net = net
        self.quotas = quotas
        self.servers = servers

    def client(self, name: str, listener: str = "CLIENTS") -> Any:
        return open_client(self._net.for_node(name), HOMES[listener])

    async def connect(self, name: str, listener: str = "CLIENTS") -> Stream:
        return await self._net.for_node(name).connect(HOMES[listener])

    async def is_refused(self, name: str) -> bool:
        """Whether the connection is closed at once."""
        stream = await self.connect(name)
        with trio.move_on_after(0.5):
            await read_until_closed(stream)
            return True
        stream.close()
        return False


@asynccontextmanager
async def listening(
    *listeners: str, rate_of: Callable[[str], float | None] = lambda address: None, **rules: Any
) -> AsyncIterator[Listeners]:
    """`listeners`: CLIENTS by default; BROKERS is the brokers' own."""
    net = SimulatedNetwork(random.Random(1), NetworkSettings())
    names = listeners or ("CLIENTS",)
    protected = "BROKERS" if len(names) > 1 else None
    quotas = ConnectionQuotas(ConnectionRules(**rules), protected=protected, rate_of=rate_of)
    servers = {}
    async with trio.open_nursery() as nursery:
        for name in names:
            servers[name] = WireServer(
                await net.for_node("broker").listen(HOMES[name]),
                Handler(heartbeat=heartbeat_ok),
                KafkaServerConfig(),
                listener_name=name,
                quotas=quotas,
            )
            nursery.start_soon(servers[name].run)
        yield Listeners(net, quotas, servers)
        nursery.cancel_scope.cancel()


async def beat(client: Any) -> None:
    await client.call(ApiKey.HEARTBEAT, group_id="g", member_id="m")


async def test_at_the_limit_clients_wait_until_another_has_left(autojump_clock: object) -> None:
    async with listening(max_connections=2) as broker:
        served: list[float] = []

        async def late() -> None:
            async with broker.client("late") as client:
                await beat(client)
                served.append(trio.current_time())

        async with trio.open_nursery() as nursery, broker.client("a"):
            async with broker.client("b"):
                nursery.start_soon(late)
                await trio.sleep(5)
                assert not served and broker.quotas.count == 2
            left = trio.current_time()
            await trio.sleep(1)
            assert served and served[0] - left < 0.5
        assert broker.quotas.waited_s == pytest.approx(5, abs=0.1)


async def test_a_higher_limit_ends_the_wait_at_once(autojump_clock: object) -> None:
    async with listening(max_connections=1) as broker, broker.client("a"), trio.open_nursery() as nursery:

        @nursery.start_soon
        async def raise_it() -> None:
            await trio.sleep(3)
            broker.quotas.reconfigure(ConnectionRules(max_connections=2))

        began = trio.current_time()
        async with broker.client("b"):
            assert 3 <= trio.current_time() - began < 3.5


async def test_a_lower_limit_closes_what_was_silent_for_longest(autojump_clock: object) -> None:
    async with (
        listening(max_connections=3) as broker,
        broker.client("a") as first,
        broker.client("b") as second,
        broker.client("c") as third,
    ):
        await trio.sleep(1)
        await beat(second)
        await trio.sleep(1)
        await beat(first)
        broker.quotas.reconfigure(ConnectionRules(max_connections=1))
        await trio.sleep(1)
        assert broker.quotas.count == 1
        await beat(first)
        for gone in (second, third):
            with pytest.raises(NetworkError):
                await beat(gone)


async def test_a_broker_takes_the_place_of_the_client_that_was_silent_for_longest(
    autojump_clock: object,
) -> None:
    """KIP-402: the listener of the brokers is never full, and never loses a connection to clients."""
    async with (
        listening("CLIENTS", "BROKERS", max_connections=2) as broker,
        broker.client("a") as idle,
        broker.client("b") as busy,
    ):
        await trio.sleep(1)
        await beat(busy)
        async with broker.client("2", "BROKERS") as second:
            await trio.sleep(1)
            with pytest.raises(NetworkError):
                await beat(idle)
            await beat(busy)
            async with broker.client("3", "BROKERS") as third, broker.client("4", "BROKERS") as fourth:
                await trio.sleep(1)
                with pytest.raises(NetworkError):
                    await beat(busy)
                assert broker.quotas.count == 3, "brokers may be more than max.connections"
                waits = await broker.connect("c")
                await trio.sleep(1)
                for each in (second, third, fourth):
                    await beat(each)
                waits.close()


async def test_the_only_listener_is_nobodys_own(autojump_clock: object) -> None:
    async with listening(max_connections=1) as broker, broker.client("a") as first:
        waits = await broker.connect("2")
        await trio.sleep(5)
        await beat(first)
        waits.close()


async def test_an_address_has_its_number_and_overrides_another(autojump_clock: object) -> None:
    rules = {"max_connections_per_ip": 1, "per_ip_overrides": {"friend": 2, "foe": 0}}
    async with listening(**rules) as broker:
        assert await broker.is_refused("foe")
        async with broker.client("a"), broker.client("friend"), broker.client("friend"):
            assert await broker.is_refused("a")
            assert await broker.is_refused("friend")
            async with broker.client("b"):
                assert broker.servers["CLIENTS"].statistics().connections_refused == 3
        await trio.sleep(1)
        async with broker.client("a"):
            pass


async def test_connections_of_an_address_count_over_all_listeners(autojump_clock: object) -> None:
    async with (
        listening("CLIENTS", "BROKERS", max_connections_per_ip=1) as broker,
        broker.client("a", "BROKERS"),
    ):
        assert await broker.is_refused("a")


async def test_the_rate_of_all_makes_a_listener_wait_after_a_burst(autojump_clock: object) -> None:
    async with listening("CLIENTS", "BROKERS", creation_rate=2) as broker:
        began = trio.current_time()
        opened: list[float] = []
        async with trio.open_nursery() as nursery:

            async def open_one(name: str) -> None:
                async with broker.client(name) as client:
                    await beat(client)
                    opened.append(trio.current_time() - began)

            for number in range(30):
                nursery.start_soon(open_one, f"c{number}")
            await trio.sleep(1)
            async with broker.client("2", "BROKERS"):
                assert trio.current_time() - began < 1.5, "the brokers' own listener is free of it"
        assert sum(each < 0.5 for each in opened) >= 20, "ten seconds' worth at once"
        assert 4 <= max(opened) <= 6, f"30 at 2 a second, 20 of them at once, took {max(opened):.1f} s"


@pytest.mark.bug("CVE-2011-1473")
async def test_an_address_above_its_rate_is_held_and_closed_and_no_other_is(autojump_clock: object) -> None:
    rates = {"greedy": 1.0}
    async with listening(rate_of=rates.get) as broker:
        for _ in range(10):
            async with broker.client("greedy"):
                pass
        began = trio.current_time()
        assert await read_until_closed(await broker.connect("greedy")) == b""
        held = trio.current_time() - began
        assert 0.5 < held <= 1.1, f"closed after {held:.2f} s"
        async with broker.client("modest"):
            pass
        rates.clear()
        async with broker.client("greedy"):
            assert broker.quotas.held_back == 1


async def test_a_client_that_goes_on_trying_gets_in_at_its_rate(autojump_clock: object) -> None:
    """What was closed counts for nothing."""
    quotas = ConnectionQuotas(ConnectionRules(), rate_of=lambda address: 1.0)
    opened = 0
    for _ in range(300):
        opened += quotas.too_quick_s("10.0.0.1") == 0
        await trio.sleep(0.1)
    assert 38 <= opened <= 40, f"{opened} in 30 s at 1/s with a burst of 10"


async def test_a_connection_is_closed_without_a_wait_when_too_many_wait(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quorate.broker.wire.kafka_server._MOST_HELD_BACK", 5)
    async with listening(rate_of=lambda address: 1.0) as broker:
        streams = [await broker.connect("greedy") for _ in range(30)]
        await trio.sleep(0.3)
        assert broker.servers["CLIENTS"].statistics().connections_refused == 15
        for stream in streams:
            stream.close()


@given(
    rate=st.integers(1, 50),
    pauses=st.lists(st.floats(0, 2), min_size=1, max_size=150),
)
def test_an_address_never_opens_more_than_its_rate_and_one_burst(rate: int, pauses: list[float]) -> None:
    async def run() -> None:
        quotas = ConnectionQuotas(ConnectionRules(), rate_of=lambda address: float(rate))
        began, opened = trio.current_time(), 0
        for pause in pauses:
            await trio.sleep(pause)
            seconds = quotas.too_quick_s("10.0.0.1")
            assert 0 <= seconds <= 1
            opened += seconds == 0
            allowed = rate * (trio.current_time() - began + 10)
            assert opened <= allowed + 1e-6, f"{opened} in {trio.current_time() - began:.1f} s at {rate}/s"
        assert opened + quotas.held_back == len(pauses)

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("10.0.0.1:5", "10.0.0.1"),
        ("[::1]:5", "::1"),
        ("::1:5", "::1"),
        ("[::ffff:10.0.0.1]:5", "10.0.0.1"),
        ("[0:0::0001]:5", "::1"),
        ("node-3:5", "node-3"),
    ],
)
def test_an_address_has_the_form_that_quotas_have(peer: str, address: str) -> None:
    assert address_of(peer) == address
