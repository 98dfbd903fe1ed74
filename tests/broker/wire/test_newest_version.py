"""Handlers read every request as the newest version's class, whatever version it came in."""

import dataclasses
import inspect
import re
from datetime import timedelta
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from kio.schema.errors import ErrorCode
from kio_messages import BY_KIO, of_versions

from quorate.broker.apis.api_table import ROWS
from quorate.broker.wire.api import APIS, ApiKey
from quorate.broker.wire.codecs.entities import build, encode_entity, request_type, response_type
from quorate.broker.wire.codecs.sliced_encoding import struct_arrays
from quorate.broker.wire.exchanges import Refusal
from quorate.broker.wire.newest_version import _FORMER, BY_NAME, newest_form
from quorate.broker.wire.request_codec import decode_request

ROOT = Path(__file__).parents[3]
TYPED = sorted((ROOT / "quorate/broker/apis").glob("*.py"))
CLIENTS = sorted((ROOT / "tests/simulator/brokers").glob("*.py"))


def read(message):
    body = memoryview(b"".join(encode_entity(message)))
    return trio.run(decode_request, APIS[message.__api_key__], message.__version__, body)


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
@of_versions(BY_KIO)
def test_a_request_of_every_version_has_every_field_of_the_newest(key, version, entities):
    @settings(max_examples=settings().max_examples // 5)
    @given(entities(request_type(key, version)))
    def check(message):
        check_fields(read(message), message, request_type(key, newest_form(APIS[key], version)))

    check()


def test_a_request_in_another_form_gets_the_newest():
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
def test_the_type_checker_sees_the_newest_versions_that_we_serve(path):
    newest = {api.key.name.lower(): api.max_version for api in APIS.values()}
    for name, version in re.findall(r"kio\.schema\.(\w+)\.v(\d+)\.re", path.read_text()):
        forms = {newest[name], BY_NAME.get(ApiKey[name.upper()], newest[name])}
        assert int(version) in forms, f"{name} is served up to version {newest[name]}"


@pytest.mark.parametrize("key", ROWS, ids=lambda key: ApiKey(key).name)
def test_the_request_of_a_row_is_that_of_its_key(key):
    """The type checker sees that a row's handlers and refusal take the same request, and not that it is this
    one."""
    name = request_type(key, APIS[key].max_version).__name__
    takes = [(ROWS[key].refuse, 0), (ROWS[key].brokers, 2), (ROWS[key].controllers, 2)]
    for function, place in takes:
        if function is not None:
            told = list(inspect.signature(function).parameters.values())[place].annotation
            home = inspect.getsource(inspect.getmodule(function))
            names = [each.strip() for each in (told if isinstance(told, str) else told.__name__).split("|")]
            known = {alias for alias in names if re.search(rf"import (\(\s*)?{name} as {alias}\b", home)}
            assert known or {"object", name, f"Kafka{name}"} & set(names), function


def test_a_misspelt_field_of_an_answer_is_an_error():
    newest = response_type(ApiKey.METADATA, APIS[ApiKey.METADATA].max_version)
    with pytest.raises(TypeError, match=r"MetadataResponse has no field \['cluster'\]"):
        build(newest, cluster="x")
    with pytest.raises(TypeError, match=r"MetadataResponsePartition has no field \['isr'\]"):
        build(newest, topics=[{"partitions": [{"isr": ()}]}])
    older = build(response_type(ApiKey.METADATA, 0), cluster_id="x", brokers=[{"rack": "r", "node_id": 3}])
    assert [each.node_id for each in older.brokers] == [3], "what an older version lacks is left out"


def test_a_refusal_of_an_old_form_is_in_that_form():
    request = read(build(request_type(ApiKey.FIND_COORDINATOR, 3), key="g"))
    refusal = Refusal(3, ErrorCode.not_controller)
    answer = trio.run(ROWS[ApiKey.FIND_COORDINATOR].refusal, request, refusal)
    assert b"\0\x29" in b"".join(answer.body)
