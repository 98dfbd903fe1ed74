"""Every table has one style, in which nothing is cut and no word is broken."""

import ast
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some
from rich.cells import cell_len
from rich.console import Console

from quorate.cli.console.output import print_rows, print_table
from quorate.cli.console.rows import Rows

SOURCE = Path(__file__).parents[2] / "quorate"
WORD = some.text("abcxyz019-_./[]:\u4e2d", min_size=1, max_size=30)
CELL = some.one_of(some.none(), some.integers(), some.lists(WORD, max_size=5).map(" ".join))


def shown(table: Rows, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    print_table(table, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def _columns() -> Iterator[tuple[str, tuple[str, ...]]]:
    """The tables of all commands, by where they are printed. A name that is no constant is one word, and
    several that are unpacked are three."""
    for file in sorted((SOURCE / "cli").rglob("*.py")):
        text = file.read_text()
        for node in ast.walk(ast.parse(text)) if "print_rows(" in text or "Rows(" in text else ():
            match node:
                case ast.Call(ast.Name("print_rows" | "Rows"), [columns, *_]) if file.name != "output.py":
                    assert isinstance(columns, ast.Tuple), f"write columns down in {file.name}:{node.lineno}"
                    cells = [name for cell in columns.elts for name in _names(cell)]
                    yield f"{file.name}:{node.lineno}", tuple(cells)


def _names(cell: ast.expr) -> list[str]:
    match cell:
        case ast.Constant(value):
            return [str(value)]
        case ast.Starred():
            return [f"node {number}" for number in (1, 2, 3)]
        case _:
            return ["partitions"]


TABLES = dict(_columns())


def test_only_one_module_makes_tables() -> None:
    makers = {file.name for file in SOURCE.rglob("*.py") if "import Table\n" in file.read_text()}
    assert makers == {"rows.py"}
    files = {name.partition(":")[0] for name in TABLES}
    assert files >= {"state_change_commands.py", "top_command.py", "demo_report.py", "quorum_commands.py"}
    assert len(TABLES) >= 26


@pytest.mark.parametrize("columns", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize(
    "cell", [7, "0, 1, 2", "orders-of-the-last-month", "/var/lib/quorate/" + 6 * "a-directory/", ""]
)
def test_the_table_of_every_command_is_readable_at_80_columns(columns: tuple[str, ...], cell: object) -> None:
    rows = [(cell,) * len(columns), (1,) * len(columns)]
    text = shown(Rows(columns, rows))
    tokens = text.replace(":", " ").split()
    assert "…" not in text
    for name in columns:
        assert set(name.split()) <= set(tokens)
    assert set(str(cell).split()) <= set(tokens), text


@pytest.mark.slow
@given(
    data=some.data(), columns=some.lists(some.text("abc ", min_size=1, max_size=15), min_size=1, max_size=12)
)
def test_no_word_is_broken_and_nothing_is_cut(data: some.DataObject, columns: list[str]) -> None:
    row = some.tuples(*[CELL] * len(columns))
    rows: Sequence[Sequence[object]] = data.draw(some.lists(row, max_size=4))
    text = shown(Rows(columns, rows))
    assert "…" not in text
    words = text.split()
    for each in rows:
        for cell in each:
            for word in str("" if cell is None else cell).split():
                assert any(word == told for told in words), (word, text)
    if "─" in text:  # it is a table, and no lines of `column: value`
        assert all(cell_len(line) <= 80 for line in text.splitlines())


def test_numbers_are_aligned_right_and_the_rest_left() -> None:
    text = shown(Rows(("topic", "lag", "member"), [("a", 5, "-"), ("bcd", 12_345, "m"), ("e", "-", "n")]))
    assert [line.rstrip() for line in text.splitlines()] == [
        "topic    lag  member",
        "────────────────────",
        "a          5  -",
        "bcd    12345  m",
        "e          -  n",
    ]


def test_words_wrap_and_a_long_id_beside_them_does_not() -> None:
    text = shown(Rows(("id", "why"), [("x" * 60, "several words that say what has happened")]))
    assert text.count("x" * 60) == 1
    assert "what has" in text
    assert "─" in text


def test_a_space_after_characters_of_two_cells_becomes_no_ellipsis() -> None:
    wide = "0 0 " + 22 * "0" + "\u4e2d\u4e2d 0"
    text = shown(Rows(("a", 13 * "a", "a", "a"), [(None, None, -(10**28), wide)]))
    assert "…" not in text
    assert wide.split()[2] in text.split()


def test_what_is_too_narrow_for_a_table_is_told_in_lines() -> None:
    path = "/var/lib/" + "x" * 80
    assert shown(Rows(("broker", "directory"), [(1, path), (2, None)])) == (
        f"broker:    1\ndirectory: {path}\n\nbroker:    2\n"
    )


def test_where_rich_crops_a_long_line_goes_on_in_the_next() -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    console.print(Rows(("topic", "lag"), [("x" * 249, 2)], folds=True))
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().count("x") == 249


def test_a_table_that_is_piped_is_as_wide_as_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    name = "a-topic-with-a-name-of-" + "249-characters-" * 15
    replicas = ", ".join(map(str, range(40)))
    print_rows(("topic", "partition", "leader", "epoch", "replicas"), [(name, 0, 1, 12, replicas)])
    row = next(line for line in capsys.readouterr().out.splitlines() if "249" in line)
    assert name in row
    assert replicas in row
