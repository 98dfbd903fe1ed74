"""The commands of the metadata shell, on a tree of a few files."""

import pytest

from quorate.cli.console.cli_errors import CommandError
from quorate.cli.images.image_tree import Json, Leaf, TreeDirectory, TreeNode
from quorate.cli.images.tree_shell import COMMANDS, TreeShell


def tree(values: "Json | dict[str, object]") -> TreeNode:
    if not isinstance(values, dict):
        return Leaf(lambda: values)
    nodes = {name: tree(value) for name, value in values.items()}  # type: ignore[arg-type]
    return TreeDirectory(lambda: nodes, nodes.get)


@pytest.fixture
def shell() -> TreeShell:
    root = tree(
        {
            "topics": {"orders": {"id": "x1", "0": {"leader": 1}}, "logs": {"id": "x2"}, "a*": {"id": "x3"}},
            "version": 3,
        }
    )
    assert isinstance(root, TreeDirectory)
    return TreeShell(lambda: root)


def run(shell: TreeShell, line: str) -> list[str]:
    return list(shell.run_line(line))


def test_names_are_listed_in_the_order_of_the_directory(shell: TreeShell) -> None:
    assert run(shell, "ls") == run(shell, "ls /") == ["topics", "version"]
    assert run(shell, "ls /version") == ["version"]
    assert run(shell, "ls topics /version") == [
        "/topics:",
        "  orders",
        "  logs",
        "  a*",
        "/version:",
        "  version",
    ]


def test_paths_start_in_the_directory_that_is_worked_in(shell: TreeShell) -> None:
    assert run(shell, "cd topics/orders") == []
    assert run(shell, "pwd") == [shell.directory] == ["/topics/orders"]
    assert run(shell, "cat id") == run(shell, "cat ./id") == run(shell, "cat ../orders/id") == ["x1"]
    assert run(shell, "cat ../../version") == run(shell, "cat /version") == ["3"]
    assert run(shell, "cd ..") == [] and shell.directory == "/topics"
    assert run(shell, "cd") == [] and shell.directory == "/"
    assert run(shell, "cd ../..") == [] and shell.directory == "/"


def test_a_tree_has_its_values_and_a_find_its_paths(shell: TreeShell) -> None:
    assert run(shell, "tree /topics/orders") == ["orders:", "  id: x1", "  0:", "    leader: 1"]
    assert run(shell, "tree /version") == ["version: 3"]
    assert run(shell, "find topics/orders") == [
        "/topics/orders",
        "/topics/orders/id",
        "/topics/orders/0",
        "/topics/orders/0/leader",
    ]
    assert run(shell, "find")[0] == "/" and len(run(shell, "find")) == 11
    assert run(shell, "tree")[0] == "/:"


def test_patterns_stand_for_names(shell: TreeShell) -> None:
    assert run(shell, "cat /topics/*/id") == [
        "/topics/orders/id:",
        "  x1",
        "/topics/logs/id:",
        "  x2",
        "/topics/a*/id:",
        "  x3",
    ]
    assert run(shell, "cat /topics/l?gs/i[cd]") == ["x2"]
    assert run(shell, "cat '/topics/a*/id'") == ["x3"], "a name that looks like a pattern is itself"
    assert run(shell, "find /*/orders/i*") == ["/topics/orders/id"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("cat /topics", "cat: /topics is a directory; `ls` lists it"),
        ("cat", "cat takes other arguments: cat PATH"),
        ("cd /version", "cd: /version is a file; `cat` prints it"),
        ("cd /topics/*", "cd: 3 paths fit /topics/*; name one"),
        ("cd a b", "cd takes other arguments: cd [PATH]"),
        ("pwd here", "pwd takes other arguments: pwd"),
        ("ls /nowhere", "/nowhere is not there; / has: topics, version"),
        ("ls /version/0", "/version is a file; it has no 0"),
        ("ls /x*", "nothing fits /x*"),
        ("rm -rf /", "rm is no command; there are ls, cd"),
        ("man rm", "rm is no command"),
        ('cat "/topics', "close the quotation mark"),
    ],
)
def test_a_command_that_fails_says_why(shell: TreeShell, line: str, problem: str) -> None:
    with pytest.raises(CommandError) as refused:
        run(shell, line)
    assert problem in str(refused.value)
    assert shell.directory == "/" and not shell.ended


def test_every_command_is_explained(shell: TreeShell) -> None:
    assert run(shell, "help")[:-1] == run(shell, "man")[:-1] == list(COMMANDS.values())
    for name, text in COMMANDS.items():
        assert run(shell, f"man {name}") == run(shell, f"help {name}") == [text]


@pytest.mark.parametrize("line", ["exit", "quit", " exit "])
def test_exit_ends_it(shell: TreeShell, line: str) -> None:
    assert run(shell, line) == [] and shell.ended


def test_an_empty_line_does_nothing(shell: TreeShell) -> None:
    assert run(shell, "") == run(shell, "   ") == [] and not shell.ended


def test_commands_and_paths_are_completed(shell: TreeShell) -> None:
    assert shell.complete("c") == ["cd ", "cat "]
    assert shell.complete("ls t") == ["topics/"]
    assert shell.complete("cat /topics/orders/") == ["/topics/orders/id ", "/topics/orders/0/"]
    assert shell.complete("ls /ver") == ["/version "]
    assert shell.complete("ls /nowhere/x") == shell.complete("cat /version/") == []
    run(shell, "cd topics")
    assert shell.complete("cd lo") == ["logs/"]
    assert shell.complete("cd ../to") == ["../topics/"]
