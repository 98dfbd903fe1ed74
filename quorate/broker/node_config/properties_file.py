"""The lines of `server.properties`, each checked against its key."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import javaproperties

from quorate.broker.settings.all_keys import CONFIG_KEYS, LISTENER_KEYS
from quorate.broker.settings.config_key import ConfigKey, Effect, TypedKey

T = TypeVar("T")

_PREFIX: Final = "listener.name."


class ServerConfigError(ValueError):
    """The configuration is invalid. The message names the line, the fault and the remedy."""

    def __init__(self, message: str, *, key: str | None = None, line: int | None = None) -> None:
        super().__init__(message if line is None else f"line {line}: {message}")
        self.key = key
        self.line = line


@dataclass(frozen=True, slots=True)
class Line:
    number: int
    value: str


def read_lines(text: str) -> Mapping[str, Line]:
    """Parse Java's properties format. Each key may be there once."""
    lines: dict[str, Line] = {}
    row = 1
    try:
        for element in javaproperties.parse(text):
            number, row = row, row + len(element.source.splitlines())
            if not isinstance(element, javaproperties.KeyValue):
                continue
            key = element.key
            if key in lines:
                raise ServerConfigError(
                    f"{key} is set on line {lines[key].number} already; keep one of the two",
                    key=key,
                    line=number,
                )
            # Kafka trims values, Java's format keeps what is behind them.
            lines[key] = Line(number, element.value.strip())
    except javaproperties.InvalidUEscapeError as error:
        raise ServerConfigError(
            f"{error.escape!r} is no character; write \\\\ for a backslash", line=row
        ) from None
    return lines


class PropertyValues:
    """The lines of the file, each checked against its key."""

    def __init__(self, lines: Mapping[str, Line]) -> None:
        self.lines = lines
        self.of_listeners = {name: line for name, line in lines.items() if name.startswith(_PREFIX)}
        """The lines whose keys are set for one listener."""
        for name, line in lines.items():
            key = LISTENER_KEYS.get(_unprefixed(name)) if name in self.of_listeners else CONFIG_KEYS.get(name)
            if key is None:
                raise ServerConfigError(
                    f"{name} is not a known key{_suggestion(name)}", key=name, line=line.number
                )
            if key.effect is Effect.REFUSED:
                raise ServerConfigError(f"{name} can't be set: {key.why}", key=name, line=line.number)
            if line.value or key.default != "":
                self._check(name, key, line)
        self.all = {
            name: lines[name].value if name in lines else key.default or ""
            for name, key in CONFIG_KEYS.items()
        }

    def _check(self, name: str, key: ConfigKey, line: Line) -> None:
        try:
            key.check(line.value)
        except ValueError as error:
            raise ServerConfigError(
                f"{name} is {line.value!r}; {_lower(str(error))}. {key.doc}",
                key=name,
                line=line.number,
            ) from None

    def has(self, key: ConfigKey) -> bool:
        """Return whether the file sets the key."""
        return key.name in self.lines

    def required(self, key: TypedKey[T]) -> T:
        """Return the value of a key that the file must set."""
        if not self.has(key):
            raise ServerConfigError(
                f"{key.name} is missing; add a line such as {key.name}={key.example}. {key.doc}",
                key=key.name,
            )
        return self.get(key)

    def get(self, key: TypedKey[T]) -> T:
        """Return the value of a key: from the file, else the default."""
        return key.parse(self.all[key.name])

    def of_listener(self, key: TypedKey[T], listener: str, *, alone: bool = False) -> T:
        """Return the value of a key for one listener: that with the listener's prefix, else, unless `alone`,
        that for all listeners."""
        line = self.lines.get(f"{_PREFIX}{listener.lower()}.{key.name}")
        if line is not None:
            return key.parse(line.value)
        return key.parse(key.initial) if alone else self.get(key)

    def error_at(self, name: str, line: Line, problem: str) -> ServerConfigError:
        return ServerConfigError(f"{name}: {problem}", key=name, line=line.number)

    def error(self, key: ConfigKey, problem: str) -> ServerConfigError:
        line = self.lines.get(key.name)
        return ServerConfigError(
            f"{key.name}: {problem}", key=key.name, line=None if line is None else line.number
        )


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _unprefixed(name: str) -> str:
    """Return the name of a key that is set for one listener."""
    return name.removeprefix(_PREFIX).partition(".")[2]


def _suggestion(name: str) -> str:
    near = difflib.get_close_matches(name, CONFIG_KEYS, n=1, cutoff=0.8)
    if near:
        return f"; did you mean {near[0]}?"
    return "; remove the line, or look the key up in docs/reference/configuration.md"
