"""Golden traces and counterexamples of the explorer become scripts, which the play agrees with."""

import random
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

import pytest
import trio
import typer
from typer.testing import CliRunner

from quorate.play.script import ExpectationError, Rule, parse_script, play_script
from quorate.raft.core import Core, Effect, Event, Persist
from quorate.types import Offset
from tests.simulator.explorer.__main__ import main as explore
from tests.simulator.explorer.core_model.actions import Action
from tests.simulator.explorer.core_model.bounds import SMALL, Bound, budgets
from tests.simulator.explorer.core_model.core_model import CoreModel
from tests.simulator.explorer.exploration import Task, run
from tests.simulator.explorer.model import State, Violation
from tests.simulator.explorer.retold_counterexample import retell_counterexample
from tests.simulator.retelling.retold_trace import retell_trace
from tests.simulator.retelling.teller import CannotRetell
from tests.traces.__main__ import FOLDER, names, title_of
from tests.traces.__main__ import main as retell

Step = Callable[[Core, Event], tuple[Effect, ...]]
WITHOUT_A_STEP = {
    "28_a_leader_that_asks_too_much": "forge",
    "30_stale_durable": "durable",
    "39_a_crash_before_the_snapshot_is_installed": "unchecked",
    "66_a_read_lease": "lease",
    "67_a_promise_outlives_a_restart": "lease",
}
"""Traces with what teaching mode does not know: a node that lies, a disk that answers late, a clock."""


QUICK = ("23_figure_8", "34_an_empty_follower_loads_a_snapshot", "42_add_a_voter", *WITHOUT_A_STEP)


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=() if each in QUICK else pytest.mark.slow) for each in names()]
)
def test_a_golden_trace_can_be_stepped_through(name: str) -> None:
    file = FOLDER / f"{name}.txt"
    text = file.read_text("utf-8")
    if name in WITHOUT_A_STEP:
        with pytest.raises(CannotRetell, match=f"no step for '{WITHOUT_A_STEP[name]} "):
            list(retell_trace(text, title=title_of(file)))
        return
    scripts = [parse_script(each) for each in retell_trace(text, title=title_of(file))]
    assert len(scripts) == text.count("> cluster")
    for script in scripts:
        played = play_script(script, Rule.RIGHT)
        assert played.steps
        assert not played.world.violations


def test_a_trace_that_the_play_disagrees_with_is_refused() -> None:
    text = "> cluster 3\n> start 1 2 3\n> fire 1 election\n> drop 1->2\n> deliver 1->3\n> state\n"
    assert list(retell_trace(text, title="mine"))
    with pytest.raises(CannotRetell, match="has no step for 'log 1 1'"):
        list(retell_trace(text + "> log 1 1\n", title="mine"))


def _as_if_up_to_date(roles: object, request: object) -> bool:
    return True


def _commits_older_epochs(ends: Collection[Offset], *, epoch_start: Offset) -> Offset | None:
    """KAFKA-12619: >= in place of >."""
    end = sorted(ends)[len(ends) - 1 - len(ends) // 2]
    return end if end >= epoch_start else None


def _stores_no_vote(self: Core, event: Event, step: Step = Core.step) -> tuple[Effect, ...]:
    return tuple(
        replace(effect, state=replace(effect.state, voted=None)) if isinstance(effect, Persist) else effect
        for effect in step(self, event)
    )


UP_TO_DATE = "quorate.raft.core.request_handlers._is_up_to_date"
PLANTED = {
    "short candidate": (UP_TO_DATE, _as_if_up_to_date, "LeaderCompleteness"),
    "stale candidate": (UP_TO_DATE, _as_if_up_to_date, "LeaderCompleteness"),
    "premature leader": (
        "quorate.raft.core.roles.tracker.majority_end_offset",
        _commits_older_epochs,
        "CommitsAreOfTheLeadersEpoch",
    ),
    "first read": ("quorate.raft.core.Core.step", _stores_no_vote, "DurableBeforeSent"),
    "transfer": ("quorate.raft.core.Core.step", _stores_no_vote, "DurableBeforeSent"),
}
"""Explorations with faults that they find, and the invariant that is shown broken. The last fault is found on
the way to the initial state."""


@pytest.mark.parametrize("name", PLANTED)
def test_a_counterexample_ends_with_its_invariant_broken_in_red(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, planted, broken = PLANTED[name]
    monkeypatch.setattr(where, planted)
    report = run(Task(suite="small" if name in SMALL else "ci", name=name))
    assert report.script, report.counterexample
    script = parse_script(report.script)
    played = play_script(script, Rule.RIGHT)
    assert [each.invariant for each in played.world.violations] == [broken]
    assert not played.at(len(played.steps) - 1).violations, "until the last step nothing is broken"
    assert report.counterexample[0].removeprefix("BROKEN: ") in report.script
    monkeypatch.undo()
    with pytest.raises(ExpectationError):  # the core as it is goes another way
        play_script(script, Rule.RIGHT)


@pytest.mark.slow
def test_the_commands_write_scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app, runner = typer.Typer(), CliRunner()
    app.command("trace")(retell)
    app.command("explore")(explore)
    file = tmp_path / "mine.jsonl"
    done = runner.invoke(app, ["trace", "23_figure_8", "--save", str(file)])
    assert f"quorate raft play {file}" in done.output
    assert parse_script(file.read_text()).title == "Trace 23: figure 8"
    assert (
        "no step for 'forge"
        in runner.invoke(app, ["trace", "28_a_leader_that_asks_too_much", "--save", "x"]).output
    )
    assert "there is no 99" in runner.invoke(app, ["trace", "99", "--save", "x"]).output
    monkeypatch.setattr(*PLANTED["short candidate"][:2])
    of = ["explore", "--bound", "small", "--only", "short candidate", "--save", str(file)]
    done = runner.invoke(app, of)
    assert (done.exit_code, f"quorate raft play {file}" in done.output) == (1, True)
    first = file.read_text()
    assert parse_script(first).title.startswith("A counterexample: a leader has every committed record")
    path = next(line for line in done.output.splitlines() if "--replay" in line).split()[-1]
    file.unlink()
    assert runner.invoke(app, [*of, "--replay", path]).exit_code == 1
    assert file.read_text() == first


WALKS = {
    "everything": Bound(
        initial="elected",
        budgets=budgets(
            appends=9,
            crashes=9,
            power_losses=9,
            losses=2,
            duplicates=2,
            timeouts=9,
            ticks=2,
            resignations=1,
            reads=1,
        ),
        in_flight=30,
        epochs=9,
        batches=9,
    ),
    "crashes in the middle": Bound(initial="rivals", budgets=budgets(crashes=9), in_flight=30),
    **SMALL,
}
MUST_HAVE = {
    "everything": {"deliver", "repeat", "lose", "step", "crash", "power", "start"},
    "crashes in the middle": {"midway"},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WALKS)
def test_every_way_through_the_explorer_can_be_retold(name: str) -> None:
    """The teller compares every node after every step."""
    kinds: set[str] = set()
    for seed in range(4):
        model = CoreModel(WALKS[name])
        path = trio.run(_walk, model, random.Random(seed))
        kinds |= {_kind(action) for _, action in path}
        script = retell_counterexample(model, Violation("made up", path), title="a walk", source="")
        assert not play_script(parse_script(script), Rule.RIGHT).world.violations
    assert kinds >= MUST_HAVE.get(name, set())


def _kind(action: Action) -> str:
    return "midway" if action.crash_point >= 0 else action.what


async def _walk(model: CoreModel, rng: random.Random) -> tuple[tuple[State, Action], ...]:
    state = model.begin()
    path: list[tuple[State, Action]] = []
    for _ in range(30):
        successors = list(await model.next_states(state))
        if not successors:
            break
        kinds = {_kind(action) for action, _ in successors}
        rare = kinds - {"deliver", "step", "start"}
        if kinds - rare and "midway" not in rare and (not rare or rng.random() < 0.8):
            rare = kinds - rare
        kind = rng.choice(sorted(rare & {"midway", "power"} or rare))
        action, after = rng.choice([each for each in successors if _kind(each[0]) == kind])
        path.append((state, action))
        state = after
    return tuple(path)
