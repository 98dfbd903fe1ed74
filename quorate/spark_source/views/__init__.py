"""The typed views: tables of topics, partitions and brokers."""

from quorate.spark_source.views.registry import new_view
from quorate.spark_source.views.view import Row, View

__all__ = ["Row", "View", "new_view"]
