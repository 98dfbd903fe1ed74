"""Paths in a tree of metadata: relative ones, `..`, and patterns as in a shell."""

import fnmatch
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from quorate.cli.console import CommandError
from quorate.cli.images.image_tree import Leaf, TreeDirectory, TreeNode, children

_MAGIC: Final = frozenset("*?[")
_FEW: Final = 8


class NoSuchPathError(CommandError):
    """Nothing is at a path. The message says what is there in its place."""


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
