"""One enum of Kafka's error codes, and which of them each package answers with."""

import ast
from collections.abc import Set
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode as WireErrorCode

from quorate.broker.controller.rpc import CONTROLLER_CODES
from quorate.broker.wire.wire_errors import wire_code
from quorate.error_code import ErrorCode
from quorate.raft.transport.frame_fields import QUORUM_CODES

SOURCE = Path(__file__).parents[1] / "quorate"


@pytest.mark.parametrize("code", ErrorCode, ids=lambda code: code.name)
def test_a_code_has_kafkas_number_and_name(code: ErrorCode) -> None:
    theirs = WireErrorCode(code.value)
    assert code.name == theirs.name.upper()
    assert wire_code(code) is theirs


@pytest.mark.slow
def test_there_is_one_enum_of_codes() -> None:
    """A code that is missing is added there."""
    enums = [
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and node.name == "ErrorCode"
    ]
    assert enums == ["error_code.py"]


@pytest.mark.parametrize(
    ("package", "codes"),
    [("raft", QUORUM_CODES), ("broker/controller", CONTROLLER_CODES), ("broker/metadata", CONTROLLER_CODES)],
)
def test_a_package_answers_with_what_its_peers_take(package: str, codes: Set[ErrorCode]) -> None:
    """Else the peer that asked refuses the answer as none of this protocol."""
    named = {
        (path.relative_to(SOURCE).as_posix(), node.attr)
        for path in (SOURCE / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "ErrorCode"
    }
    assert named
    assert not {(path, name) for path, name in named if ErrorCode[name] not in codes}
