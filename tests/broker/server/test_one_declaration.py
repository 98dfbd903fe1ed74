"""A setting, a field of a message and an API are one declaration each and its behaviour: the changes in
CONTRIBUTING.md, applied to a copy of the source, are all that each needs."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from quorate.broker.metadata.metadata_records import RemoveTopic
from quorate.broker.metadata.record_codec import decode

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.slow


def changed_copy(heading: str, to: Path) -> Path:
    """Copy the source, apply the diffs in this section of CONTRIBUTING.md, and write the generated types."""
    for folder in ("quorate", "scripts", "tests"):
        shutil.copytree(ROOT / folder, to / folder, ignore=shutil.ignore_patterns("__pycache__"))
    text = (ROOT / "CONTRIBUTING.md").read_text()
    (section,) = re.findall(rf"^## {heading}\n(.+?)^## ", text, re.MULTILINE | re.DOTALL)
    for file in re.findall(r"^```diff\n(.+?)^```$", section, re.MULTILINE | re.DOTALL):
        apply(file, to)
    run(to, "scripts/generate_answers.py")
    return to


def apply(diff: str, to: Path) -> None:
    """Apply a diff of one file, each of whose pieces is in it once."""
    (name,) = re.findall(r"^\+\+\+ b/(.+)$", diff, re.MULTILINE)
    for piece in re.split(r"^(?:\+\+\+|@@).*\n", diff, flags=re.MULTILINE)[1:]:
        lines = piece.splitlines(keepends=True)
        before = "".join(line[1:] or "\n" for line in lines if not line.startswith("+"))
        after = "".join(line[1:] or "\n" for line in lines if not line.startswith("-"))
        text = (to / name).read_text()
        assert text.count(before) == 1, f"the diff of CONTRIBUTING.md does not fit {name}"
        (to / name).write_text(text.replace(before, after))


def run(copy: Path, *arguments: str) -> list[str]:
    """Run Python in the copy. Return the lines that it prints."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=copy,
        env={"PYTHONPATH": ":".join(map(str, (copy, copy / "scripts", copy / "tests/kit")))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


KEY = "quorate.metrics.scrapes.max"
KEY_DOC = "The maximum number of requests that the metrics endpoint serves at once."
SETTING = '''
from types import SimpleNamespace

import generate_docs
from quorate.broker.apis.describe_configs import _entries
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.node_config.properties_file import ServerConfigError
from quorate.broker.node_config.server_config import ServerConfig
from quorate.cli.node.local_cluster import NodeSettingError, parse_settings

NODE = """
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
controller.quorum.voters=1@localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://localhost:9093
"""
print("default", ServerConfig.parse(NODE).metrics.scrapes_max)
config = ServerConfig.parse(NODE + "quorate.metrics.scrapes.max=7")
print("read", config.metrics.scrapes_max)
for line in ("quorate.metrics.scrapes.max=1001", "quorate.metric.scrapes.max=7"):
    try:
        ServerConfig.parse(NODE + line)
    except ServerConfigError as error:
        print("refused", error)
try:
    parse_settings(["quorate.metrics.scrapes.max=0"])
except NodeSettingError as error:
    print("command", error)
broker = SimpleNamespace(config=config, image=MetadataImage())
request = SimpleNamespace(include_synonyms=True, include_documentation=True)
for entry in _entries(broker, 4, "1", request):
    if entry["name"] == "quorate.metrics.scrapes.max":
        print("described", entry["value"], entry["config_source"], entry["config_type"], entry["read_only"])
        print("synonyms", [each["value"] for each in entry["synonyms"]], entry["documentation"])
rows = generate_docs.server_keys().splitlines()
print("row", *(row for row in rows if "quorate.metrics.scrapes.max" in row))
'''
"""It prints the appearances of the key: in server.properties, the command line, DescribeConfigs, the page."""


def test_a_setting_is_one_field(tmp_path: Path) -> None:
    assert run(changed_copy("A setting is one field", tmp_path), "-c", SETTING) == [
        "default 16",
        "read 7",
        f"refused line 7: {KEY} is '1001'; it must be between 1 and 1000. {KEY_DOC}",
        f"refused line 7: quorate.metric.scrapes.max is not a known key; did you mean {KEY}?",
        f"command --config {KEY} is '0'; it must be between 1 and 1000. {KEY_DOC}",
        "described 7 4 3 True",
        f"synonyms ['7', '16'] {KEY_DOC}",
        f"row | `{KEY}` | int | `16` | {KEY_DOC} | Kafka has no such key. |",
    ]


FIELD = """
import runpy
from pathlib import Path
from uuid import UUID

from typer.testing import CliRunner

from quorate.broker.controller.operations.topic_lifecycle import delete_topics
from quorate.broker.controller.rpc import DeleteTopicsRequest, TopicRef
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.record_codec import RecordDecodeError, decode, encode
from quorate.broker.metadata.metadata_records import Partition, RemoveTopic, Topic
from quorate.cli.commands.log_commands import app
from quorate.log.batches.records import build_batch

ID = UUID(int=7)
image = MetadataImage()
image.apply(Topic(name="t", topic_id=ID), offset=0, epoch=1)
for each in range(2):
    image.apply(Partition(topic_id=ID, partition_id=each, replicas=(1,), isr=(1,)), offset=1 + each, epoch=1)
((record,),) = delete_topics(image, DeleteTopicsRequest(topics=(TopicRef(name="t"),))).groups
print("written", record.num_partitions)
data = encode(record)
print(data.hex())
print("read", decode(data) == record)
print("of an older version", decode(encode(RemoveTopic(topic_id=ID))).num_partitions)
try:
    decode(encode(RemoveTopic(topic_id=ID, num_partitions=0)))
except RecordDecodeError as error:
    print("refused", error)
golden = runpy.run_path("tests/broker/controller/test_golden_bytes.py")
held = golden["golden"]()
changed = [name for name, (of, _, write) in golden["EXAMPLES"].items() if write(of).hex() != held[name]]
print("other bytes", changed)
log = Path("__cluster_metadata-0/00000000000000000000.log")
log.parent.mkdir()
log.write_bytes(build_batch(base_offset=0, epoch=1, timestamp_ms=0, values=[data]))
print("command", *CliRunner().invoke(app, ["dump", str(log)]).output.splitlines()[1:])
"""
"""It prints the appearances of the field: in the operation, codec, golden bytes and `quorate log dump`."""


def test_a_field_of_a_message_is_one_line(tmp_path: Path) -> None:
    written, data, *rest = run(changed_copy("A field of a message is one line", tmp_path), "-c", FIELD)
    assert written == "written 2"
    removed = decode(bytes.fromhex(data))
    assert isinstance(removed, RemoveTopic) and removed.topic_id.int == 7  # This version skips the field.
    assert rest == [
        "read True",
        "of an older version None",
        "refused not a metadata record: RemoveTopic.num_partitions: 0 is not within 1 and 2147483647",
        "other bytes []",
        "command   | offset: 0 timestamp: 0 type: RemoveTopic version: 0 "
        "record: {'topic_id': 'AAAAAAAAAAAAAAAAAAAABw', 'num_partitions': 2}",
    ]


API = """
import random

import generate_docs
import trio
from kio.schema.errors import ErrorCode
from kio.schema.list_transactions.v1.request import ListTransactionsRequest
from trio.testing import MockClock

from quorate.broker.apis import answers
from quorate.broker.apis.api_table import ROWS
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.exchanges import Refusal
from quorate.broker.wire.wire_errors import KafkaError
from quorate.broker.wire.codecs.entities import decode_entity, response_type
from quorate.runtime import NetworkError
from tests.broker.apis.test_api_row import served

KEY = ApiKey.LIST_TRANSACTIONS


async def main():
    async with served() as client:
        print("named", client.versions[KEY])
        answer = await client.call(KEY, state_filters=["Ongoing"])
        print("answered", answer.error_code.name, answer.transaction_states)
        try:
            await client._call(KEY.api, 2, [b"\\0"], None)
        except NetworkError:
            print("version 2 closed the connection")
    refused = await ROWS[KEY].refusal(ListTransactionsRequest(), Refusal(1, ErrorCode.request_timed_out))
    answer = decode_entity(response_type(KEY, 1), memoryview(b"".join(refused.body)))
    print("refused", answer.error_code.name)
    print("typed", sorted(answers.ListTransactionsResponse.__annotations__))


trio.run(main, clock=MockClock(autojump_threshold=0))
rows = generate_docs.apis().splitlines()
print("row", *(row for row in rows if "ListTransactions" in row))
"""
"""It prints the appearances of the API: in ApiVersions, an answer, a refusal, the types and on the page."""


def test_an_api_is_one_line_and_a_row(tmp_path: Path) -> None:
    assert run(changed_copy("An API is one line and a row", tmp_path), "-c", API) == [
        "named (0, 1)",
        "answered none ()",
        "version 2 closed the connection",
        "refused request_timed_out",
        "typed ['error_code', 'throttle_time', 'transaction_states', 'unknown_state_filters']",
        "row | ListTransactions | 66 | 0 to 1 | from 0 | brokers |  |",
    ]
