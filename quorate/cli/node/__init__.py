"""A node in the foreground: what `quorate server start` is given, and what it does."""

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from quorate.lazy_names import lazily

if TYPE_CHECKING:
    from quorate.cli.node.early_signals import end_at_once_while_starting
    from quorate.cli.node.node_process import LogLevel, NodeStart, run_node

__all__ = ["LogLevel", "NodeStart", "end_at_once_while_starting", "run_node"]

_HOMES: Final = MappingProxyType(
    {
        "LogLevel": "quorate.cli.node.node_process",
        "NodeStart": "quorate.cli.node.node_process",
        "end_at_once_while_starting": "quorate.cli.node.early_signals",
        "run_node": "quorate.cli.node.node_process",
    }
)

__getattr__ = lazily(__name__, _HOMES)
