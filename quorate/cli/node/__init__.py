"""Nodes: one in the foreground, as `quorate server start` runs it, and a cluster of such processes."""

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from quorate.lazy_names import lazily

if TYPE_CHECKING:
    from quorate.cli.node.early_signals import end_at_once_while_starting
    from quorate.cli.node.local_cluster import LocalCluster, parse_settings
    from quorate.cli.node.node_process import LogLevel, NodeStart, load_config, run_node

__all__ = [
    "LocalCluster",
    "LogLevel",
    "NodeStart",
    "end_at_once_while_starting",
    "load_config",
    "parse_settings",
    "run_node",
]

_HOMES: Final = MappingProxyType(
    {
        "LocalCluster": "quorate.cli.node.local_cluster",
        "LogLevel": "quorate.cli.node.node_process",
        "NodeStart": "quorate.cli.node.node_process",
        "end_at_once_while_starting": "quorate.cli.node.early_signals",
        "load_config": "quorate.cli.node.node_process",
        "parse_settings": "quorate.cli.node.local_cluster",
        "run_node": "quorate.cli.node.node_process",
    }
)

__getattr__ = lazily(__name__, _HOMES)
