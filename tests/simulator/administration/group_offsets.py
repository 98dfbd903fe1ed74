"""The offset that a consumer group has committed for one partition, by what its only client was answered."""

from dataclasses import dataclass
from typing import Final

from quorate.simulation.violations import SafetyViolation
from tests.simulator.administration.admin_history import Answer

NONE: Final = -1


@dataclass(slots=True)
class GroupOffset:
    """Of a group that is left alone after a request whose outcome nobody knows."""

    group: str
    offset: int = NONE
    may_be: int | None = None
    """What the last request asked for, if its outcome is unknown."""

    @property
    def known(self) -> bool:
        return self.may_be is None

    def answered(self, asked: int, answer: Answer) -> None:
        """Take the answer to a request after which the offset is `asked`; `NONE` for none."""
        if answer is Answer.DONE:
            self.offset = asked
        elif answer is Answer.UNKNOWN:
            self.may_be = asked

    def not_there(self) -> None:
        """Take the answer that there is no such group. Raises `SafetyViolation`."""
        if self.offset != NONE:
            raise SafetyViolation(f"GroupsAreAsAnswered: {self.group} is unknown, and has {self.offset}")

    def check(self, held: int) -> None:
        """`held`: the offset that the group has. Raises `SafetyViolation`."""
        if held not in (self.offset, self.may_be):
            more = "" if self.may_be is None else f" or {self.may_be}"
            raise SafetyViolation(
                f"GroupsAreAsAnswered: {self.group} is at {held}, and was answered as at {self.offset}{more}"
            )
