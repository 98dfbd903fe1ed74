"""Real nodes in namespaces under real faults (scripts/nemesis).

The calls of a quorum's clients are linearizable. Brokers lose no record that they acknowledged.
Short runs; `.ci/run` has three and five minutes, `make nemesis MINUTES=30` any number.
"""

import importlib.util
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.kit.waiting import wait_until

NEMESIS = Path(__file__).parents[2] / "scripts" / "nemesis"
QUORUM, BROKERS = NEMESIS, NEMESIS / "brokers.py"
SKIPPED = 77


def leftovers(pid: int) -> str:
    """Return the namespaces, devices and disks of a run, by its name."""
    name = f"nem{pid % 100_000}"
    said = "".join(
        subprocess.run(command, capture_output=True, text=True).stdout
        for command in (["ip", "netns", "list"], ["ip", "-o", "link"], ["mount"])
    )
    return "\n".join(line for line in said.splitlines() if name in line)


def start(program: Path, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(program), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def check_run(program: Path, *arguments: object, seconds: float) -> None:
    """Let a run end, and check that all was well and that it left nothing behind."""
    process = start(program, "--seconds", seconds, *arguments)
    said, _ = process.communicate(timeout=600)
    print(said)
    if process.returncode == SKIPPED:
        pytest.skip(said.splitlines()[-1])
    assert process.returncode == 0, said
    assert "all was well" in said
    assert not leftovers(process.pid)


@pytest.mark.system
@pytest.mark.slow
def test_histories_of_real_nodes_are_linearizable_under_every_fault() -> None:
    check_run(QUORUM, seconds=30.0)


@pytest.mark.system
@pytest.mark.slow
def test_real_brokers_lose_nothing_acknowledged_and_a_group_reads_all_of_it(tmp_path: Path) -> None:
    results = tmp_path / "found.json"
    check_run(BROKERS, "--results", results, seconds=40.0)
    table = start(BROKERS, "--table", results).communicate(timeout=60)[0]
    assert table.startswith("| fault | rounds |") and len(table.splitlines()) > 2, table


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.parametrize(
    ("program", "begun"), [(QUORUM, "works"), (BROKERS, "the brokers serve")], ids=["quorum", "brokers"]
)
def test_a_run_that_is_ended_halfway_leaves_nothing_behind(program: Path, begun: str) -> None:
    process = start(program, "--seconds", 600)
    assert process.stdout is not None
    for line in process.stdout:
        if "can't run here" in line:
            process.wait()
            pytest.skip(line)
        if begun in line:
            break
    assert leftovers(process.pid)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=60)
    assert "ended by SIGTERM" in said and process.returncode == 1
    wait_until(lambda: not leftovers(process.pid), "nothing is left behind", seconds=10)


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"nemesis_{name}", NEMESIS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


# Histories of calls


@pytest.fixture
def history() -> ModuleType:
    return module("history")


def append(history: ModuleType, value: str, invoked: float, returned: float | None, offset: int | None):  # type: ignore[no-untyped-def]
    return history.Call("c", "k", value, (), invoked, returned, offset)


def read(history: ModuleType, values: tuple[str, ...], invoked: float, returned: float):  # type: ignore[no-untyped-def]
    return history.Call("c", "k", None, values, invoked, returned, None)


def test_a_history_that_one_log_explains_is_right(history: ModuleType) -> None:
    calls = [
        append(history, "a", 0, 1, 10),
        append(history, "b", 2, None, None),
        append(history, "never", 2, None, None),
        read(history, ("a",), 3, 4),
        read(history, ("a", "b"), 5, 6),
        append(history, "c", 7, 8, 14),
    ]
    assert history.problems(calls, {"k": ("a", "b", "c")}, ended_at=9.0) == []


@pytest.mark.parametrize(
    ("at_last", "named"),
    [
        (("a",), "acknowledged and lost"),
        (("a", "b", "b"), "twice"),
        (("a", "b", "x"), "nobody appended"),
        (("b", "a"), "no order of these operations"),
    ],
)
def test_a_state_at_last_that_the_calls_do_not_explain_is_wrong(
    history: ModuleType, at_last: tuple[str, ...], named: str
) -> None:
    calls = [append(history, "a", 0, 1, 10), append(history, "b", 2, 3, 11)]
    assert named in "".join(history.problems(calls, {"k": at_last}, ended_at=9.0))


@pytest.mark.parametrize("seen", [(), ("b",), ("a", "b")])
def test_a_read_of_the_past_or_of_the_future_is_wrong(history: ModuleType, seen: tuple[str, ...]) -> None:
    calls = [append(history, "a", 0, 1, 10), read(history, seen, 2, 3), append(history, "b", 4, 5, 11)]
    assert "no order of these operations" in "".join(history.problems(calls, {"k": ("a", "b")}, ended_at=9.0))


# Ledgers of acknowledgements and of records read


@pytest.fixture
def ledger() -> ModuleType:
    return module("ledger")


WELL: tuple[tuple[object, ...], ...] = (
    ("a", "p", 0, 1, 0, 1.0),
    ("a", "q", 0, 1, 1, 1.0),
    ("g", "m1", [0], 1.0),
    ("r", "m1", 0, 0, "p", 1, 1.1),
    ("r", "m1", 0, 1, "q", 1, 1.2),
    ("c", "m1", 0, 1, True, 1.3),
    ("u", "p", 0, 2, 1.4),
    ("a", "p", 0, 3, -1, 1.5),
    # The other member goes on from the commit: it reads one again.
    ("g", "m1", [], 1.6),
    ("g", "m2", [0], 1.6),
    ("r", "m2", 0, 1, "q", 1, 1.7),
    ("r", "m2", 0, 2, "p", 3, 1.8),
)
"""Numbers of "p": 1 is acknowledged, 2 was given up and is not there, 3 is a duplicate without an offset."""
LOG = (("p", 1), ("q", 1), ("p", 3))


def problems(ledger: ModuleType, events: object, log: object) -> str:
    found = ledger.Ledger()
    for event in events:  # type: ignore[attr-defined]
        found.take(event)
    return "\n".join(found.check({0: [ledger.Sent(*each) for each in log]}))  # type: ignore[attr-defined]


def test_events_that_one_log_and_one_group_explain_are_right(ledger: ModuleType) -> None:
    assert problems(ledger, WELL, LOG) == ""


@pytest.mark.parametrize(
    ("log", "named"),
    [
        ((("p", 1), ("q", 1)), "acknowledged and lost"),
        ((("p", 1), ("q", 2), ("p", 3)), "acknowledged and lost"),
        ((*LOG, ("p", 3)), "after number 3"),
        ((("q", 1), ("p", 1), ("p", 3)), "offset 0: told Sent(producer='p', number=1)"),
        ((*LOG, ("q", 2)), "the group skipped offset 3 of 4"),
        ((*LOG, ("q", 3)), "number 2 of q is missing"),
    ],
)
def test_a_log_that_the_clients_do_not_explain_is_wrong(ledger: ModuleType, log: object, named: str) -> None:
    assert named in problems(ledger, WELL, log)


@pytest.mark.parametrize(
    ("place", "event", "named"),
    [
        (4, ("r", "m1", 0, 2, "p", 3, 1.2), "reads 2 of partition 0 after 0"),
        (4, ("r", "m1", 0, 1, "q", 9, 1.2), "read by m1"),
        (8, ("g", "m1", [0], 1.6), ""),
        (9, ("g", "m2", [1], 1.6), "was not assigned"),
        (5, ("c", "m1", 0, 2, True, 1.3), "m2 starts at 1 of partition 0, though 2 was committed"),
        (5, ("c", "m1", 0, 2, False, 1.3), ""),
        (7, ("c", "m1", 0, 2, True, 1.25), ""),
        (7, ("c", "m1", 0, 2, True, 1.35), "though 2 was committed"),
        (11, ("r", "m2", 0, 3, "p", 3, 1.8), "reads 3 of partition 0 after 1"),
        (0, ("a", "p", 0, 1, 1, 1.0), "offset 1"),
    ],
)
def test_a_group_that_skips_or_reads_something_else_is_wrong(
    ledger: ModuleType, place: int, event: object, named: str
) -> None:
    events = [*WELL[:place], event, *WELL[place + 1 :]]
    found = problems(ledger, events, LOG)
    assert named in found and bool(found) == bool(named), found


def test_a_gap_is_measured_over_the_ends_of_a_fault(ledger: ModuleType) -> None:
    moments = [1.0, 2.0, 3.0, 9.0, 10.0, 30.0]
    assert ledger.longest_gap(moments, since=4.0, until=9.5) == 6.0
    assert ledger.longest_gap(moments, since=1.5, until=2.5) == 1.0
    assert ledger.longest_gap(moments, since=11.0, until=12.0) == 20.0
    assert ledger.longest_gap([], since=11.0, until=12.0) == 1.0


def test_pieces_are_added_up_to_one_table(tmp_path: Path) -> None:
    standstills = module("standstills")
    file = tmp_path / "found.json"
    for number, gap in ((1, 0.5), (2, 4.0), (3, 1.5)):
        done = standstills.Round(
            fault="SIGSTOP", held_s=2.0 * number, back_s=1.0, producers_s={"librdkafka": gap}, group_s=gap + 1
        )
        standstills.add_piece(
            file,
            standstills.Piece(
                date="2026-11-23",
                seed=number,
                seconds=60.0,
                acknowledged=5,
                read=5,
                problems=[],
                rounds=[done],
            ),
        )
    assert standstills.table_of(standstills.load_pieces(file)).splitlines() == [
        "| fault | rounds | held | producer, librdkafka | group | all in sync after |",
        "|---|---:|---:|---:|---:|---:|",
        "| SIGSTOP | 3 | 4.0, 6.0 | 1.5, 4.0 | 2.5, 5.0 | 1.0, 1.0 |",
    ]
