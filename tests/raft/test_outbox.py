import random

import trio

from quorate.raft.transport.outbox import Outbox
from quorate.runtime.network import NetworkError


class Socket:
    """Takes `window` bytes, then nothing until `drain`."""

    peer = "slow"

    def __init__(self, window):
        self.taken = bytearray()
        self.window = window
        self.closed = False
        self.moved = trio.Event()

    def send_nowait(self, buffers):
        if self.closed:
            raise NetworkError("closed")
        data = b"".join(bytes(buffer) for buffer in buffers)[: self.window]
        self.window -= len(data)
        self.taken += data
        return len(data)

    async def send(self, buffers):
        data = b"".join(bytes(buffer) for buffer in buffers)
        while data:
            taken = self.send_nowait([data])
            data = data[taken:]
            if data:
                await self.moved.wait()

    def drain(self, window):
        self.window += window
        moved, self.moved = self.moved, trio.Event()
        moved.set()

    def close(self):
        self.closed = True
        self.drain(0)


async def test_a_flush_sends_at_once_what_the_socket_takes():
    socket = Socket(100)
    outbox = Outbox(socket)
    outbox.push([b"one", b"two"])
    assert socket.taken == b""
    outbox.flush()
    assert socket.taken == b"onetwo"


async def test_all_bytes_leave_in_order_however_the_socket_takes_them(autojump_clock, nursery):
    for seed in range(30):
        draw = random.Random(seed)
        socket = Socket(draw.randint(0, 50))
        outbox = Outbox(socket)
        nursery.start_soon(outbox.run)
        expected = b""
        for _ in range(50):
            parts = [draw.randbytes(draw.randint(1, 40)) for _ in range(draw.randint(1, 3))]
            expected += b"".join(parts)
            outbox.push(parts)
            if draw.random() < 0.7:
                outbox.flush()
            if draw.random() < 0.5:
                socket.drain(draw.randint(0, 60))
            if draw.random() < 0.3:
                await trio.testing.wait_all_tasks_blocked()
        outbox.flush()
        while len(socket.taken) < len(expected):
            socket.drain(1000)
            outbox.flush()
            await trio.testing.wait_all_tasks_blocked()
        assert socket.taken == expected
        assert outbox._queued_bytes == 0
        outbox.close()


async def test_a_sender_that_waits_for_room_continues_when_the_socket_has_some(nursery):
    socket = Socket(0)
    outbox = Outbox(socket)
    nursery.start_soon(outbox.run)
    outbox.push([bytes(2 << 20)])
    done = []

    async def wait():
        await outbox.wait_room()
        done.append(True)

    nursery.start_soon(wait)
    await trio.testing.wait_all_tasks_blocked()
    assert not done
    socket.drain(1 << 20)
    await trio.testing.wait_all_tasks_blocked()
    assert not done
    socket.drain(2 << 20)
    await trio.testing.wait_all_tasks_blocked()
    assert done


async def test_a_sender_that_waits_for_room_continues_when_the_connection_closes(autojump_clock, nursery):
    outbox = Outbox(Socket(0))
    nursery.start_soon(outbox.run)
    outbox.push([bytes(2 << 20)])
    with trio.fail_after(1):
        async with trio.open_nursery() as sender:
            sender.start_soon(outbox.wait_room)
            await trio.testing.wait_all_tasks_blocked()
            assert sender.child_tasks
            outbox.close()


async def test_a_peer_that_takes_nothing_is_disconnected_before_memory_is_gone():
    socket = Socket(0)
    outbox = Outbox(socket)
    for _ in range(100):
        outbox.push([bytes(1 << 20)])
        outbox.flush()
    assert outbox.closed
    assert socket.closed
    assert outbox._queued_bytes == 0


async def test_a_frame_pushed_after_the_close_is_dropped():
    socket = Socket(100)
    outbox = Outbox(socket)
    outbox.close()
    outbox.push([b"late"])
    outbox.flush()
    assert socket.taken == b""
