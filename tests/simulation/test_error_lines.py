"""A node that logs an error asks somebody to act: in a simulation only a harmed disk is a reason for that."""

import pytest

from quorate.raft.driver.log_writing import LogWriter
from quorate.runtime.event_log import get_logger
from quorate.simulation.faults.faults import Fault, FaultSettings
from quorate.simulation.quorum.quorum_run import QuorumRun, QuorumRunSettings
from quorate.simulation.violations import SafetyViolation
from quorate.types import Offset

log = get_logger("quorate.planted")


def test_an_error_that_a_node_with_a_sound_disk_logs_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    committed = LogWriter.measure_commits

    def complain(self: LogWriter, high_watermark: Offset) -> None:
        log.error("the sky is falling", high_watermark=high_watermark)
        committed(self, high_watermark)

    monkeypatch.setattr(LogWriter, "measure_commits", complain)
    quiet = QuorumRunSettings(faults=FaultSettings(kinds=(Fault.CRASH,)))
    with pytest.raises(SafetyViolation, match=r"NoErrorWithoutHarm: node-\d logged: error the sky"):
        QuorumRun(1, quiet).execute()
