"""The lines of `server.properties`, each checked against its key."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import javaproperties

from quorate.broker.metadata import ConfigKey, Effect
from quorate.broker.settings.config_keys import CONFIG_KEYS


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
        for name, line in lines.items():
            key = CONFIG_KEYS.get(name)
            if key is None:
                raise ServerConfigError(
                    f"{name} is not a known key{_suggestion(name)}", key=name, line=line.number
                )
            if key.effect is Effect.REFUSED:
                raise ServerConfigError(f"{name} can't be set: {key.why}", key=name, line=line.number)
            if line.value or key.default != "":
                self._check(key, line)
        self.all = {
            name: lines[name].value if name in lines else key.default or ""
            for name, key in CONFIG_KEYS.items()
        }

    def _check(self, key: ConfigKey, line: Line) -> None:
        try:
            key.check(line.value)
        except ValueError as error:
            raise ServerConfigError(
                f"{key.name} is {line.value!r}; {_lower(str(error))}. {key.doc}",
                key=key.name,
                line=line.number,
            ) from None

    def required(self, name: str) -> str:
        line = self.lines.get(name)
        if line is None:
            raise ServerConfigError(
                f"{name} is missing; add a line such as {name}={_EXAMPLES[name]}. {CONFIG_KEYS[name].doc}",
                key=name,
            )
        return line.value

    def get(self, name: str) -> str:
        return self.all[name]

    def items(self, name: str) -> list[str]:
        return [item.strip() for item in self.all[name].split(",") if item.strip()]

    def error(self, name: str, problem: str) -> ServerConfigError:
        line = self.lines.get(name)
        return ServerConfigError(f"{name}: {problem}", key=name, line=None if line is None else line.number)


_EXAMPLES: Final = MappingProxyType(
    {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
    }
)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _suggestion(name: str) -> str:
    near = difflib.get_close_matches(name, CONFIG_KEYS, n=1, cutoff=0.8)
    if near:
        return f"; did you mean {near[0]}?"
    return "; remove the line, or look the key up in docs/reference/configuration.md"
