"""The bytes of every metadata record, which are on disks, and of every message between brokers and the
controller, as the versions before wrote them."""

import dataclasses
import typing
import uuid
import zlib
from pathlib import Path

import pytest

from quorate.broker.controller.rpc_codec import (
    ANSWERS,
    EnvelopeRequest,
    Refusal,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from quorate.broker.metadata.metadata_records import Record
from quorate.broker.metadata.record_codec import decode, encode
from quorate.error_code import ErrorCode
from quorate.types import (
    SecretBytes,
)

GOLDEN = Path(__file__).with_name("golden_bytes.txt")


def example(cls: type, *, full: bool) -> object:
    """Make a record or message with its required fields alone, or with every field. Values depend on the
    fields' names. So a dataclass may declare its fields in another order, but not give them other numbers."""
    hints = typing.get_type_hints(cls)
    return cls(
        **{
            each.name: not each.default
            if hints[each.name] is bool
            else value_for(hints[each.name], each.name)
            for each in dataclasses.fields(cls)
            if full or each.default is dataclasses.MISSING
        }
    )


def value_for(hint: object, name: str) -> object:
    number = zlib.crc32(name.encode()) % 1000
    hint = getattr(hint, "__supertype__", hint)  # of a NewType
    args = typing.get_args(hint)
    if type(None) in args:
        return value_for(args[0], name)
    if typing.get_origin(hint) is tuple:
        return (value_for(args[0], name), value_for(args[0], f"{name}, second"))
    if hint is ErrorCode:
        return ErrorCode.FENCED_LEADER_EPOCH
    if hint in (int, bool, float, str, uuid.UUID, SecretBytes):
        return {
            int: 300 + number,
            bool: True,
            float: number + 0.5,
            str: f"s{number}",
            uuid.UUID: uuid.UUID(int=number),
            SecretBytes: SecretBytes(b"%d" % number),
        }[hint]
    assert isinstance(hint, type)
    if dataclasses.is_dataclass(hint):
        return example(hint, full=True)
    return list(hint)[-1]  # type: ignore[call-overload]


EXAMPLES = {
    f"{cls.__name__} {'full' if full else 'least'}": (example(cls, full=full), read, write)
    for types, read, write in (
        (typing.get_args(Record), decode, encode),
        ((*ANSWERS, EnvelopeRequest), decode_request, encode_request),
        ((*ANSWERS.values(), Refusal), decode_response, encode_response),
    )
    for cls in types
    for full in (False, True)
}


def golden() -> dict[str, str]:
    return dict(line.rsplit(": ", 1) for line in GOLDEN.read_text().splitlines())


def test_every_record_and_message_has_golden_bytes() -> None:
    assert sorted(golden()) == sorted(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_record_or_message_has_the_bytes_that_it_always_had(name: str) -> None:
    held, read, write = EXAMPLES[name]
    assert write(held).hex() == golden()[name]  # type: ignore[operator]
    assert read(bytes.fromhex(golden()[name])) == held  # type: ignore[operator]
