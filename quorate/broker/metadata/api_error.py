"""The refusal of an operation by the controller."""

from typing import Final

from quorate.error_code import ErrorCode

_MOST_CHARACTERS: Final = 1000
"""The limit of a message, which may quote a client. A string of Kafka's protocol has 32,767 bytes at most."""


class ApiError(Exception):
    """An operation refused, with the code that the client is given. Raised inside this package only: every
    operation answers with a response that carries the code."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        if len(message) > _MOST_CHARACTERS:
            message = message[: _MOST_CHARACTERS - 3] + "..."
        super().__init__(message)
        self.code = code
        self.message = message
