"""Metadata images as the command line reads them: live, from a folder or a snapshot, now or as they were."""

from quorate.cli.images.cluster_history import ClusterHistory
from quorate.cli.images.histories import FileHistory, FolderHistory, HistoryError, MetadataHistory
from quorate.cli.images.image_changes import ImageChange, image_changes
from quorate.cli.images.image_tree import Json, Leaf, TreeDirectory, image_tree, plain_tree
from quorate.cli.images.replay import LATEST, Moment, Replay, shown_time
from quorate.cli.images.tree_paths import NoSuchPathError, absolute, expand, find_node
from quorate.cli.images.tree_shell import COMMANDS, TreeShell, tree_lines

__all__ = [
    "COMMANDS",
    "LATEST",
    "ClusterHistory",
    "FileHistory",
    "FolderHistory",
    "HistoryError",
    "ImageChange",
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
    "tree_lines",
]
