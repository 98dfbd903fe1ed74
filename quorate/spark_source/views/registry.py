"""The views by name."""

from typing import assert_never

from quorate.spark_source.source_options import SourceOptions, ViewName
from quorate.spark_source.views.brokers_view import BrokersView
from quorate.spark_source.views.partitions_view import PartitionsView
from quorate.spark_source.views.records_view import RecordsView
from quorate.spark_source.views.topics_view import TopicsView
from quorate.spark_source.views.view import View


def new_view(options: SourceOptions) -> View:
    """The view that the options ask for, as it is at the start of the log."""
    match options.view:
        case ViewName.RECORDS:
            return RecordsView(include_control=options.include_control)
        case ViewName.PARTITIONS:
            return PartitionsView()
        case ViewName.TOPICS:
            return TopicsView()
        case ViewName.BROKERS:
            return BrokersView()
        case _:
            assert_never(options.view)
