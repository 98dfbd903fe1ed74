"""Groups of records into batches of the metadata log. What is in one group is committed as one."""

from typing import Final

from quorate.broker.controller.operations import Groups
from quorate.broker.metadata import RunEncoder

_RECORD_OVERHEAD_BYTES: Final = 24
"""What a record adds to a batch beside its value, at most."""


class TooLargeError(Exception):
    """An operation that doesn't fit one batch."""


def packed(groups: Groups, *, limit: int) -> list[list[bytes]]:
    """The encoded records of each batch. Whole groups share batches as far as these have room (`limit`
    bytes). Raises `TooLargeError`."""
    batches: list[list[bytes]] = []
    room = 0
    encoder = RunEncoder()
    for group in groups:
        encoded = [encoder.encode(record) for record in group]
        size = sum(map(len, encoded)) + _RECORD_OVERHEAD_BYTES * len(encoded)
        if size > limit:
            raise TooLargeError(
                f"Unable to perform excessively large batch operation: it needs {size} bytes in one batch, "
                f"and {limit} are allowed."
            )
        if not batches or size > room:
            batches.append([])
            room = limit
        batches[-1] += encoded
        room -= size
    return batches
