"""Metadata images as the command line reads them: live, from a folder or a snapshot, now or as they were."""

from quorate.cli.images.histories import (
    ClusterHistory,
    FileHistory,
    FolderHistory,
    HistoryError,
    MetadataHistory,
    snapshot_of,
)
from quorate.cli.images.image_changes import image_changes
from quorate.cli.images.image_tree import Json, Leaf, TreeDirectory, image_tree, plain_tree
from quorate.cli.images.replay import LATEST, Moment, Replay, shown_time
from quorate.cli.images.tree_shell import (
    NoSuchPathError,
    TreeShell,
    absolute,
    expand,
    find_node,
    tree_lines,
)

__all__ = [
    "LATEST",
    "ClusterHistory",
    "FileHistory",
    "FolderHistory",
    "HistoryError",
    "Json",
    "Leaf",
    "MetadataHistory",
    "Moment",
    "NoSuchPathError",
    "Replay",
    "TreeDirectory",
    "TreeShell",
    "absolute",
    "expand",
    "find_node",
    "image_changes",
    "image_tree",
    "plain_tree",
    "shown_time",
    "snapshot_of",
    "tree_lines",
]
