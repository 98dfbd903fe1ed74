"""Write the types of answers' fields, `quorate/broker/apis/answers.py`, from kio's classes.

With `--check`, say whether the file is current instead.
"""

import dataclasses
import sys
import textwrap
import uuid
from collections import defaultdict
from datetime import timedelta
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, get_args, get_origin

from kio.schema.errors import ErrorCode

from quorate.broker.wire.api import APIS, ApiKey
from quorate.broker.wire.codecs.entities import response_type

FILE: Final = Path(__file__).resolve().parents[1] / "quorate/broker/apis/answers.py"
HEAD: Final = '''\
"""The fields of answers, for the type checker: each struct of each API in all versions that we serve.

Written by scripts/generate_answers.py. A field may be left out, and has its default then; a field that the
request's version lacks is dropped. Arrays of structs may be generators, which are walked while the answer is
encoded (`encode_in_slices`). Produce and Fetch have codecs, and types, of their own.
"""

# ruff: noqa: UP013, E501
# fmt: off

from collections.abc import AsyncIterable, Iterable
from datetime import timedelta
from typing import TypeAlias, TypedDict, TypeVar
from uuid import UUID

from kio.schema.errors import ErrorCode

_S = TypeVar("_S")
AwaitedStructs: TypeAlias = Iterable[_S] | AsyncIterable[_S]
"""An array of structs that may take a wait each."""

'''
PLAIN: Final = (bool, ErrorCode, int, float, str, bytes, timedelta, uuid.UUID)
AWAITED: Final = (("ListOffsetsTopicResponse", "partitions"), ("DescribeLogDirsResponse", "results"))
"""Arrays whose elements may take a wait each. Others are Iterable alone, because pyright checks no generator
against a choice of two."""
BY_CODEC: Final = (ApiKey.PRODUCE, ApiKey.FETCH)
VAGUE: Final = ("ReplicaState", "PartitionResult", "PartitionResponse", "TopicResponse", "MemberResponse")
"""Names that say little outside of their message, as those of one word do."""


class Struct:
    """A struct of an answer, with the fields of all versions."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.fields: dict[str, str] = {}
        self.nested: dict[str, Struct] = {}

    def take_in(self, kind: type) -> None:
        """Add the fields of the struct in one version. A later one's type counts."""
        for field in dataclasses.fields(kind):
            inner, is_array, optional = _parts(field.type)
            if dataclasses.is_dataclass(inner) and isinstance(inner, type):
                struct = self.nested.setdefault(field.name, Struct(inner.__name__))
                struct.name = inner.__name__
                struct.take_in(inner)
                array = "AwaitedStructs" if (kind.__name__, field.name) in AWAITED else "Iterable"
                said = f"{array}[{{{field.name}}}]" if is_array else f"{{{field.name}}}"
            else:
                said = f"Iterable[{_plain(inner)}]" if is_array else _plain(inner)
            optional = optional or self.fields.get(field.name, "").endswith("| None")
            self.fields[field.name] = f"{said} | None" if optional else said


def _parts(kind: Any) -> tuple[Any, bool, bool]:
    """Return the type without array and null, whether it is an array, and whether it may be null."""
    options = get_args(kind) if get_origin(kind) is UnionType else (kind,)
    (kind,) = (each for each in options if each is not NoneType)
    if get_origin(kind) is tuple:
        inner, _, inner_optional = _parts(get_args(kind)[0])
        assert not inner_optional or inner is uuid.UUID, kind
        return inner, True, len(options) > 1
    return kind, False, len(options) > 1


def _plain(kind: Any) -> str:
    """Return the standard type of a value. kio's has bounds, which are checked when it is encoded."""
    kind = getattr(kind, "__supertype__", kind)
    found = next(
        each for each in PLAIN if issubclass(kind, each) or kind.__name__.endswith(each.__name__.capitalize())
    )
    return found.__name__


def _written(struct: Struct, names: dict[int, str]) -> str:
    inner = {field: names[id(each)] for field, each in struct.nested.items()}
    entries = [f'"{name}": {kind.format(**inner)}' for name, kind in struct.fields.items()]
    name = names[id(struct)]
    head = f'{name} = TypedDict("{name}", {{'
    packed = textwrap.wrap(
        ",\0".join(entry.replace(" ", "\1") for entry in entries).replace("\0", " "),
        106,
        break_long_words=False,
        break_on_hyphens=False,
    )
    one_line = f"{head}{', '.join(entries)}}}, total=False)"
    if len(one_line) <= 110:
        return one_line
    return "\n".join([head, *(f"    {line}".replace("\1", " ") for line in packed), "}, total=False)"])


def source() -> str:
    """Return what the file should be."""
    answers: list[Struct] = []
    for key, api in APIS.items():
        if key not in BY_CODEC:
            newest = response_type(key, api.max_version)
            answers.append(Struct(newest.__name__))
            for version in range(api.min_version, api.max_version + 1):
                answers[-1].take_in(response_type(key, version))
    order: list[tuple[Struct, str]] = []
    for answer in answers:
        _walk(answer, answer.name.removesuffix("Response"), order)
    apis: dict[str, set[str]] = defaultdict(set)
    for struct, api in order:
        apis[struct.name].add(api)
    names = {
        id(struct): struct.name
        if len(apis[struct.name]) == 1 and struct.name not in VAGUE and sum(map(str.isupper, struct.name)) > 1
        else f"{api}{struct.name}"
        for struct, api in order
    }
    every = " | ".join(answer.name for answer in answers)
    union = textwrap.fill(every, 106, initial_indent="    ", subsequent_indent="    ")
    structs = "\n".join(dict.fromkeys(_written(struct, names) for struct, _ in order))
    return f"{HEAD}{structs}\nAnyAnswer: TypeAlias = (\n{union}\n)\n"


def _walk(struct: Struct, api: str, into: list[tuple[Struct, str]]) -> None:
    for each in struct.nested.values():
        _walk(each, api, into)
    into.append((struct, api))


if __name__ == "__main__":
    written = source()
    if "--check" in sys.argv:
        sys.exit(
            None if FILE.read_text() == written else f"{FILE} is not current: run scripts/generate_answers.py"
        )
    FILE.write_text(written)
