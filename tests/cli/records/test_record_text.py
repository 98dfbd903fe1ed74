"""Records as text: what is printed can be sent again, and a wrong line says why."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.cli.console.cli_errors import UsageError
from quorate.cli.records.record_text import (
    Incoming,
    Outgoing,
    RecordTextError,
    as_json,
    form_of,
    parse_json,
    parse_line,
)

BYTES = (
    st.none()
    | st.binary(max_size=20)
    | st.text(max_size=20).map(lambda text: text.encode("utf-8", "surrogatepass"))
)
RECORD = Incoming(
    topic="orders", partition=3, offset=17, timestamp_ms=1_700_000_000_000, key=b"k", value=b"v",
    headers=[("trace", b"1"), ("none", None)],
)  # fmt: skip


@pytest.mark.hypothesis
@given(key=BYTES, value=BYTES, header=BYTES, timestamp=st.none() | st.integers(1, 2**62))
def test_a_record_that_is_printed_as_json_is_the_same_when_it_is_sent(key, value, header, timestamp):
    line = as_json(
        Incoming(topic="t", partition=2, offset=5, timestamp_ms=timestamp, key=key, value=value,
                 headers=[("h\u00e9", header)])
    )  # fmt: skip
    assert "\n" not in line
    assert parse_json(line.encode("utf-8", "surrogatepass")) == Outgoing(
        value=value, key=key, headers=[("h\u00e9", header)], partition=2, timestamp_ms=timestamp
    )


def test_a_line_is_a_value_or_a_key_and_a_value():
    assert parse_line(b"a:b:c", key_separator=None, null=None) == Outgoing(value=b"a:b:c")
    assert parse_line(b"a:b:c", key_separator=b":", null=None) == Outgoing(key=b"a", value=b"b:c")
    assert parse_line(b"a:NIL", key_separator=b":", null=b"NIL") == Outgoing(key=b"a", value=None)
    assert parse_line(b"", key_separator=None, null=None) == Outgoing(value=b"")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"{", "it is no JSON"), (b"[" * 100_000, "it is no JSON"), (b"[1]", "it is no JSON object"),
        (b'{"valeu": "v"}', "'valeu' is none of key, value"), (b'{"value": 1}', '"value" is neither text'),
        (b'{"value": {"base64": "?"}}', "no base64"), (b'{"partition": -1}', '"partition" is no number'),
        (b'{"partition": true}', '"partition" is no number'), (b'{"timestamp": 1.5}', '"timestamp" is no'),
        (b'{"timestamp": 0}', '"timestamp" is no number from 1 on'),
        (b'{"headers": {"a": "b"}}', '"headers" is no list'), (b"\xff", "it is no JSON"),
        (b'{"value": {"base64": "", "more": 1}}', '"value" is neither text'),
    ],
)  # fmt: skip
def test_a_line_that_is_no_record_says_why(line, says):
    with pytest.raises(RecordTextError, match=says):
        parse_json(line)


def test_a_key_that_ends_nowhere_is_named():
    with pytest.raises(RecordTextError, match="it has no ':' between a key and a value"):
        parse_line(b"abc", key_separator=b":", null=None)


def test_a_form_has_the_letters_of_kcat():
    assert form_of(r"%t/%p@%o %T %k=%s (%K,%S) %h 100%%\n")(RECORD) == (
        b"orders/3@17 1700000000000 k=v (1,1) trace=1,none= 100%\n"
    )
    bare = Incoming(topic="t", partition=0, offset=0, timestamp_ms=None, key=None, value=None, headers=[])
    assert form_of("%k%s%K%S%T")(bare) == b"-1-1-1"


@pytest.mark.parametrize("template", ["%x", "100%", "\\q", "\\"])
def test_a_letter_that_no_form_has_is_refused(template):
    with pytest.raises(UsageError, match=r"--format: .* is unknown; there are "):
        form_of(template)


def test_json_shows_what_is_no_text_as_base64():
    shown = json.loads(
        as_json(
            Incoming(topic="t", partition=0, offset=0, timestamp_ms=0, key=b"\xff", value=None, headers=[])
        )
    )
    assert (shown["key"], shown["value"]) == ({"base64": "/w=="}, None)
