"""The configuration of the core, and its view of a batch."""

from typing import NewType

from quorate.types import Epoch, Offset, VotersAt
from quorate.value import value

Generation = NewType("Generation", int)
"""Counts truncations of the local log. A durable completion of an older generation says nothing."""


@value(frozen=True, slots=True)
class BatchSpan:
    """One record batch, as far as the core is concerned: offsets [base_offset, end_offset) in one epoch."""

    base_offset: Offset
    end_offset: Offset
    epoch: Epoch
    voters: VotersAt | None = None
    """The voter set in it, if it is a control batch that has one."""


@value(frozen=True, slots=True, kw_only=True)
class CoreConfig:
    """The timeouts and limits of the Raft core. Durations are in ms. The fields have the names and defaults
    of Kafka's `controller.quorum.*` keys."""

    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    election_backoff_max_ms: int = 1000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 8 * 1024 * 1024
    high_watermark_wait_ms: int = 0
    """How long a leader may keep an answer that would carry a newer high watermark and no records, in case
    records come. 0 answers at once, which doubles the messages of a stream of single commits."""
    broken_connection_wait_ms: int = 50
    """Upper bound of the random wait after which a follower acts on a connection to its leader that broke
    and could not be reopened. Pre-vote makes this safe (KIP-996)."""
    read_lease_ms: int = 0
    """How long this node elects nobody after each answer of a leader, so that the leader may answer reads
    without a round (see `quorate.raft.core.roles.read_lease`). 0: no leases. Otherwise an election after the
    sudden end of a leader, and the first one after a restart of voters, take up to this time longer. Choose
    at least twice `fetch_max_wait_ms`, after which an idle leader answers."""
