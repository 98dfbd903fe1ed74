"""`quorate demo`: an operator's day in a minute, each step compared with what was expected."""

from quorate.cli.commands.demo.demo_run import demo, shown_value, split_records

__all__ = ["demo", "shown_value", "split_records"]
