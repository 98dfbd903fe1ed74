import random

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from quorate.runtime.network import Address, AddressInUseError, ConnectRefusedError, NetworkError
from quorate.simulation.world.simulated_network import LinkQuality, NetworkSettings, SimulatedNetwork

HOME = Address("b", 9092)


def network(seed=0, **settings):
    return SimulatedNetwork(random.Random(seed), NetworkSettings(**settings))


async def connected(net):
    """A stream from node a to node b, both ends."""
    listener = await net.for_node("b").listen(HOME)
    ours = await net.for_node("a").connect(HOME)
    return ours, await listener.accept(), listener


async def receive_all(stream, size):
    data = b""
    while len(data) < size:
        piece = await stream.receive_some()
        if not piece:
            break
        data += piece
    return data


async def test_bytes_arrive_in_order_after_a_latency(autojump_clock):
    ours, theirs, _ = await connected(network())
    started = trio.current_time()
    for part in (b"one", b"two", b"three"):
        await ours.send([part])
    assert await receive_all(theirs, 11) == b"onetwothree"
    assert 0.0002 <= trio.current_time() - started < 0.01
    await theirs.send([b"back"])
    assert await receive_all(ours, 4) == b"back"


async def test_a_sender_waits_when_its_window_is_full(autojump_clock):
    ours, theirs, _ = await connected(network(window_bytes=1000))
    sent = trio.Event()

    async def send():
        await ours.send([bytes(2500)])
        sent.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        await trio.sleep(5)
        assert not sent.is_set()
        assert len(await receive_all(theirs, 2500)) == 2500
        await sent.wait()


async def test_a_close_arrives_behind_the_bytes(autojump_clock):
    ours, theirs, _ = await connected(network())
    await ours.send([b"last words"])
    ours.close()
    assert await receive_all(theirs, 100) == b"last words"
    assert await theirs.receive_some() == b""
    with pytest.raises(NetworkError, match="reset by peer"):
        await theirs.send([b"anybody?"])
    with pytest.raises(NetworkError, match="closed here"):
        await ours.receive_some()
    with pytest.raises(NetworkError, match="closed here"):
        await ours.send([b"x"])


async def test_a_partition_holds_bytes_back_and_loses_none(autojump_clock):
    net = network()
    ours, theirs, _ = await connected(net)
    await ours.send([b"before "])
    net.partition(["a"], ["b"])
    await ours.send([b"during"])
    with trio.move_on_after(60) as waited:
        await theirs.receive_some()
    assert waited.cancelled_caught
    healed_at = trio.current_time()
    net.heal()
    assert await receive_all(theirs, 13) == b"before during"
    assert trio.current_time() > healed_at


async def test_a_one_way_partition_lets_the_other_way_through(autojump_clock):
    net = network()
    ours, theirs, _ = await connected(net)
    net.block("a", "b")
    await theirs.send([b"down"])
    assert await receive_all(ours, 4) == b"down"
    await ours.send([b"up"])
    with trio.move_on_after(10) as waited:
        await theirs.receive_some()
    assert waited.cancelled_caught
    net.heal("a", "b")
    assert await receive_all(theirs, 2) == b"up"


async def test_a_connect_across_a_partition_hangs_until_it_heals(autojump_clock):
    net = network()
    await net.for_node("b").listen(HOME)
    net.block("b", "a")
    with trio.move_on_after(30) as waited:
        await net.for_node("a").connect(HOME)
    assert waited.cancelled_caught

    async def heal():
        await trio.sleep(10)
        net.heal()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(heal)
        started = trio.current_time()
        await net.for_node("a").connect(HOME)
        assert trio.current_time() - started > 10


async def test_a_close_is_not_delivered_across_a_network_partition(autojump_clock):
    net = network()
    ours, theirs, _ = await connected(net)
    net.partition(["a"], ["b"])
    ours.close()
    await trio.sleep(10)
    await theirs.send([b"still there?"])
    with trio.move_on_after(10) as waited:
        await theirs.receive_some()
    assert waited.cancelled_caught
    net.heal()
    assert await theirs.receive_some() == b""
    with pytest.raises(NetworkError):
        await theirs.send([b"x"])


async def test_a_cut_resets_both_ends_and_a_new_stream_works(autojump_clock):
    net = network()
    ours, theirs, listener = await connected(net)
    net.cut("a", "b")
    for end in (ours, theirs):
        with pytest.raises(NetworkError, match="reset"):
            await end.receive_some()
        with pytest.raises(NetworkError, match="reset"):
            await end.send([b"x"])
    again = await net.for_node("a").connect(HOME)
    await again.send([b"hello"])
    assert await receive_all(await listener.accept(), 5) == b"hello"


async def test_a_half_open_stream_swallows_bytes_and_says_nothing(autojump_clock):
    net = network(window_bytes=100)
    ours, theirs, _ = await connected(net)
    net.half_open("a", "b")
    await ours.send([bytes(100)])
    with trio.move_on_after(1000) as receiving:
        await theirs.receive_some()
    with trio.move_on_after(1000) as sending:
        await ours.send([b"one more"])
    assert receiving.cancelled_caught
    assert sending.cancelled_caught


async def test_a_crashed_process_resets_its_peers_and_refuses_connects(autojump_clock):
    net = network()
    ours, theirs, listener = await connected(net)
    net.crash_node("b", silent=False)
    with pytest.raises(NetworkError):
        await theirs.send([b"from the grave"])
    with pytest.raises(NetworkError):
        await listener.accept()
    with pytest.raises(NetworkError, match="reset"):
        await ours.receive_some()
    with pytest.raises(ConnectRefusedError, match="refused"):
        await net.for_node("a").connect(HOME)
    with pytest.raises(NetworkError, match="down"):
        await net.for_node("b").listen(HOME)
    net.restart_node("b")
    await net.for_node("b").listen(HOME)
    await net.for_node("a").connect(HOME)


async def test_a_dead_host_says_nothing_until_it_is_back(autojump_clock):
    net = network()
    ours, theirs, _ = await connected(net)
    await ours.send([b"lost"])
    net.crash_node("b", silent=True)
    with pytest.raises(NetworkError):
        await theirs.receive_some()
    for hanging in (ours.receive_some, lambda: net.for_node("a").connect(HOME)):
        with trio.move_on_after(1000) as waited:
            await hanging()
        assert waited.cancelled_caught
    await ours.send([b"also lost"])
    net.restart_node("b")
    with pytest.raises(NetworkError, match="reset"):
        await ours.receive_some()
    with pytest.raises(ConnectRefusedError, match="refused"):
        await net.for_node("a").connect(HOME)


async def test_a_slow_link_takes_its_time(autojump_clock):
    net = network(window_bytes=10**6)
    ours, theirs, _ = await connected(net)
    net.set_link("a", "b", LinkQuality(latency_min_s=1.0, latency_max_s=1.0, bytes_per_s=1000))
    started = trio.current_time()
    await ours.send([bytes(5000)])
    await receive_all(theirs, 5000)
    assert 6.0 <= trio.current_time() - started < 6.1


async def test_two_listeners_cannot_have_one_address(autojump_clock):
    net = network()
    listener = await net.for_node("b").listen(HOME)
    with pytest.raises(AddressInUseError):
        await net.for_node("c").listen(HOME)
    listener.close()
    other = await net.for_node("c").listen(Address("c", 0))
    assert other.address.port != 0
    await net.for_node("c").listen(HOME)


async def test_an_address_where_nobody_listened_refuses(autojump_clock):
    with pytest.raises(ConnectRefusedError, match="refused"):
        await network().for_node("a").connect(Address("nowhere", 1))


async def trace(seed):
    """Two clients talking to one server through partitions: what arrived, and when."""
    net = network(seed)
    events = []
    listener = await net.for_node("server").listen(Address("server", 1))

    async def serve(stream):
        while data := await stream.receive_some():
            events.append((trio.current_time(), len(data)))
            await stream.send([data])

    async def talk(name):
        stream = await net.for_node(name).connect(Address("server", 1))
        for size in (10, 2000, 70_000):
            await stream.send([bytes(size)])
            await receive_all(stream, size)
            events.append((trio.current_time(), name))

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            async with trio.open_nursery() as talking:
                talking.start_soon(talk, "a")
                talking.start_soon(talk, "b")
                for _ in range(2):
                    nursery.start_soon(serve, await listener.accept())
                net.block("a", "server")
                await trio.sleep(3)
                net.heal()
            scope.cancel()
    return events


def test_the_same_seed_gives_the_same_times_and_pieces(monkeypatch):
    monkeypatch.setattr("trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING", True)

    def run(seed):
        trio._core._run._r.seed(seed)
        return trio.run(trace, seed, clock=trio.testing.MockClock(autojump_threshold=0))

    assert run(7) == run(7)
    assert run(7) != run(8)


@given(st.integers(0, 2**32), st.lists(st.binary(min_size=1, max_size=3000), min_size=1, max_size=20))
def test_a_stream_delivers_exactly_what_was_sent_whatever_the_link_does(seed, parts):
    async def main():
        draw = random.Random(seed)
        net = network(seed, window_bytes=draw.choice([1, 100, 10_000]), short_read_chance=0.5)
        ours, theirs, _ = await connected(net)

        async def disturb():
            while True:
                await trio.sleep(draw.random() * 0.01)
                net.block("a", "b")
                await trio.sleep(draw.random() * 0.01)
                net.heal("a", "b")

        async def send():
            for part in parts:
                await ours.send([part])
            ours.close()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(disturb)
            nursery.start_soon(send)
            data = b""
            while piece := await theirs.receive_some(draw.randint(1, 4000)):
                data += piece
            assert data == b"".join(parts)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
