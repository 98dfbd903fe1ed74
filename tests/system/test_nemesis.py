"""Real nodes in namespaces under real faults: what their clients saw is linearizable (scripts/nemesis).

A short run; `.ci/run` has three minutes of it, `make nemesis MINUTES=30` as many as are wanted.
"""

import importlib.util
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

NEMESIS = Path(__file__).parents[2] / "scripts" / "nemesis"
SKIPPED = 77


def leftovers(pid: int) -> str:
    """Namespaces, devices and disks of a run, by its name."""
    name = f"nem{pid % 100_000}"
    said = "".join(
        subprocess.run(command, capture_output=True, text=True).stdout
        for command in (["ip", "netns", "list"], ["ip", "-o", "link"], ["mount"])
    )
    return "\n".join(line for line in said.splitlines() if name in line)


def nemesis(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(NEMESIS), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.system
@pytest.mark.slow
def test_histories_of_real_nodes_are_linearizable_under_every_fault() -> None:
    seconds = 30.0
    process = nemesis("--seconds", str(seconds))
    said, _ = process.communicate(timeout=2 * seconds + 300)
    print(said)
    if process.returncode == SKIPPED:
        pytest.skip(said.splitlines()[-1])
    assert process.returncode == 0, said
    assert "all was well" in said
    assert not leftovers(process.pid)


@pytest.mark.system
def test_a_run_that_is_ended_halfway_leaves_nothing_behind() -> None:
    process = nemesis("--seconds", "600")
    assert process.stdout is not None
    for line in process.stdout:
        if "can't run here" in line:
            process.wait()
            pytest.skip(line)
        if "works" in line:
            break
    assert leftovers(process.pid)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=60)
    assert "ended by SIGTERM" in said and process.returncode == 1
    deadline = time.monotonic() + 10
    while leftovers(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not leftovers(process.pid)


@pytest.fixture
def history() -> ModuleType:
    spec = importlib.util.spec_from_file_location("nemesis_history", NEMESIS / "history.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


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
