"""What `quorate.simulation` promises its users, with nothing but its front door."""

import ast
import random
import re
from pathlib import Path

import pytest
import trio

from quorate.runtime import Address, NetworkError
from quorate.simulation import (
    Fault,
    FaultSettings,
    LinkQuality,
    NetworkSettings,
    Operation,
    QuorumRun,
    QuorumRunSettings,
    SafetyViolation,
    Scheduler,
    SimulatedNetwork,
    SimulatedRuntime,
    StuckError,
    Verdict,
    check_history,
    models,
    run,
)

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
HOME = Address("one", 9000)


@pytest.mark.parametrize("page", ["simulate-a-service.md", "check-a-history.md"])
def test_the_how_tos_import_from_the_front_door_alone(page: str) -> None:
    programs = re.findall(r"^```python\n(.*?)^```$", (HOW_TO / page).read_text(), re.M | re.S)
    imported = {
        node.module
        for program in programs
        for node in ast.walk(ast.parse(program))
        if isinstance(node, ast.ImportFrom) and node.module
    }
    assert {each for each in imported if each.startswith("quorate.simulation")} == {"quorate.simulation"}


def test_two_hosts_talk_until_their_connection_is_cut() -> None:
    async def main(scheduler: Scheduler) -> tuple[bytes, float]:
        settings = NetworkSettings(link=LinkQuality(latency_min_s=1.0, latency_max_s=1.0))
        network = SimulatedNetwork(random.Random(scheduler.getrandbits(64)), settings)
        one, two = (
            SimulatedRuntime(name, network, random.Random(scheduler.random())) for name in ("one", "two")
        )
        listener = await one.runtime().network.listen(HOME)
        stream = await two.runtime().network.connect(HOME)
        accepted = await listener.accept()
        await stream.send([b"hello"])
        heard = b""
        while heard != b"hello":
            heard += await accepted.receive_some(100)
        at = trio.current_time()
        network.cut("one", "two")
        with pytest.raises(NetworkError):
            await accepted.receive_some(100)
        return heard, at

    heard, at = run(1, main)
    assert heard == b"hello" and 3.0 <= at < 3.1


def test_a_program_that_waits_for_good_ends() -> None:
    async def main(_: Scheduler) -> None:
        await trio.sleep_forever()

    with pytest.raises(StuckError, match="deadlock"):
        run(1, main)


@pytest.mark.slow
@pytest.mark.long
def test_a_quorum_is_broken_and_healed() -> None:
    settings = QuorumRunSettings(faults=FaultSettings(kinds=(Fault.CRASH, Fault.PARTITION)), faults_s=3.0)
    first, again = (QuorumRun(7, settings).execute() for _ in range(2))
    assert first == again
    assert first.committed and first.faults


def test_a_stale_read_is_found() -> None:
    history = [
        Operation(client="ann", request=models.Write(1), answer=None, invoked_at=0.0, returned_at=1.0),
        Operation(client="bob", request=models.Read(), answer=None, invoked_at=2.0, returned_at=3.0),
    ]
    report = check_history(models.Register(), history)
    assert report.verdict is Verdict.NOT_LINEARIZABLE
    with pytest.raises(SafetyViolation, match="bob"):
        report.require()
