"""A world with its past: each step can be undone, because the state before it is kept."""

from collections.abc import Sequence
from typing import Final

from quorate.play.start import Start
from quorate.play.steps import Step, StepError
from quorate.play.world import Happening, World
from quorate.raft.core import Core

STEPS_MAX: Final = 1000


class Played:
    """The worlds after each step."""

    __slots__ = ("_happened", "_steps", "_worlds")

    def __init__(self, start: Start, core: type[Core] = Core) -> None:
        """Raises `ValueError` for a start that is none."""
        self._worlds = [World(start, core)]
        self._steps: list[Step] = []
        self._happened: list[tuple[Happening, ...]] = []

    @property
    def steps(self) -> Sequence[Step]:
        return self._steps

    @property
    def world(self) -> World:
        """The world after the last step."""
        return self._worlds[-1]

    def at(self, position: int) -> World:
        """Return the world after `position` steps."""
        return self._worlds[position]

    def happened(self, position: int) -> tuple[Happening, ...]:
        """Return what the step after `position` steps made happen."""
        return self._happened[position]

    def take(self, step: Step) -> tuple[Happening, ...]:
        """Take a step. Raises `StepError`, and nothing has changed then."""
        if len(self._steps) >= STEPS_MAX:
            raise StepError(f"step: {STEPS_MAX} were taken; undo some, or begin anew")
        world = self._worlds[-1].copy()
        happened = world.take(step)
        self._worlds.append(world)
        self._steps.append(step)
        self._happened.append(happened)
        return happened

    def undo(self) -> None:
        """Take back the last step. Raises `StepError` if there is none."""
        if not self._steps:
            raise StepError("step: there is none to take back")
        self._worlds.pop()
        self._steps.pop()
        self._happened.pop()

    def go_to(self, steps: Sequence[Step]) -> None:
        """Be where these steps lead. Those in common with the past are not taken again; if all are, the later
        ones stay known. Raises `StepError` that names the number of the step."""
        common = 0
        for known, wanted in zip(self._steps, steps, strict=False):
            if known != wanted:
                break
            common += 1
        if common == len(steps):
            return
        while len(self._steps) > common:
            self.undo()
        for number, step in enumerate(steps[common:], start=common + 1):
            try:
                self.take(step)
            except StepError as error:
                raise StepError(f"step {number}: {error}") from None
