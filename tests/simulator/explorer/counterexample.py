"""A violation, action by action, and how to see it again."""

import hashlib
from collections.abc import Iterator

import trio

from tests.simulator.explorer.model import Action, Broken, Model, State, Violation


def lines_of(model: Model[Action], violation: Violation[Action]) -> Iterator[str]:
    """Yield a line for each action, and for each change that it makes."""
    yield f"BROKEN: {violation.invariant}"
    if not violation.path:
        yield f"It happens on the way to {model.beginning}."
        return
    yield f"It takes {len(violation.path)} steps from {model.beginning}:"
    states = [state for state, _ in violation.path]
    for line in model.describe_state(states[0]):
        yield f"    {line}"
    for index, (state, action) in enumerate(violation.path):
        yield f"{index + 1:3}. {model.describe(action)}"
        if index + 1 < len(states):
            for line in model.describe_step(state, action, states[index + 1]):
                yield f"     -> {line}"


def path_of(model: Model[Action], violation: Violation[Action]) -> str:
    """Name the path to a violation, for `replay`."""
    return ".".join(_token(model, action) for _, action in violation.path)


def _token(model: Model[Action], action: Action) -> str:
    return hashlib.blake2b(model.describe(action).encode(), digest_size=3).hexdigest()


def replay(model: Model[Action], path: str) -> Violation[Action] | None:
    """Repeat a path; return the violation at its end. Raises ValueError if this code has no such path."""

    async def repeat() -> Violation[Action] | None:
        state = model.begin()
        done: list[tuple[State, Action]] = []
        for step in path.split("."):
            try:
                successors = iter(await model.next_states(state))
                found = next((each for each in successors if _token(model, each[0]) == step), None)
            except Broken as broken:
                return Violation(broken.invariant, (*done, (state, broken.action)))
            if found is None:
                raise ValueError(f"nothing called {step} can happen after {len(done)} steps")
            action, after = found
            done.append((state, action))
            state = after
        return None

    return trio.run(repeat, clock=model.clock)
