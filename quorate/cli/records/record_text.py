"""Records as text: lines, JSON, and a form of one's own."""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from quorate.cli.console.cli_errors import UsageError

Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A record to send. None: it has no key, or no value, which deletes its key from a compacted topic."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[Header] = ()
    partition: int | None = None
    """None: by the hash of its key, as Java's clients do it, or any."""
    timestamp_ms: int | None = None
    """None: now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A record that was read."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]


class RecordTextError(UsageError):
    """A line is no record. The message says which, and the remedy."""


def parse_line(line: bytes, *, key_separator: bytes | None, null: bytes | None) -> Outgoing:
    """Parse a line without its end. `key_separator`: what stands between key and value; None: there is no
    key. `null`: the text that stands for no key or value. Raises `RecordTextError`."""
    key, value = None, line
    if key_separator is not None:
        key, found, value = line.partition(key_separator)
        if not found:
            raise RecordTextError(
                f"it has no {key_separator.decode(errors='replace')!r} between a key and a value"
            )
    return Outgoing(key=None if key == null else key, value=None if value == null else value)


_FIELDS: Final = ("key", "value", "headers", "partition", "timestamp")
_OF_READING: Final = ("topic", "offset")
"""Fields that `consume --json` prints beside. They are ignored, so that its lines can be sent again."""


def parse_json(line: bytes) -> Outgoing:
    """Parse a line as `consume --json` prints it. Raises `RecordTextError`."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RecordTextError(f"it is no JSON: {error}") from None
    if not isinstance(fields, dict):
        raise RecordTextError('it is no JSON object, such as {"key": "k", "value": "v"}')
    if unknown := fields.keys() - {*_FIELDS, *_OF_READING}:
        raise RecordTextError(f"{min(unknown)!r} is none of {', '.join(_FIELDS)}")
    headers = fields.get("headers") or []
    if not isinstance(headers, list) or not all(
        isinstance(each, list) and len(each) == 2 for each in headers
    ):
        raise RecordTextError('"headers" is no list of [name, value]')
    partition, timestamp = fields.get("partition"), fields.get("timestamp")
    # A timestamp of 0 would be sent as the time of now.
    for name, number, least in (("partition", partition, 0), ("timestamp", timestamp, 1)):
        if number is not None and (type(number) is not int or not least <= number < 2**63):
            raise RecordTextError(f'"{name}" is no number from {least} on')
    return Outgoing(
        key=_bytes_of("key", fields.get("key")),
        value=_bytes_of("value", fields.get("value")),
        headers=[(str(name), _bytes_of("headers", value)) for name, value in headers],
        partition=partition,
        timestamp_ms=timestamp,
    )


def _bytes_of(name: str, value: object) -> bytes | None:
    match value:
        case None:
            return None
        case str():
            return value.encode("utf-8", "surrogatepass")
        case {"base64": str(text), **rest} if not rest:
            try:
                return base64.b64decode(text, validate=True)
            except ValueError:
                raise RecordTextError(f'"{name}" has text that is no base64') from None
    raise RecordTextError(f'"{name}" is neither text, null nor {{"base64": "..."}}')


def as_json(record: Incoming) -> str:
    """Return a record as a line of JSON. What is no UTF-8 is `{"base64": "..."}`."""
    return json.dumps(
        {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp_ms,
            "key": _shown(record.key),
            "value": _shown(record.value),
            "headers": [[name, _shown(value)] for name, value in record.headers],
        },
        ensure_ascii=False,
    )


def _shown(data: bytes | None) -> object:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


_PARTS: Final[Mapping[str, Callable[[Incoming], bytes]]] = MappingProxyType(
    {
        "t": lambda record: record.topic.encode(),
        "p": lambda record: b"%d" % record.partition,
        "o": lambda record: b"%d" % record.offset,
        "T": lambda record: b"%d" % (-1 if record.timestamp_ms is None else record.timestamp_ms),
        "k": lambda record: record.key or b"",
        "s": lambda record: record.value or b"",
        "K": lambda record: b"%d" % (-1 if record.key is None else len(record.key)),
        "S": lambda record: b"%d" % (-1 if record.value is None else len(record.value)),
        "h": lambda record: b",".join(
            name.encode() + b"=" + (value or b"") for name, value in record.headers
        ),
        "%": lambda record: b"%",
    }
)
_ESCAPES: Final = MappingProxyType({"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"})


def form_of(template: str) -> Callable[[Incoming], bytes]:
    r"""Return what writes a record by a template, in kcat's letters: %t topic, %p partition, %o offset, %T
    timestamp, %k key, %s value, %K and %S their lengths (-1: none), %h headers, %%, and \n, \t, \r, \0.
    Raises `UsageError`."""
    parts: list[bytes | Callable[[Incoming], bytes]] = []
    letters = iter(template)
    for letter in letters:
        if letter not in "%\\":
            parts.append(letter.encode())
            continue
        named = next(letters, "")
        known = _PARTS if letter == "%" else _ESCAPES
        if named not in known:
            shown = ", ".join(letter + each for each in known)
            raise UsageError(f"--format: {letter}{named} is unknown; there are {shown}")
        parts.append(known[named])
    return lambda record: b"".join(each if isinstance(each, bytes) else each(record) for each in parts)
