"""Evidence that the process of a broker has ended, without the dialing.

The system closes the sockets of a process that ends, however it ends, and refuses connects to its listeners.
A host that is silent, a process that is stopped and a network that is parted do neither: their addresses
don't answer, or accept. So a process counts as gone when every sign says so, and no sign is needed twice to
say that it isn't:

- This node had a connection to the address of this registration. An address that never worked from here
  (another network, a translated or misspelt name) says nothing when it refuses.
- Since then the address has refused several times in a row, for a while: a listener that is opened again at
  once isn't missed.
- Nothing that the broker says of itself came in meanwhile, and the connection that its heartbeats came on is
  over, if there was one. So a proxy or a firewall before the address kills nobody.
"""

from dataclasses import dataclass
from typing import Final

from quorate.raft import Caller

REFUSALS_MIN: Final = 3


@dataclass(slots=True)
class _Refusals:
    since: float
    count: int = 0


class ProcessEvidence:
    """The signs of life and death of one registration of a broker. Addresses are known by number; times are
    seconds on one monotonic clock."""

    __slots__ = ("_caller", "_confirm_s", "_reached", "_refusals")

    def __init__(self, *, confirm_s: float) -> None:
        """`confirm_s`: the time that the addresses must refuse."""
        self._confirm_s = confirm_s
        self._reached: set[int] = set()
        self._refusals: dict[int, _Refusals] = {}
        self._caller: Caller | None = None

    def accepted(self, address: int) -> None:
        """Record an accepted connection, which proves no death: another process may listen there by now."""
        self._reached.add(address)
        self._refusals.pop(address, None)

    def unclear(self, address: int) -> None:
        """Record a connect that neither opened nor was refused."""
        self._refusals.pop(address, None)

    def refused(self, address: int, *, now: float) -> None:
        """Record a refused connect."""
        self._refusals.setdefault(address, _Refusals(since=now)).count += 1

    def heard(self, caller: Caller | None) -> None:
        """Record a heartbeat of the broker, on that connection."""
        self._caller = caller
        self.ask_again()

    def ask_again(self) -> None:
        """Forget the refusals so far: only later ones count."""
        self._refusals.clear()

    def reached(self, address: int) -> bool:
        """Return whether a refusal of the address means anything."""
        return address in self._reached

    def process_ended(self, *, now: float) -> bool:
        """Return whether the process that registered has ended."""
        if not self._reached or (self._caller is not None and not self._caller.is_closed):
            return False
        return all(self._refuses(address, now) for address in self._reached)

    def _refuses(self, address: int, now: float) -> bool:
        refusals = self._refusals.get(address)
        return (
            refusals is not None
            and refusals.count >= REFUSALS_MIN
            and now - refusals.since >= self._confirm_s
        )
