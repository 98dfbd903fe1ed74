"""The metadata shell: commands like those of a shell, and paths and patterns in a tree of metadata."""

import fnmatch
import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Final

from quorate.cli.console.cli_errors import CommandError, UsageError
from quorate.cli.images.image_tree import Json, Leaf, TreeDirectory, TreeNode, children

_MAGIC: Final = frozenset("*?[")
_FEW: Final = 8
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


# Paths


class NoSuchPathError(CommandError):
    """No file or directory is at a path. The message names those that are there."""


def absolute(path: str, *, at: Sequence[str] = ()) -> tuple[str, ...]:
    """The parts of `path`, which starts from the directory `at` unless it begins with `/`."""
    parts = [] if path.startswith("/") else list(at)
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return tuple(parts)


def shown(parts: Sequence[str]) -> str:
    """Parts as a path."""
    return "/" + "/".join(parts)


def find_node(root: TreeDirectory, parts: Sequence[str]) -> TreeNode:
    """The node at a path without patterns. Raises `NoSuchPathError`."""
    node: TreeNode = root
    for depth, part in enumerate(parts):
        if isinstance(node, Leaf):
            raise NoSuchPathError(f"{shown(parts[:depth])} is a file; it has no {part}")
        below = node.child(part)
        if below is None:
            raise NoSuchPathError(_missing(node, parts, depth))
        node = below
    return node


def _missing(directory: TreeDirectory, parts: Sequence[str], depth: int) -> str:
    names = list(islice(directory.names(), _FEW + 1))
    there = ", ".join(names[:_FEW]) + (", ..." if len(names) > _FEW else "") if names else "nothing"
    return f"{shown(parts[: depth + 1])} is not there; {shown(parts[:depth])} has: {there}"


def expand(root: TreeDirectory, parts: Sequence[str]) -> Iterator[tuple[tuple[str, ...], TreeNode]]:
    """Every path that fits `parts`, in which `*`, `?` and `[...]` stand for parts of names. Raises
    `NoSuchPathError` if there is none."""
    found = False
    for match in _matches(root, tuple(parts), ()):
        found = True
        yield match
    if not found:
        if not any(map(_is_pattern, parts)):
            find_node(root, parts)
        raise NoSuchPathError(f"nothing fits {shown(parts)}")


def _matches(
    node: TreeNode, left: tuple[str, ...], done: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], TreeNode]]:
    if not left:
        yield done, node
        return
    if isinstance(node, Leaf):
        return
    first, rest = left[0], left[1:]
    # A name may look like a pattern.
    below = node.child(first)
    if below is not None:
        yield from _matches(below, rest, (*done, first))
    elif _is_pattern(first):
        for name, child in children(node):
            if fnmatch.fnmatchcase(name, first):
                yield from _matches(child, rest, (*done, name))


def _is_pattern(part: str) -> bool:
    return not _MAGIC.isdisjoint(part)


# Commands


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
            raise UsageError(f"{line.strip()}: {error}; close the quotation mark") from None
        yield from self.run(words)

    def run(self, words: Sequence[str]) -> Iterator[str]:
        """Run a command and return the lines that it prints, made while they are asked for. Raises
        `UsageError`, `NoSuchPathError`."""
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
                raise UsageError(f"{name} takes other arguments: {COMMANDS[name]}")
            case _:
                raise UsageError(f"{name} is no command; there are {', '.join(COMMANDS)}")

    def complete(self, line: str) -> list[str]:
        """Return the words that complete the last one of an unfinished line."""
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
        plain = second is None or show in (self._find, self._tree)
        for parts, node in chain([first], [] if second is None else [second], found):
            if plain:
                yield from show(parts, node)
            else:
                yield f"{shown(parts)}:"
                yield from (f"{_INDENT}{line}" for line in show(parts, node))

    def _change_directory(self, arguments: Sequence[str]) -> None:
        parts = absolute(arguments[0], at=self._at) if arguments else ()
        matches = list(expand(self._root(), parts))
        if len(matches) > 1:
            raise UsageError(f"cd: {len(matches)} paths fit {shown(parts)}; name one")
        (found, node) = matches[0]
        if isinstance(node, Leaf):
            raise UsageError(f"cd: {shown(found)} is a file; `cat` prints it")
        self._at = found

    def _explain(self, arguments: Sequence[str]) -> Iterator[str]:
        if not arguments:
            yield from COMMANDS.values()
            yield _PATTERNS
            return
        name = _ALIASES.get(arguments[0], arguments[0])
        if name not in COMMANDS:
            raise UsageError(f"{name} is no command; there are {', '.join(COMMANDS)}")
        yield COMMANDS[name]

    def _cat(self, parts: tuple[str, ...], node: TreeNode) -> Iterator[str]:
        if isinstance(node, TreeDirectory):
            raise UsageError(f"cat: {shown(parts)} is a directory; `ls` lists it, `tree` prints it all")
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
