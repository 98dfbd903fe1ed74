"""Scripts: the stories go as they say, a wrong rule shows, and a mistake is named by its line."""

from pathlib import Path
from unittest.mock import patch

import pytest

from quorate.cli.console.cli_errors import ExitCode
from quorate.play import steps as st
from quorate.play.script import (
    ExpectationError,
    Rule,
    ScriptError,
    parse_script,
    play_script,
    write_script,
)
from quorate.play.start import Start
from quorate.play.stories import STORIES, load_story
from quorate.play.wrong_rules import WRONG_RULES
from quorate.raft.core import Core
from quorate.types import NodeId
from tests.cli.command import Quorate

FOLDER = Path(__file__).parents[2] / "quorate" / "play" / "stories"
ONE = NodeId(1)


def test_every_file_is_a_story_and_every_wrong_rule_has_one() -> None:
    assert sorted(STORIES) == sorted(path.stem for path in FOLDER.glob("*.jsonl"))
    told = {rule.name for name in STORIES if (rule := load_story(name).wrong_rule) is not None}
    assert told == set(WRONG_RULES)
    with pytest.raises(KeyError):
        load_story("../script")


@pytest.mark.parametrize("name", STORIES)
def test_a_story_goes_as_it_says_and_only_its_wrong_rule_breaks_an_invariant(name: str) -> None:
    script = load_story(name)
    assert script.source
    assert not play_script(script, Rule.RIGHT).world.violations
    assert play_script(script, Rule.WRONG).world.violations


@pytest.mark.parametrize("name", STORIES)
def test_a_story_fails_if_its_wrong_rule_is_right_or_the_right_one_wrong(name: str) -> None:
    script = load_story(name)
    assert script.wrong_rule is not None
    wrong = script.wrong_rule.core
    with pytest.raises(ExpectationError), patch("quorate.play.script.Script.core", lambda *_: Core):
        play_script(script, Rule.WRONG)
    with pytest.raises(ExpectationError), patch("quorate.play.script.Script.core", lambda *_: wrong):
        play_script(script, Rule.RIGHT)


STEPS = (
    st.Fire(ONE, "election"),
    st.Exchange(rounds=20, sync=True),
    st.Propose(ONE, "red"),
    st.Exchange(rounds=20, sync=True),
    st.Crash(NodeId(2), power=True),
)


@pytest.mark.parametrize("wrong_rule", [None, "forgets-its-vote"])
def test_what_was_played_is_written_as_a_script_that_holds(wrong_rule: str | None) -> None:
    text = write_script(Start(nodes=3), STEPS, title="mine", wrong_rule=wrong_rule)
    script = parse_script(text)
    assert script.title == "mine"
    rule = script.rules[-1]
    assert list(play_script(script, rule).steps) == list(STEPS)
    broken = text.replace('"committed", "node": 1, "is": 2', '"committed", "node": 1, "is": 3')
    assert broken != text
    with pytest.raises(ExpectationError, match="committed of node 1 is 2, not 3"):
        play_script(parse_script(broken), rule)


HEAD = '{"play": 1, "nodes": 3}\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: the script is empty"),
        ("[1]", "line 1: is no JSON object"),
        ("{", "line 1: is no JSON; each line is one object"),
        ("[" * 100_000, "line 1: is no JSON; each line is one object"),
        ('{"nodes": 3}', "line 1: play: the first line says"),
        ('{"play": 1, "nodes": 9}', "line 1: nodes: must be 1 to 7, not 9"),
        ('{"play": 1, "nodes": true}', "line 1: nodes: must be a number, not True"),
        ('{"play": 1, "logs": [["a"]]}', "has something that is no epoch"),
        ('{"play": 1, "node": 3}', "line 1: node: is none of play, title"),
        ('{"play": 1, "wrong_rule": "none"}', "line 1: wrong_rule: 'none' is none of commits-old-epochs"),
        (HEAD + "\n" + '{"step": "jump"}', "line 3: step: 'jump' is none of deliver, repeat, drop"),
        (HEAD + '{"step": "crash"}', "line 2: node: is missing; a step 'crash' needs it"),
        (HEAD + '{"step": "crash", "node": "1"}', "line 2: node: must be a number from 1 to 50, not '1'"),
        (HEAD + '{"step": "crash", "node": 1, "power": 1}', "line 2: power: must be true or false"),
        (HEAD + '{"step": "propose", "node": 1, "text": ""}', "line 2: text: must be a printable text"),
        (HEAD + '{"step": "tick", "node": 1}', "line 2: node: a step 'tick' has no such field; take it out"),
        (HEAD + '{"step": "tick", "rule": "odd"}', "line 2: rule: must be right or wrong"),
        (HEAD + '{"say": 1}', 'line 2: say: such a line is {"say": "text"} alone'),
        (HEAD + '{"expect": "weather", "is": 1}', "line 2: expect: 'weather' is none of role, epoch"),
        (HEAD + '{"expect": "role", "is": 1}', "expect: one of role has the fields expect, is, node"),
        (HEAD + '{"expect": "role", "node": "1", "is": 1}', "line 2: node: must be a node id, not '1'"),
    ],
)
def test_a_mistake_is_named_by_its_line_and_field(text: str, message: str) -> None:
    with pytest.raises(ScriptError) as caught:
        parse_script(text)
    assert message in str(caught.value)


@pytest.mark.slow
def test_the_command_checks_a_script(tmp_path: Path) -> None:
    quorate = Quorate()
    shown = quorate.output("raft", "play", "--check", FOLDER / "figure-8.jsonl")
    assert "by the right rule: 21 steps as expected, no invariant violated" in shown
    assert "by the wrong rule: 21 steps as expected, LeaderCompleteness" in shown
    file = tmp_path / "mine.jsonl"
    file.write_text(HEAD + '{"step": "fire", "node": 1, "timer": "fetch"}\n')
    failed = quorate.error("raft", "play", "--check", file)
    assert "line 2, by the right rule: fire: timer: node 1 has no fetch to fire" in failed
    file.write_text("{}")
    assert "line 1: play: the first line says" in quorate.error(
        "raft", "play", "--check", file, code=ExitCode.USAGE
    )
    assert "--check needs the FILE" in quorate.error("raft", "play", "--check", code=ExitCode.USAGE)
    gone = quorate.error("raft", "play", "--check", tmp_path / "gone", code=ExitCode.USAGE)
    assert "gone: No such file" in gone
