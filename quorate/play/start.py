"""The beginning of a played world, and its form in JSON."""

from dataclasses import dataclass, fields
from typing import Final

from quorate.play.steps import OFFSET_MAX, Json

NODES_MIN: Final = 1
NODES_MAX: Final = 7
"""As in figure 7 of the Raft paper."""
OFFERED_MAX: Final = 5
"""The page offers so many. More are for scripts: too much happens among them to be clicked through."""
LOG_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The beginning of a world. Raises `ValueError` that names the field."""

    nodes: int = 3
    voters: int = 0
    """The first so many nodes are voters, and the others observers. 0: all are voters."""
    dynamic: bool = False
    """The voters are in the log and may change (KIP-853), instead of in the configuration."""
    logs: tuple[tuple[int, ...], ...] = ()
    """The epochs of the records that each node has on its disk. Empty: none."""
    epoch: int = 0
    """The epoch that all have on their disks."""
    epochs: tuple[int, ...] = ()
    """The epoch that each has on its disk, if they differ."""
    down: bool = False
    """All nodes are down."""
    fetch: int = 1
    """The most records in the answer to a Fetch. With one, each is seen on its way."""

    def __post_init__(self) -> None:
        if not NODES_MIN <= self.nodes <= NODES_MAX:
            raise ValueError(
                f"nodes: must be {NODES_MIN} to {NODES_MAX}, not {self.nodes}; the page offers "
                f"{NODES_MIN} to {OFFERED_MAX}, and a script may have {NODES_MAX}"
            )
        if not 0 <= self.voters <= self.nodes:
            raise ValueError(f"voters: must be 1 to {self.nodes}, the number of nodes, not {self.voters}")
        if not 1 <= self.fetch <= OFFSET_MAX:
            raise ValueError(f"fetch: must be 1 to {OFFSET_MAX}, not {self.fetch}")
        for name, found in (("logs", len(self.logs)), ("epochs", len(self.epochs))):
            if found not in (0, self.nodes):
                raise ValueError(f"{name}: must have one entry for each of the {self.nodes} nodes")
        if any(list(log) != sorted(log) or min(log, default=1) < 1 for log in self.logs):
            raise ValueError("logs: epochs begin at 1 and never go back in a log")
        for log, epoch in zip(self.logs, self.epochs_of_nodes, strict=False):
            newest = max(log, default=0)
            if newest > epoch:
                name = "epochs" if self.epochs else "epoch"
                raise ValueError(f"{name}: must be at least {newest}, the highest in the logs")

    @property
    def epochs_of_nodes(self) -> tuple[int, ...]:
        return self.epochs or (self.epoch,) * self.nodes


START_FIELDS: Final = tuple(each.name for each in fields(Start))


def start_to_json(start: Start) -> dict[str, Json]:
    """Return the start as a JSON object. Fields with their default are left out, but for the nodes."""
    found: dict[str, Json] = {}
    for each in fields(start):
        value = getattr(start, each.name)
        if each.name == "nodes" or value != each.default:
            found[each.name] = _listed(value)
    return found


def start_from_json(given: dict[str, Json]) -> Start:
    """Return the start of a world. Raises `ValueError` that names the field."""
    logs = given.get("logs", [])
    if not isinstance(logs, list) or not all(isinstance(log, list) and len(log) <= LOG_MAX for log in logs):
        raise ValueError("logs: must be a list of lists of epochs, one for each node")
    epochs = given.get("epochs", [])
    if not isinstance(epochs, list):
        raise ValueError("epochs: must be a list of epochs, one for each node")
    return Start(
        nodes=_number("nodes", given.get("nodes", 3)),
        voters=_number("voters", given.get("voters", 0)),
        dynamic=_flag("dynamic", given),
        logs=tuple(_epochs("logs", log) for log in logs if isinstance(log, list)),
        epoch=_number("epoch", given.get("epoch", 0)),
        epochs=_epochs("epochs", epochs),
        down=_flag("down", given),
        fetch=_number("fetch", given.get("fetch", 1)),
    )


def _listed(value: object) -> Json:
    if isinstance(value, tuple):
        return [_listed(each) for each in value]
    assert isinstance(value, int)  # noqa: S101 (numbers and flags are all that remains)
    return value


def _number(name: str, value: Json) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise ValueError(f"{name}: must be a number, not {value!r}")
    return value


def _flag(name: str, given: dict[str, Json]) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise ValueError(f"{name}: must be true or false, not {value!r}")
    return value


def _epochs(name: str, given: list[Json]) -> tuple[int, ...]:
    found = [each for each in given if isinstance(each, int) and not isinstance(each, bool)]
    if len(found) != len(given):
        raise ValueError(f"{name}: {given!r} has something that is no epoch")
    return tuple(found)
