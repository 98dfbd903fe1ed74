"""Reads of bytes that may not be in the page cache, while other tasks run."""

from typing import TypeVar

from quorate.log.segments.walk import Steps
from quorate.runtime import Slices

_Result = TypeVar("_Result")


async def read_cold(steps: Steps[_Result]) -> _Result:
    """Run `steps` with awaited reads, in slices of time. No checkpoint if it is short and need not wait."""
    try:
        file, position, size = next(steps)
        slices = Slices()
        while True:
            data = await file.read(position, size)
            await slices.pause()
            file, position, size = steps.send(data)
    except StopIteration as done:
        result: _Result = done.value
        return result
    finally:
        steps.close()
