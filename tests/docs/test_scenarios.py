"""docs/reference/scenarios.md lists each published bug with its tests: their marks, or a trace's text."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "scenarios.md"
TRACES = ROOT / "tests" / "traces"
_SOURCE = re.compile(
    r"CVE-\d+-\d+|GHSA(?:-\w{4}){3}|NATS \d{4}-\d+|etcd auth design|Kafka [A-Z][a-z]\w+\.\w+|"
    r"KAFKA-\d+|Kafka PR \d+|etcd-io/raft [0-9a-f]{7}|redpanda commit [0-9a-f]{7}|"
    r"(?:aiokafka|librdkafka|OpenSearch|Consul|Copycat|etcd|gRPC|jetcd|kazoo|python-etcd3|Ratis|redpanda|nats-server|strimzi|AutoMQ|"
    r"aiven/inkless|pulsar|platformatic/kafka|hivemind|Patroni) (?:PR|issue) \d+"
)
_ROW = re.compile(r"^\| (?!source \|)([^|]+) \|.*\| (.*) \|$", re.M)
_TEST = re.compile(r"\[(\S+?)\]\(\.\./\.\./(\S+?)\)")


def listed_tests(page: str) -> dict[str, set[tuple[str, str]]]:
    """The name and the file of each test in a row, by the row's first source."""
    return {_SOURCE.findall(row[1])[0]: set(_TEST.findall(row[2])) for row in _ROW.finditer(page)}


def known_sources(page: str) -> set[str]:
    return {source for row in _ROW.finditer(page) for source in _SOURCE.findall(row[1])}


def marked_tests() -> set[tuple[str, str, str]]:
    """The source, the name and the file of each test with a mark `bug`."""
    found = set()
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        text = file.read_text()
        if "mark.bug(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found |= {
                    (ast.literal_eval(mark.args[0]), node.name, str(file.relative_to(ROOT)))
                    for mark in node.decorator_list
                    if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.bug"
                }
    return found


def named_by_traces() -> set[tuple[str, str, str]]:
    """The source, the name and the file of each trace that names the source in its prose."""
    return {
        (source, file.name, str(file.relative_to(ROOT)))
        for file in sorted(TRACES.glob("*.txt"))
        for source in _SOURCE.findall(" ".join(file.read_text().split()))
    }


@pytest.mark.slow
def test_the_page_lists_exactly_the_tests_that_carry_a_bug() -> None:
    page = listed_tests(PAGE.read_text())
    assert len(page) > 60
    rows = {(source, name, file) for source, tests in page.items() for name, file in tests}
    assert rows == marked_tests() | {each for each in named_by_traces() if each[0] in page}


def test_each_bug_that_a_trace_or_a_planted_fault_names_is_on_the_page() -> None:
    planted = (ROOT / "scripts" / "mutate_table.py").read_text()
    named = {source for source, _, _ in named_by_traces()} | set(_SOURCE.findall(planted))
    assert len(named) > 40
    known = known_sources(PAGE.read_text())
    assert named <= known, named - known


@pytest.mark.parametrize("file", sorted(TRACES.glob("*.txt")), ids=lambda file: file.stem)
def test_no_trace_names_a_bug_by_a_letter_and_a_number(file: Path) -> None:
    assert re.findall(r"\([^()]*\b[A-Z]\d{1,2}\b[^()]*\)", file.read_text()) == []


def test_no_test_has_a_letter_and_a_number_for_a_name() -> None:
    letters = re.compile(r"def (test_[a-z]\d+_\w+)")
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    assert [name for file in files for name in letters.findall(file.read_text())] == []
