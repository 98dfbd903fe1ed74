"""`quorate demo`: an operator's day in a minute, each step compared with what was expected."""

from quorate.cli.demo.demo_report import shown_value
from quorate.cli.demo.demo_run import demo, split_records

__all__ = ["demo", "shown_value", "split_records"]
