"""Handlers read every request as the newest version's class, whatever version it came in."""

import ast
import dataclasses
import inspect
import re
from datetime import timedelta
from pathlib import Path
from typing import get_args

import pytest
import trio
from hypothesis import given, settings
from kio.schema.errors import ErrorCode

from quorate.broker.apis import dispatch
from quorate.broker.wire import error_responses
from quorate.broker.wire.api import APIS, ApiKey
from quorate.broker.wire.codecs import build, encode_entity, request_type, response_type, struct_arrays
from quorate.broker.wire.newest_version import _FORMER, BY_NAME, newest_form
from quorate.broker.wire.request_codec import decode_request

ROOT = Path(__file__).parents[3]
TYPED = [*sorted((ROOT / "quorate/broker/apis").glob("*.py")), Path(error_responses.__file__)]
CLIENTS = sorted((ROOT / "tests/simulator/brokers").glob("*.py"))
SERVED = [
    (api.key, version)
    for api in APIS.values()
    for version in range(api.min_version, api.max_version + 1)
    if api.key not in (ApiKey.PRODUCE, ApiKey.FETCH)
]
HANDLERS = dispatch._AWAITED | dispatch._HANDLERS


def read(message):
    body = memoryview(b"".join(encode_entity(message)))
    return trio.run(decode_request, message.__api_key__, message.__version__, body)


def check_fields(got, sent, newest):
    """Whatever the newest version has can be read; what was sent is there."""
    own = {field.name for field in dataclasses.fields(sent)}
    for field in dataclasses.fields(newest):
        value = getattr(got, field.name)
        if field.name not in own:
            if field.default is not dataclasses.MISSING and (newest.__name__, field.name) not in _FORMER:
                assert value == field.default
            continue
        struct = struct_arrays(newest).get(field.name)
        if struct is None or value is None:
            assert value == getattr(sent, field.name)
        else:
            for each, theirs in zip(value, getattr(sent, field.name), strict=True):
                check_fields(each, theirs, struct)


@pytest.mark.hypothesis
@pytest.mark.parametrize(("key", "version"), SERVED, ids=lambda value: getattr(value, "name", value))
def test_a_request_of_every_version_has_every_field_of_the_newest(key, version, entities):
    @settings(max_examples=settings().max_examples // 5)
    @given(entities(request_type(key, version)))
    def check(message):
        check_fields(read(message), message, request_type(key, newest_form(key, version)))

    check()


def test_what_was_asked_for_in_another_form_has_the_newest():
    minute = timedelta(minutes=1)
    deletion = read(build(request_type(ApiKey.DELETE_TOPICS, 5), topic_names=("a", "b"), timeout=minute))
    assert [(each.name, each.topic_id) for each in deletion.topics] == [("a", None), ("b", None)]
    assert deletion.timeout == minute
    assert read(build(request_type(ApiKey.FIND_COORDINATOR, 0), key="g")).coordinator_keys == ("g",)
    left = read(build(request_type(ApiKey.LEAVE_GROUP, 2), group_id="g", member_id="m"))
    assert [(each.member_id, each.group_instance_id) for each in left.members] == [("m", None)]
    asked = [{"name": "t", "partition_indexes": (3, 4)}]
    (group,) = read(build(request_type(ApiKey.OFFSET_FETCH, 1), group_id="g", topics=asked)).groups
    assert (group.group_id, [(each.name, each.partition_indexes) for each in group.topics]) == (
        "g", [("t", (3, 4))],
    )  # fmt: skip
    (group,) = read(build(request_type(ApiKey.OFFSET_FETCH, 7), group_id="g", topics=None)).groups
    assert group.topics is None


@pytest.mark.parametrize("path", TYPED + CLIENTS, ids=lambda path: path.stem)
def test_what_the_type_checker_is_told_is_the_newest_version_that_we_serve(path):
    newest = {api.key.name.lower(): api.max_version for api in APIS.values()}
    for name, version in re.findall(r"kio\.schema\.(\w+)\.v(\d+)\.re", path.read_text()):
        forms = {newest[name], BY_NAME.get(ApiKey[name.upper()], newest[name])}
        assert int(version) in forms, f"{name} is served up to version {newest[name]}"


@pytest.mark.parametrize("key", HANDLERS | error_responses._BUILDERS, ids=lambda key: ApiKey(key).name)
def test_what_takes_a_request_says_that_it_takes_this_one(key):
    """The type checker doesn't see which request the tables hand to whom."""
    name = request_type(key, APIS[key].max_version).__name__
    takes = [(error_responses._BUILDERS.get(key), 0), (HANDLERS.get(key), 2)]
    for function, place in takes:
        if function is not None:
            told = list(inspect.signature(function).parameters.values())[place].annotation
            home = inspect.getsource(inspect.getmodule(function))
            alias = rf"import (\(\s*)?{name} as {told}\b"
            told = name if re.search(alias, home) else getattr(told, "__name__", told)
            assert told in ("object", name, f"Kafka{name}"), function


def test_a_misspelt_field_of_an_answer_is_an_error():
    newest = response_type(ApiKey.METADATA, APIS[ApiKey.METADATA].max_version)
    with pytest.raises(TypeError, match=r"MetadataResponse has no field \['cluster'\]"):
        build(newest, cluster="x")
    with pytest.raises(TypeError, match=r"MetadataResponsePartition has no field \['isr'\]"):
        build(newest, topics=[{"partitions": [{"isr": ()}]}])
    older = build(response_type(ApiKey.METADATA, 0), cluster_id="x", brokers=[{"rack": "r", "node_id": 3}])
    assert [each.node_id for each in older.brokers] == [3], "what an older version lacks is left out"


def field_names(kind):
    """Those of a struct, and of the structs in it."""
    if dataclasses.is_dataclass(kind):
        for field in dataclasses.fields(kind):
            yield field.name
            yield from field_names(field.type)
    for part in get_args(kind):
        yield from field_names(part)


@pytest.mark.parametrize("path", TYPED, ids=lambda path: path.stem)
def test_every_field_of_an_answer_is_one_of_its_api(path):
    """Those that only an old version has, or that no test's answer has, too: literal keys and keywords."""
    known = {
        name
        for key in APIS
        for version in range(APIS[key].min_version, APIS[key].max_version + 1)
        for kind in (request_type, response_type)
        for name in field_names(kind(key, version))
    }
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Dict):
            named = [each.value for each in node.keys if isinstance(each, ast.Constant)]
        elif isinstance(node, ast.Call) and "respond" in ast.unparse(node.func):
            named = [each.arg for each in node.keywords if each.arg is not None]
        else:
            continue
        unknown = {name for name in named if isinstance(name, str)} - known
        assert not unknown, f"{path.name}:{node.lineno}: {unknown}"


def test_a_refusal_of_an_old_form_is_in_that_form():
    request = read(build(request_type(ApiKey.FIND_COORDINATOR, 3), key="g"))
    answer = trio.run(
        error_responses.protocol_error_response, ApiKey.FIND_COORDINATOR, 3, request, ErrorCode.not_controller
    )
    assert b"\0\x29" in b"".join(answer.body)
