"""The connections of a node over its listeners, and the bounds of their number and rate (KIP-402, KIP-612).

At `max.connections`, or above `max.connection.creation.rate`, a listener accepts no connection until there is
room, and clients wait in the operating system's queue. The listener of the brokers is free of both if there
is another: a connection of a broker takes the place of the client that was silent for longest. An address
that has as many connections as it may is refused, and what it opens too quickly is closed after a while.
"""

import heapq
import ipaddress
import math
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import trio

from quorate.broker.settings.client_settings import ConnectionRules
from quorate.broker.settings.config_key import INT_MAX
from quorate.runtime import QuotaWindows, TokenBucket

_MOST_ADDRESSES: Final = 10_000
"""Whose rate is remembered. Above, the address that opened none for longest is forgotten."""
_WAIT_MAX_S: Final = 1.0
"""The longest time that a connection above the rate of its address is held before it is closed, as in
Kafka."""


class Closable(Protocol):
    """A connection that may have to go."""

    @property
    def last_active(self) -> float: ...

    def close(self, reason: str) -> None: ...


@dataclass(slots=True, eq=False)
class Place:
    """The place of one connection."""

    listener: str
    address: str
    connection: Closable
    closing: bool = False


class ConnectionQuotas:
    """Shared by the listeners of a node. All methods belong to one trio run."""

    def __init__(
        self,
        rules: ConnectionRules,
        *,
        protected: str | None = None,
        rate_of: Callable[[str], float | None] = lambda address: None,
        windows: QuotaWindows | None = None,
    ) -> None:
        """`protected`: the listener of the brokers, if there is another. `rate_of`: the connections per
        second that an address may open; None for no limit."""
        self._rules = rules
        self._protected = protected
        self._rate_of = rate_of
        self._burst_s = (windows or QuotaWindows()).burst_s
        self._opened = TokenBucket(burst_s=self._burst_s)
        self._opened_by: OrderedDict[str, TokenBucket] = OrderedDict()
        self._places: dict[Place, None] = {}
        self._by_address: Counter[str] = Counter()
        self._changed = trio.lowlevel.ParkingLot()
        self.waited_s = 0.0
        """The seconds for which listeners accepted no connection."""
        self.held_back = 0
        """Connections that were closed because their address opened them too quickly."""

    @property
    def count(self) -> int:
        """The open connections of all listeners."""
        return len(self._places)

    def reconfigure(self, rules: ConnectionRules) -> None:
        """Let other rules apply from now on. Connections above a lower `max_connections` are closed."""
        self._rules = rules
        self.close_excess()
        self._changed.unpark_all()

    async def wait_turn(self, listener: str) -> None:
        """Return when the listener may take one more connection, which has been accepted."""
        if listener == self._protected:
            return
        began = trio.current_time()
        rate = self._rules.creation_rate
        if rate < INT_MAX:
            self._opened.use(1, rate, now=began)
        while True:
            now = trio.current_time()
            rate = self._rules.creation_rate
            wait_s = self._opened.wait_s(rate, now=now) if rate < INT_MAX else 0.0
            full = self.full(listener)
            if not full and wait_s <= 0:
                break
            # Other rules, or room, end the wait early.
            with trio.move_on_after(math.inf if full else wait_s):
                await self._changed.park()
        self.waited_s += trio.current_time() - began

    def full(self, listener: str) -> bool:
        """True if no connection of the listener may be added to those of all."""
        return listener != self._protected and len(self._places) >= self._rules.max_connections

    def refusal(self, address: str) -> str | None:
        """Return the reason to refuse one more connection of the address, or None."""
        rules = self._rules
        most = rules.per_ip_overrides.get(address, rules.max_connections_per_ip)
        if self._by_address[address] < most:
            return None
        key = "max.connections.per.ip"
        if address in self._rules.per_ip_overrides:
            key = "max.connections.per.ip.overrides"
        return f"{most} of {address} are open ({key})"

    def too_quick_s(self, address: str) -> float:
        """Count a new connection of the address. Return the seconds after which it is to be closed, because
        the address opens them too quickly; 0: it may stay."""
        rate = self._rate_of(address)
        if rate is None:
            return 0.0
        bucket = self._opened_by.get(address)
        if bucket is None:
            if len(self._opened_by) >= _MOST_ADDRESSES:
                self._opened_by.popitem(last=False)
            bucket = self._opened_by[address] = TokenBucket(burst_s=self._burst_s)
        else:
            self._opened_by.move_to_end(address)
        now = trio.current_time()
        room = bucket.room(rate, now=now)
        if room >= 1:
            bucket.use(1, rate, now=now)
            return 0.0
        self.held_back += 1
        return min(_WAIT_MAX_S, (1 - room) / rate)

    def add(self, listener: str, address: str, connection: Closable) -> Place:
        """Count a connection until `remove`. It may close one of another listener."""
        place = Place(listener, address, connection)
        self._places[place] = None
        self._by_address[address] += 1
        self.close_excess()
        return place

    def remove(self, place: Place) -> None:
        """Stop counting a connection that has ended."""
        del self._places[place]
        self._by_address[place.address] -= 1
        if not self._by_address[place.address]:
            del self._by_address[place.address]
        self._changed.unpark_all()

    def close_excess(self) -> None:
        """Close as many connections as are too many, those that were silent for longest first, and none of
        the brokers' own listener."""
        excess = len(self._places) - self._rules.max_connections
        if excess <= 0:
            return
        closing = sum(place.closing for place in self._places)
        others = (place for place in self._places if place.listener != self._protected and not place.closing)
        for place in heapq.nsmallest(excess - closing, others, key=lambda each: each.connection.last_active):
            place.closing = True
            place.connection.close(
                f"more than {self._rules.max_connections} are open (max.connections), and this one was "
                "silent for longest"
            )


def address_of(peer: str) -> str:
    """Return the address of `host:port` in the form that quotas have; a host that is none as it is."""
    host = peer.rpartition(":")[0].removeprefix("[").removesuffix("]")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(address)


def is_loopback(peer: str) -> bool:
    """Return whether `host:port` is on this machine."""
    try:
        return ipaddress.ip_address(address_of(peer)).is_loopback
    except ValueError:
        return False
