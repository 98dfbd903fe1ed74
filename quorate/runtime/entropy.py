"""Randomness: one source per node, seeded in simulation, the operating system's otherwise."""

import base64
import random
import uuid


class Entropy:
    """Draws for one node. Wraps a `random.Random`, so that a seed decides everything."""

    __slots__ = ("_random",)

    def __init__(self, source: random.Random) -> None:
        self._random = source

    def between(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def below(self, limit: int) -> int:
        """An integer in [0, limit)."""
        return self._random.randrange(limit)

    def shuffled(self, items: list[int]) -> list[int]:
        return self._random.sample(items, len(items))

    def uuid(self) -> uuid.UUID:
        """A random (version 4) UUID whose text form in Kafka's base64 does not start with '-'."""
        while True:
            drawn = uuid.UUID(int=self._random.getrandbits(128), version=4)
            if not uuid_text(drawn).startswith("-"):
                return drawn


def uuid_text(value: uuid.UUID) -> str:
    """Kafka's 22-character URL-safe base64 form."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def parse_uuid(text: str) -> uuid.UUID:
    """Inverse of `uuid_text`. Raises `ValueError`."""
    try:
        raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a 22-character base64 uuid") from error
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not a 22-character base64 uuid")
    return uuid.UUID(bytes=raw)
