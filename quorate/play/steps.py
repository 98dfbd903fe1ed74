"""The steps that one may take in a played world, and their form in JSON."""

from dataclasses import MISSING, dataclass, fields
from typing import ClassVar, Final, TypeAlias, get_args, get_type_hints

from quorate.types import NodeId

TEXT_MAX: Final = 40
"""The most characters of a proposed record."""
ROUNDS_MAX: Final = 50
OFFSET_MAX: Final = 10_000
_NAMES_MIN: Final = -10
"""Below 0 are bootstrap servers, of which a node knows only the address: -2 is the first."""

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


class StepError(ValueError):
    """A step can't be taken now, or is none. The message says what can."""


@dataclass(frozen=True, slots=True)
class _OfMessage:
    """The message is named by what it is, not by a number, so that a script outlives changes of the core."""

    source: NodeId
    destination: NodeId
    kind: str
    nth: int = 1
    """The oldest of equal ones is the first."""


@dataclass(frozen=True, slots=True)
class Deliver(_OfMessage):
    """A message arrives. At a node that is down, the sender learns that nobody listens."""

    name: ClassVar[str] = "deliver"


@dataclass(frozen=True, slots=True)
class Repeat(_OfMessage):
    """A copy of a message arrives, and the message stays in flight."""

    name: ClassVar[str] = "repeat"


@dataclass(frozen=True, slots=True)
class Drop(_OfMessage):
    """A message is lost. Who waits for the answer may time out."""

    name: ClassVar[str] = "drop"


@dataclass(frozen=True, slots=True)
class Lose:
    """All that is in flight is lost, as when every connection breaks."""

    name: ClassVar[str] = "lose"


@dataclass(frozen=True, slots=True)
class Exchange:
    """Deliver what is in flight among these nodes (none named: all), so many rounds, or until none is."""

    name: ClassVar[str] = "exchange"
    nodes: tuple[NodeId, ...] = ()
    rounds: int = 1
    sync: bool = False
    """Before each round the appends of these nodes become durable."""


@dataclass(frozen=True, slots=True)
class Fire:
    """A timer fires. `timer` is one of `TimerKind`, or `request` for a request whose answer was lost."""

    name: ClassVar[str] = "fire"
    node: NodeId
    timer: str
    peer: NodeId | None = None


@dataclass(frozen=True, slots=True)
class Tick:
    """A moment passes: short timers of all nodes fire once, and requests without hope time out. No
    election, fetch or check-quorum timer fires."""

    name: ClassVar[str] = "tick"


@dataclass(frozen=True, slots=True)
class Propose:
    """A client sends a record to a node."""

    name: ClassVar[str] = "propose"
    node: NodeId
    text: str
    count: int = 1
    """So many records of this text, in one batch."""


@dataclass(frozen=True, slots=True)
class Resign:
    """A leader is asked to stop leading."""

    name: ClassVar[str] = "resign"
    node: NodeId


@dataclass(frozen=True, slots=True)
class Transfer:
    """A leader is asked to hand over to a successor."""

    name: ClassVar[str] = "transfer"
    node: NodeId
    successor: NodeId


@dataclass(frozen=True, slots=True)
class AddVoter:
    """A leader is asked to make a node that fetches from it a voter."""

    name: ClassVar[str] = "add-voter"
    node: NodeId
    voter: NodeId


@dataclass(frozen=True, slots=True)
class RemoveVoter:
    """A leader is asked to make a voter an observer. `directory`: of its disk, if not the present one."""

    name: ClassVar[str] = "remove-voter"
    node: NodeId
    voter: NodeId
    directory: str = ""


@dataclass(frozen=True, slots=True)
class UpdateVoter:
    """A leader is asked to write down where a voter listens now."""

    name: ClassVar[str] = "update-voter"
    node: NodeId
    voter: NodeId
    host: str


@dataclass(frozen=True, slots=True)
class AdoptVoters:
    """A leader is asked to write the configured voters into the log, so that they may change."""

    name: ClassVar[str] = "adopt-voters"
    node: NodeId


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A node takes a snapshot of all that it knows to be committed."""

    name: ClassVar[str] = "snapshot"
    node: NodeId


@dataclass(frozen=True, slots=True)
class Trim:
    """A node removes what its snapshot holds from its log."""

    name: ClassVar[str] = "trim"
    node: NodeId


@dataclass(frozen=True, slots=True)
class Check:
    """A node has checked the snapshot that it fetched."""

    name: ClassVar[str] = "check"
    node: NodeId
    damaged: bool = False


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The connection of a node to another one broke, and can't be opened again."""

    name: ClassVar[str] = "unreachable"
    node: NodeId
    peer: NodeId


@dataclass(frozen=True, slots=True)
class GiveUp:
    """A node's request to another one times out, although the answer may still come."""

    name: ClassVar[str] = "give-up"
    node: NodeId
    peer: NodeId


@dataclass(frozen=True, slots=True)
class Read:
    """A client asks a node for a linearizable read."""

    name: ClassVar[str] = "read"
    node: NodeId


@dataclass(frozen=True, slots=True)
class Sync:
    """The disk of a node finishes: all that was appended is durable, or what is below `end`."""

    name: ClassVar[str] = "sync"
    node: NodeId
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Crash:
    """A node stops at once. `power`: what was not durable is lost, as when power fails, but for the first
    `keep` records."""

    name: ClassVar[str] = "crash"
    node: NodeId
    power: bool = False
    keep: int | None = None


@dataclass(frozen=True, slots=True)
class Doom:
    """A node will crash just before it stores something for the nth time from now, in the middle of what it
    does then."""

    name: ClassVar[str] = "doom"
    node: NodeId
    stores: int = 1


@dataclass(frozen=True, slots=True)
class Wipe:
    """A node that is down gets a new, empty disk."""

    name: ClassVar[str] = "wipe"
    node: NodeId


@dataclass(frozen=True, slots=True)
class Restart:
    """A node that is down starts from its disk."""

    name: ClassVar[str] = "restart"
    node: NodeId


@dataclass(frozen=True, slots=True)
class Pause:
    """A node stands still: it receives nothing, and no timer or disk of its moves."""

    name: ClassVar[str] = "pause"
    node: NodeId


@dataclass(frozen=True, slots=True)
class Resume:
    name: ClassVar[str] = "resume"
    node: NodeId


@dataclass(frozen=True, slots=True)
class Cut:
    """A link is cut: messages wait until it is healed, or are dropped."""

    name: ClassVar[str] = "cut"
    one: NodeId
    other: NodeId


@dataclass(frozen=True, slots=True)
class Heal:
    name: ClassVar[str] = "heal"
    one: NodeId
    other: NodeId


Step = (
    Deliver
    | Repeat
    | Drop
    | Lose
    | Exchange
    | Fire
    | Tick
    | Propose
    | Read
    | Resign
    | Transfer
    | AddVoter
    | RemoveVoter
    | UpdateVoter
    | AdoptVoters
    | Snapshot
    | Trim
    | Check
    | Sync
    | Crash
    | Doom
    | Wipe
    | Restart
    | Pause
    | Resume
    | Cut
    | Heal
    | Unreachable
    | GiveUp
)

_KINDS: Final[dict[str, type[Step]]] = {each.name: each for each in get_args(Step)}


def step_to_json(step: Step) -> dict[str, Json]:
    """Return the step as a JSON object. Fields with their default are left out."""
    found: dict[str, Json] = {"step": step.name}
    for each in fields(step):
        value = getattr(step, each.name)
        if value != each.default:
            found[each.name] = list(value) if isinstance(value, tuple) else value
    return found


def step_from_json(given: Json) -> Step:
    """Return the step of a JSON object. Raises `StepError` that names the field and the remedy."""
    if not isinstance(given, dict):
        raise StepError('a step is an object such as {"step": "tick"}')
    name = given.get("step")
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise StepError(f"step: {name!r} is none of {', '.join(_KINDS)}")
    hints = get_type_hints(kind)
    values: dict[str, object] = {}
    for each in fields(kind):
        if each.name in given:
            values[each.name] = _checked(each.name, hints[each.name], given[each.name])
        elif each.default is MISSING:
            raise StepError(f"{each.name}: is missing; a step {name!r} needs it")
    unknown = [each for each in given if each not in values and each != "step"]
    if unknown:
        raise StepError(f"{unknown[0]}: a step {name!r} has no such field; take it out")
    return kind(**values)  # type: ignore[arg-type]  # each was checked against its hint


def _checked(name: str, hint: object, value: Json) -> object:
    if hint is bool:
        if not isinstance(value, bool):
            raise StepError(f"{name}: must be true or false, not {value!r}")
        return value
    if hint is str:
        is_plain = isinstance(value, str) and 0 < len(value) <= TEXT_MAX and value.isprintable()
        if not is_plain:
            raise StepError(f"{name}: must be a printable text of 1 to {TEXT_MAX} characters")
        return value
    if hint == tuple[NodeId, ...]:
        if not isinstance(value, list):
            raise StepError(f"{name}: must be a list of node ids, not {value!r}")
        return tuple(_number(name, each) for each in value)
    if value is None and hint in (NodeId | None, int | None):
        return None
    if hint == int | None:
        return _number(name, value, least=0, most=OFFSET_MAX)
    return _number(name, value, least=_NAMES_MIN if name == "peer" else 1)


def _number(name: str, value: Json, *, least: int = 1, most: int = ROUNDS_MAX) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise StepError(f"{name}: must be a number from {least} to {most}, not {value!r}")
    return value
