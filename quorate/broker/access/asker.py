"""The client for whom a node asks another one."""

from dataclasses import dataclass

from quorate.broker.wire.principals import Principal


@dataclass(frozen=True, slots=True)
class Asker:
    """Who sent a request to a node that passes it on (KIP-590)."""

    principal: Principal
    host: str
    """The client's address, as the node that passes the request on saw it."""
    node_id: int
    """The node that passes the request on. It vouches for the other fields."""
