"""The observations of one node that must agree with all others."""

from dataclasses import dataclass

from quorate.types import Epoch, Offset
from tests.simulator.explorer.node.node_disk import History


@dataclass(frozen=True, slots=True)
class Leads:
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Commits:
    """`history`: the node's, up to the high watermark."""

    history: History
    own_epoch: Epoch | None
    """The leader's, if it counted copies; None if it learned of the commit."""


@dataclass(frozen=True, slots=True)
class Cuts:
    """Batches leave the log."""

    history: History


@dataclass(frozen=True, slots=True)
class ReadPassed:
    read_round: int
    read_index: Offset


@dataclass(frozen=True, slots=True)
class ReadFailed:
    read_round: int


Observation = Leads | Commits | Cuts | ReadPassed | ReadFailed
