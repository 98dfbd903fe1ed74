"""Each defect in docs/reference/findings.md names a rule and a test that exists."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "findings.md"
_TEST = re.compile(r"\[(\S+?)\]\(\.\./\.\./(\S+?)\)")


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in lines
        if not line.startswith("| finding ")
    ]


def functions(file: Path) -> set[str]:
    tree = ast.parse(file.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_each_finding_names_what_went_wrong_the_rule_and_a_test_that_exists() -> None:
    for row in rows():
        assert len(row) == 4, f"not four cells: {row}"
        assert all(row), f"an empty cell: {row}"
        tests = _TEST.findall(row[3])
        assert tests, f"{row[0]} names no test"
        for name, path in tests:
            file = ROOT / path
            assert file.is_file(), f"{row[0]} names {path}, which is not there"
            if file.suffix == ".py" and name != file.name:
                assert name in functions(file), f"{path} has no {name}"
