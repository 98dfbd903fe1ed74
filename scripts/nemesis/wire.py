"""The wire between the hosts: takes IP packets from one tun device per host and hands them to another, or
loses, delays and reorders them. In a process of its own. Usage: wire.py SEED HOST=DEVICE...

A rule is about one direction between two hosts, so that a partition can be truly one-way, and it works on
kernels without netem and netfilter. Each line on the standard input is a JSON object
`{"from>to": [lost share, delay in ms, jitter in ms, reordered share]}` that replaces all rules, and is
answered with a line once it holds. Ends with its input, and then says how many packets it forwarded and lost.
"""

import fcntl
import heapq
import json
import os
import random
import select
import struct
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
PACKET_BYTES = 65536
PACKETS_AT_ONCE = 64
QUEUED_MAX = 20_000
"""The limit of delayed packets. Packets beyond it are lost, as in any router."""


def open_tun(name: str) -> int:
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return descriptor


@dataclass(slots=True)
class Rule:
    lost: float
    delay_ms: float
    jitter_ms: float
    reordered: float


@dataclass(slots=True)
class Wire:
    devices: dict[int, int]
    """File descriptors by host, which is the last byte of its address."""
    draw: random.Random
    rules: dict[tuple[int, int], Rule] = field(default_factory=dict)
    queue: list[tuple[float, int, int, bytes]] = field(default_factory=list)
    """(due, number, descriptor, packet)"""
    forwarded: int = 0
    lost: int = 0
    delayed: int = 0

    def take(self, descriptor: int) -> None:
        for _ in range(PACKETS_AT_ONCE):
            try:
                packet = os.read(descriptor, PACKET_BYTES)
            except BlockingIOError:
                return
            except OSError:
                return  # the device is down
            if len(packet) >= 20 and packet[0] >> 4 == 4:
                self.route(packet)

    def route(self, packet: bytes) -> None:
        source, destination = packet[15], packet[19]
        out = self.devices.get(destination)
        if out is None:
            return
        rule = self.rules.get((source, destination))
        if rule is None:
            self.hand(out, packet)
            return
        draw = self.draw
        if (rule.lost and draw.random() < rule.lost) or len(self.queue) >= QUEUED_MAX:
            self.lost += 1
            return
        delay_ms = rule.delay_ms + draw.uniform(0, rule.jitter_ms)
        if rule.reordered and draw.random() < rule.reordered:
            delay_ms += draw.uniform(1, 20)  # those sent behind it overtake it
        if delay_ms <= 0:
            self.hand(out, packet)
            return
        self.delayed += 1
        heapq.heappush(self.queue, (time.monotonic() + delay_ms / 1000, self.delayed, out, packet))

    def hand(self, out: int, packet: bytes) -> None:
        self.forwarded += 1
        with suppress(OSError):  # its host is gone, or takes no more
            os.write(out, packet)

    def send_due(self) -> float | None:
        """Send all packets that are due. Return the seconds until the next one is, or None."""
        now = time.monotonic()
        while self.queue:
            if self.queue[0][0] > now:
                return self.queue[0][0] - now
            _, _, out, packet = heapq.heappop(self.queue)
            self.hand(out, packet)
        return None

    def obey(self, line: bytes) -> None:
        self.rules = {}
        for direction, numbers in json.loads(line).items():
            source, _, destination = direction.partition(">")
            self.rules[int(source), int(destination)] = Rule(*numbers)
        print("done", flush=True)


def main() -> None:
    devices = {}
    for argument in sys.argv[2:]:
        host, _, name = argument.partition("=")
        devices[int(host)] = open_tun(name)
    wire = Wire(devices, random.Random(sys.argv[1]))
    poll = select.epoll()
    poll.register(0, select.EPOLLIN)
    for descriptor in devices.values():
        poll.register(descriptor, select.EPOLLIN)
    print("ready", flush=True)
    typed = b""
    while True:
        wait = wire.send_due()
        for descriptor, _ in poll.poll(-1 if wait is None else wait):
            if descriptor:
                wire.take(descriptor)
                continue
            said = os.read(0, 1 << 20)
            if not said:
                print(json.dumps({"forwarded": wire.forwarded, "lost": wire.lost, "delayed": wire.delayed}))
                return
            *lines, typed = (typed + said).split(b"\n")
            for line in lines:
                wire.obey(line)


if __name__ == "__main__":
    main()
