"""`quorate demo`: an operator's day in a minute, each step compared with what was expected."""

from quorate.cli.demo.demo_command import demo

__all__ = ["demo"]
