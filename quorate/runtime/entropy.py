"""Randomness: one source per node, seeded in simulation, the operating system's otherwise."""

import base64
import random  # noqa: TID251 (a given generator is wrapped)
import uuid


class Entropy:
    """The random numbers of one node. They come from a `random.Random`, so a seed fixes them."""

    __slots__ = ("_random",)

    def __init__(self, source: random.Random) -> None:
        self._random = source

    def between(self, low: float, high: float) -> float:
        """Return a random float in [low, high]."""
        return self._random.uniform(low, high)

    def below(self, limit: int) -> int:
        """Return a random integer in [0, limit)."""
        return self._random.randrange(limit)

    def uuid(self) -> uuid.UUID:
        """Return a random (version 4) UUID whose base64 text does not start with '-'."""
        while True:
            drawn = uuid.UUID(int=self._random.getrandbits(128), version=4)
            if not uuid_text(drawn).startswith("-"):
                return drawn


def uuid_text(value: uuid.UUID) -> str:
    """Return a UUID in Kafka's form: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def parse_uuid(text: str) -> uuid.UUID:
    """Parse Kafka's form of a UUID. The inverse of `uuid_text`. Raises `ValueError`."""
    try:
        raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a 22-character base64 uuid") from error
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not a 22-character base64 uuid")
    return uuid.UUID(bytes=raw)
