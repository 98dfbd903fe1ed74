"""The refusal of an operation by the controller."""

from quorate.error_code import ErrorCode


class ApiError(Exception):
    """An operation refused, with the code that the client is given. Raised inside this package only: every
    operation answers with a response that carries the code."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
