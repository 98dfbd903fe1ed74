"""The commands of the metadata shell: look around in a tree of metadata."""

import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from quorate.cli.console import CommandError, ExitCode
from quorate.cli.images.image_tree import Json, Leaf, TreeDirectory, TreeNode, children
from quorate.cli.images.tree_paths import absolute, expand, find_node, shown

_INDENT: Final = "  "

COMMANDS: Final = {
    "ls": "ls [PATH]...: list the names in a directory, or a file",
    "cd": "cd [PATH]: work in this directory from here on; without a path in /",
    "pwd": "pwd: print the directory that you work in",
    "cat": "cat PATH...: print the value of a file; lists and objects as JSON",
    "tree": "tree [PATH]...: print all that is below a directory, with the values",
    "find": "find [PATH]...: print the path of every directory and file below a directory",
    "man": "man [COMMAND]: explain a command, or all of them; `help` does the same",
    "exit": "exit: leave the shell; `quit` and Ctrl-D do the same",
}
"""The commands, and what each does."""
_ALIASES: Final = {"help": "man", "quit": "exit"}
_PATTERNS: Final = (
    "Paths begin with / or in the directory that you work in. In their names * stands for any characters, ? "
    "for one, [abc] for one of these."
)


class ShellUsageError(CommandError):
    """The command does not exist or takes other arguments. The message says which."""

    code = ExitCode.USAGE


class TreeShell:
    """Runs commands on the tree that `root` returns, which may be another each time."""

    def __init__(self, root: Callable[[], TreeDirectory]) -> None:
        self._root = root
        self._at: tuple[str, ...] = ()
        self.ended = False
        """True after `exit`."""

    @property
    def directory(self) -> str:
        """The path of the directory that is worked in."""
        return shown(self._at)

    def run_line(self, line: str) -> Iterator[str]:
        """Run a command as it is typed. Raises as `run`."""
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise ShellUsageError(f"{line.strip()}: {error}; close the quotation mark") from None
        yield from self.run(words)

    def run(self, words: Sequence[str]) -> Iterator[str]:
        """Run a command and return the lines that it prints, made while they are asked for. Raises
        `ShellUsageError`, `NoSuchPathError`."""
        if not words:
            return
        name, *arguments = words
        name = _ALIASES.get(name, name)
        match name, arguments:
            case "exit", []:
                self.ended = True
            case "pwd", []:
                yield self.directory
            case "man", [] | [_]:
                yield from self._explain(arguments)
            case "cd", [] | [_]:
                self._change_directory(arguments)
            case "cat", [_, *_]:
                yield from self._each(arguments, self._cat)
            case "ls" | "tree" | "find", _:
                yield from self._each(arguments or ["."], getattr(self, f"_{name}"))
            case _ if name in COMMANDS:
                raise ShellUsageError(f"{name} takes other arguments: {COMMANDS[name]}")
            case _:
                raise ShellUsageError(f"{name} is no command; there are {', '.join(COMMANDS)}")

    def complete(self, line: str) -> list[str]:
        """What the last word of an unfinished line may become."""
        *before, word = line.split(" ")
        if not "".join(before):
            return [f"{name} " for name in COMMANDS if name.startswith(word)]
        stem, slash, start = word.rpartition("/")
        try:
            node = find_node(self._root(), absolute(stem + slash, at=self._at))
        except CommandError:
            return []
        if isinstance(node, Leaf):
            return []
        return [
            f"{stem}{slash}{name}{'/' if isinstance(child, TreeDirectory) else ' '}"
            for name, child in children(node)
            if name.startswith(start)
        ]

    def _each(
        self, paths: Sequence[str], show: Callable[[tuple[str, ...], TreeNode], Iterator[str]]
    ) -> Iterator[str]:
        root = self._root()
        found = (match for path in paths for match in expand(root, absolute(path, at=self._at)))
        first = next(found)
        second = next(found, None)
        yield from show(*first) if second is None else self._under_headings([first, second], found, show)

    def _under_headings(
        self,
        begun: Iterable[tuple[tuple[str, ...], TreeNode]],
        rest: Iterator[tuple[tuple[str, ...], TreeNode]],
        show: Callable[[tuple[str, ...], TreeNode], Iterator[str]],
    ) -> Iterator[str]:
        for matches in (begun, rest):
            for parts, node in matches:
                if show in (self._find, self._tree):
                    yield from show(parts, node)
                else:
                    yield f"{shown(parts)}:"
                    yield from (f"{_INDENT}{line}" for line in show(parts, node))

    def _change_directory(self, arguments: Sequence[str]) -> None:
        parts = absolute(arguments[0], at=self._at) if arguments else ()
        matches = list(expand(self._root(), parts))
        if len(matches) > 1:
            raise ShellUsageError(f"cd: {len(matches)} paths fit {shown(parts)}; name one")
        (found, node) = matches[0]
        if isinstance(node, Leaf):
            raise ShellUsageError(f"cd: {shown(found)} is a file; `cat` prints it")
        self._at = found

    def _explain(self, arguments: Sequence[str]) -> Iterator[str]:
        if not arguments:
            yield from COMMANDS.values()
            yield _PATTERNS
            return
        name = _ALIASES.get(arguments[0], arguments[0])
        if name not in COMMANDS:
            raise ShellUsageError(f"{name} is no command; there are {', '.join(COMMANDS)}")
        yield COMMANDS[name]

    def _cat(self, parts: tuple[str, ...], node: TreeNode) -> Iterator[str]:
        if isinstance(node, TreeDirectory):
            raise ShellUsageError(f"cat: {shown(parts)} is a directory; `ls` lists it, `tree` prints it all")
        yield value_text(node.read())

    def _ls(self, parts: tuple[str, ...], node: TreeNode) -> Iterator[str]:
        if isinstance(node, Leaf):
            yield parts[-1]
        else:
            yield from node.names()

    def _find(self, parts: tuple[str, ...], node: TreeNode) -> Iterator[str]:
        yield shown(parts)
        if isinstance(node, TreeDirectory):
            for name, child in children(node):
                yield from self._find((*parts, name), child)

    def _tree(self, parts: tuple[str, ...], node: TreeNode) -> Iterator[str]:
        yield from tree_lines(parts[-1] if parts else "/", node)


def tree_lines(name: str, node: TreeNode) -> Iterator[str]:
    """A directory and all below it, or a file with its value, one line each."""
    if isinstance(node, Leaf):
        yield f"{name}: {value_text(node.read())}"
        return
    yield f"{name}:"
    for below, child in children(node):
        yield from (f"{_INDENT}{line}" for line in tree_lines(below, child))


def value_text(value: Json) -> str:
    """A value for people: text as it is, everything else as JSON."""
    return value if isinstance(value, str) and value.isprintable() else json.dumps(value, ensure_ascii=False)
