"""The core's appends, as batches in the log, and how long they take to commit."""

from collections.abc import Callable

from quorate.log import Log
from quorate.log.batches.batch import read_headers
from quorate.log.batches.control import leader_change_batch, state_version_batch, voters_batch
from quorate.log.batches.records import build_batch
from quorate.raft.core import effects as fx
from quorate.raft.state_machine.append_queue import AppendQueue, Proposal
from quorate.raft.telemetry import Telemetry
from quorate.runtime import WallClock
from quorate.types import Epoch, Offset


class LogWriter:
    """Carries out the appending effects. The driver syncs."""

    __slots__ = ("_appends", "_clock", "_kraft_version", "_log", "_measured_offset", "_now", "_telemetry")

    def __init__(
        self,
        log: Log,
        appends: AppendQueue,
        clock: WallClock,
        telemetry: Telemetry,
        now: Callable[[], float],
        kraft_version: Callable[[], int],
    ) -> None:
        """`now`: seconds, as the event loop counts them. `kraft_version`: the one in effect."""
        self._kraft_version = kraft_version
        self._now = now
        self._log = log
        self._appends = appends
        self._clock = clock
        self._telemetry = telemetry
        self._measured_offset = Offset(0)
        """The telemetry knows the commits below this offset."""

    def append_proposal(self, effect: fx.AppendProposal) -> None:
        proposal = self._appends.take(effect.proposal)
        proposal.base_offset, proposal.end_offset, proposal.epoch = (
            effect.base_offset,
            effect.end_offset,
            effect.epoch,
        )
        proposal.timestamp_ms = self._clock.now_ms()
        proposal.appended_at = self._now()
        batch = self._batch_of(proposal)
        proposal.batch_bytes = len(batch)
        # Before the write: one that fails may still have put it there, and its waiters must learn that.
        self._appends.in_log.append(proposal)
        self._log.append_own(
            batch, base_offset=effect.base_offset, end_offset=effect.end_offset, epoch=effect.epoch
        )
        self._telemetry.records_appended(proposal.count)
        self.report_log_end()

    def _batch_of(self, proposal: Proposal) -> bytes:
        if proposal.state_version is not None:
            return state_version_batch(
                base_offset=proposal.base_offset,
                epoch=proposal.epoch,
                timestamp_ms=proposal.timestamp_ms,
                kraft_version=self._kraft_version(),
                state_version=proposal.state_version,
            )
        return build_batch(
            base_offset=proposal.base_offset,
            epoch=proposal.epoch,
            timestamp_ms=proposal.timestamp_ms,
            values=proposal.records(),
        )

    def append_fetched(self, effect: fx.AppendFetched) -> None:
        # The CRCs were checked when the response was received.
        headers = list(read_headers(effect.records, check_crc=False))
        self._log.append_as_follower(effect.records, headers=headers)
        self._telemetry.records_fetched(effect.batches[-1].end_offset - effect.batches[0].base_offset)
        self.report_log_end()

    def append_leader_change(self, effect: fx.AppendLeaderChange) -> None:
        batch = leader_change_batch(
            base_offset=effect.base_offset,
            epoch=effect.epoch,
            timestamp_ms=self._clock.now_ms(),
            leader=effect.leader,
            voters=effect.voters,
            granting_voters=effect.granting_voters,
            voter_set=effect.voter_set,
        )
        self._append_control(batch, effect.base_offset, 1 if effect.voter_set is None else 3, effect.epoch)

    def append_voters(self, effect: fx.AppendVoters) -> None:
        batch = voters_batch(
            base_offset=effect.base_offset,
            epoch=effect.epoch,
            timestamp_ms=self._clock.now_ms(),
            voters=effect.voters,
            first=effect.first,
        )
        self._append_control(batch, effect.base_offset, 2 if effect.first else 1, effect.epoch)

    def _append_control(self, batch: bytes, base_offset: Offset, count: int, epoch: Epoch) -> None:
        end_offset = Offset(base_offset + count)
        self._log.append_own(batch, base_offset=base_offset, end_offset=end_offset, epoch=epoch)
        self._telemetry.records_appended(count)
        self.report_log_end()

    def report_log_end(self) -> None:
        """Report the log end offset to the telemetry."""
        self._telemetry.log_end_offset(self._log.end_offset, self._log.last_epoch)

    def measure_commits(self, high_watermark: Offset) -> None:
        """Report the latency of the proposals that the high watermark has passed."""
        for proposal in self._appends.in_log:
            if proposal.end_offset > high_watermark:
                break
            if proposal.base_offset >= self._measured_offset:
                self._telemetry.committed(self._now() - proposal.appended_at, proposal.count)
        self._measured_offset = high_watermark
