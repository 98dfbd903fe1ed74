"""A script: a start, steps, what to say of them, and what to expect. One JSON object a line.

The first line is the start: `{"play": 1, "title": "...", "nodes": 3}`, with the other fields of
`quorate.play.start` if they are not the usual ones, `wrong_rule` and `source`. Each other line is a step
(`quorate.play.steps`), a `{"say": "..."}` for who looks on, or an
`{"expect": "role", "node": 1, "is": "leader"}`. With a `wrong_rule` a script is played
twice, by the right rule and by the wrong one. A line with `"rule": "right"`, or `"wrong"`, is of that play
alone.
"""

import enum
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from quorate.play.played import STEPS_MAX, Played
from quorate.play.start import START_FIELDS, Start, start_from_json, start_to_json
from quorate.play.steps import Json, Step, StepError, step_from_json, step_to_json
from quorate.play.wrong_rules import WRONG_RULES, WrongRule
from quorate.raft.core import Core
from quorate.types import NodeId

FORMAT: Final = 1
_LINES_MAX: Final = 4 * STEPS_MAX
_HEAD_FIELDS: Final = ("play", "title", "source", *START_FIELDS, "wrong_rule")


class ScriptError(ValueError):
    """A script can't be read. The message names the line, the field and the remedy."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


class ExpectationError(Exception):
    """A play of a script went another way than it says."""

    def __init__(self, line: int, rule: "Rule", message: str) -> None:
        super().__init__(f"line {line}, by the {rule.value} rule: {message}")
        self.line = line


class Rule(enum.Enum):
    RIGHT = "right"
    """The production core."""
    WRONG = "wrong"
    """The core with the script's wrong rule."""


class Aspect(enum.Enum):
    """What an expectation is of. All but the last two are of one node."""

    ROLE = "role"
    """As `Role` names it, or `down`."""
    EPOCH = "epoch"
    VOTED = "voted"
    """The node that has its vote in its epoch, on its disk; null for none."""
    LOG = "log"
    """The epochs of its records."""
    DURABLE = "durable"
    """The end of what survives the loss of power."""
    COMMITTED = "committed"
    """Its high watermark."""
    HAPPENED = "happened"
    """A part of what the last step made happen."""
    VIOLATED = "violated"
    """The invariants that were broken so far, in order."""


_OF_ALL: Final = (Aspect.HAPPENED, Aspect.VIOLATED)


@dataclass(frozen=True, slots=True)
class Say:
    text: str


@dataclass(frozen=True, slots=True)
class Expect:
    aspect: Aspect
    node: NodeId | None
    value: Json


@dataclass(frozen=True, slots=True)
class Line:
    number: int
    content: Say | Step | Expect
    rule: Rule | None
    """The only play that it is of. None: both."""


@dataclass(frozen=True, slots=True)
class Script:
    title: str
    source: str
    """Where the story was published. Empty: it is the reader's own."""
    start: Start
    wrong_rule: WrongRule | None
    lines: tuple[Line, ...]

    @property
    def rules(self) -> tuple[Rule, ...]:
        return (Rule.RIGHT,) if self.wrong_rule is None else (Rule.RIGHT, Rule.WRONG)

    def of(self, rule: Rule) -> Iterator[Line]:
        return (line for line in self.lines if line.rule in (None, rule))

    def core(self, rule: Rule) -> type[Core]:
        if rule is Rule.RIGHT or self.wrong_rule is None:
            return Core
        return self.wrong_rule.core


def parse_script(text: str) -> Script:
    """Raises `ScriptError`."""
    rows = [(number, _object(number, row)) for number, row in enumerate(text.splitlines(), 1) if row.strip()]
    if not rows:
        raise ScriptError(1, 'the script is empty; begin with {"play": 1, "nodes": 3}')
    if len(rows) > _LINES_MAX:
        raise ScriptError(_LINES_MAX, f"a script has at most {_LINES_MAX} lines; shorten it")
    number, head = rows[0]
    if head.get("play") != FORMAT:
        raise ScriptError(number, f'play: the first line says {{"play": {FORMAT}, "nodes": 3}}')
    for name in head:
        if name not in _HEAD_FIELDS:
            raise ScriptError(number, f"{name}: is none of {', '.join(_HEAD_FIELDS)}; take it out")
    try:
        start = start_from_json(head)
    except ValueError as error:
        raise ScriptError(number, str(error)) from None
    wrong = head.get("wrong_rule")
    if wrong is not None and wrong not in WRONG_RULES:
        raise ScriptError(number, f"wrong_rule: {wrong!r} is none of {', '.join(WRONG_RULES)}")
    return Script(
        title=str(head.get("title", "")),
        source=str(head.get("source", "")),
        start=start,
        wrong_rule=WRONG_RULES[str(wrong)] if wrong is not None else None,
        lines=tuple(_line(number, row) for number, row in rows[1:]),
    )


def play_script(script: Script, rule: Rule) -> Played:
    """Play it, and check what it expects. Raises `ExpectationError`."""
    played = Played(script.start, script.core(rule))
    for line in script.of(rule):
        match line.content:
            case Say():
                pass
            case Expect():
                found = look_up(played, line.content)
                value = line.content.value
                is_met = (
                    str(value) in str(found) if line.content.aspect is Aspect.HAPPENED else found == value
                )
                if not is_met:
                    raise ExpectationError(line.number, rule, _unmet(line.content, found))
            case step:
                try:
                    played.take(step)
                except StepError as error:
                    raise ExpectationError(line.number, rule, f"{step.name}: {error}") from None
    return played


def look_up(played: Played, expect: Expect) -> Json:
    """Return the value of what is expected. Raises `KeyError` for a node that is not there."""
    world = played.world
    if expect.aspect is Aspect.VIOLATED:
        return [each.invariant for each in world.violations]
    if expect.aspect is Aspect.HAPPENED:
        last = played.happened(len(played.steps) - 1) if played.steps else ()
        return "; ".join(each.text if each.node is None else f"{each.node} {each.text}" for each in last)
    assert expect.node is not None  # noqa: S101 (parsing checked it)
    node = world.nodes.get(expect.node)
    if node is None:
        return f"no node {expect.node}"
    voted = node.election.voted
    found: dict[Aspect, Json] = {
        Aspect.ROLE: "down" if node.core is None else node.core.role.value,
        Aspect.EPOCH: node.election.epoch,
        Aspect.VOTED: None if voted is None else voted.id,
        Aspect.LOG: [record.epoch for record in node.records],
        Aspect.DURABLE: node.synced,
        Aspect.COMMITTED: node.high_watermark,
    }
    return found[expect.aspect]


def write_script(
    start: Start,
    steps: Sequence[Step],
    *,
    title: str,
    wrong_rule: str | None = None,
    source: str = "",
    says: Mapping[int, str] = MappingProxyType({}),
) -> str:
    """Return a script of these steps that expects, at the end, what they lead to by the rules they were taken
    by. `says`: what to say after so many steps. Raises `ValueError`."""
    head: dict[str, Json] = {"play": FORMAT, "title": title, **start_to_json(start)}
    if source:
        head["source"] = source
    core: type[Core] = Core
    rule: dict[str, Json] = {}
    if wrong_rule is not None:
        if wrong_rule not in WRONG_RULES:
            raise ValueError(f"wrong_rule: {wrong_rule!r} is none of {', '.join(WRONG_RULES)}")
        head["wrong_rule"] = wrong_rule
        core, rule = WRONG_RULES[wrong_rule].core, {"rule": Rule.WRONG.value}
    played = Played(start, core)
    played.go_to(steps)
    rows = [head]
    for position in range(len(steps) + 1):
        if position in says:
            rows.append({"say": says[position], **rule})
        if position < len(steps):
            rows.append(step_to_json(steps[position]) | rule)
    for node in played.world.nodes:
        for aspect in (Aspect.ROLE, Aspect.EPOCH, Aspect.LOG, Aspect.COMMITTED):
            value = look_up(played, Expect(aspect, node, None))
            rows.append({"expect": aspect.value, "node": node, "is": value} | rule)
    violated = look_up(played, Expect(Aspect.VIOLATED, None, None))
    rows.append({"expect": Aspect.VIOLATED.value, "is": violated} | rule)
    return "".join(json.dumps(row) + "\n" for row in rows)


def _object(number: int, row: str) -> dict[str, Json]:
    try:
        found = json.loads(row)
    except (ValueError, RecursionError):
        raise ScriptError(number, "is no JSON; each line is one object") from None
    if not isinstance(found, dict):
        raise ScriptError(number, 'is no JSON object such as {"say": "..."}')
    return found


def _line(number: int, row: dict[str, Json]) -> Line:
    given = dict(row)
    rule = given.pop("rule", None)
    if rule is not None and rule not in [each.value for each in Rule]:
        raise ScriptError(number, f"rule: must be right or wrong, or be left out, not {rule!r}")
    if "say" in given:
        text = given.pop("say")
        if not isinstance(text, str) or given:
            raise ScriptError(number, 'say: such a line is {"say": "text"} alone')
        content: Say | Step | Expect = Say(text)
    elif "expect" in given:
        content = _expect(number, given)
    else:
        try:
            content = step_from_json(given)
        except StepError as error:
            raise ScriptError(number, str(error)) from None
    return Line(number, content, None if rule is None else Rule(rule))


def _expect(number: int, given: dict[str, Json]) -> Expect:
    try:
        aspect = Aspect(given["expect"])
    except ValueError:
        named = ", ".join(each.value for each in Aspect)
        raise ScriptError(number, f"expect: {given['expect']!r} is none of {named}") from None
    allowed = {"expect", "is"} if aspect in _OF_ALL else {"expect", "is", "node"}
    if given.keys() != allowed:
        raise ScriptError(
            number, f"expect: one of {aspect.value} has the fields {', '.join(sorted(allowed))}"
        )
    node = given.get("node")
    if aspect not in _OF_ALL and (isinstance(node, bool) or not isinstance(node, int)):
        raise ScriptError(number, f"node: must be a node id, not {node!r}")
    return Expect(aspect, NodeId(node) if isinstance(node, int) else None, given["is"])


def _unmet(expect: Expect, found: Json) -> str:
    of = "" if expect.node is None else f" of node {expect.node}"
    return f"{expect.aspect.value}{of} is {found!r}, not {expect.value!r}"
