"""Kafka's error codes at the edge: the codes of exceptions for clients, in one table."""

from collections.abc import Mapping
from typing import Final

from kio.schema.errors import ErrorCode as WireErrorCode

from quorate.error_code import ErrorCode
from quorate.runtime import NetworkError

_WIRE_CODES: Final[Mapping[ErrorCode, WireErrorCode]] = {code: WireErrorCode(int(code)) for code in ErrorCode}


def wire_code(code: ErrorCode) -> WireErrorCode:
    """Return the same code for kio's entities, which take no other enum than kio's."""
    return _WIRE_CODES[code]


class KafkaError(Exception):
    """An error with a Kafka code. `message` reaches clients where the API has room for one."""

    def __init__(self, code: WireErrorCode, message: str = "") -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message or None


class UnsupportedVersionError(KafkaError):
    """An API or a version is not spoken by one side."""

    def __init__(self, message: str) -> None:
        super().__init__(WireErrorCode.unsupported_version, message)


class RequestTimedOutError(NetworkError):
    """No response came in time. The request may have been carried out."""


class ErrorTable:
    """Maps exception types to codes, the most derived type first. Packages above add their own types."""

    __slots__ = ("_codes",)

    def __init__(self, codes: Mapping[type[Exception], WireErrorCode] | None = None) -> None:
        self._codes = dict(BASE_CODES) | dict(codes or {})

    def code(self, error: Exception) -> WireErrorCode:
        """Return the code of an error; UNKNOWN_SERVER_ERROR if its type is in no table."""
        if isinstance(error, KafkaError):
            return error.code
        for kind in type(error).__mro__:
            code = self._codes.get(kind)
            if code is not None:
                return code
        return WireErrorCode.unknown_server_error

    def message(self, error: Exception) -> str | None:
        """Return the text for the client, if any. The text of an unknown error stays in our log."""
        if isinstance(error, KafkaError):
            return error.message
        return None if self.code(error) is WireErrorCode.unknown_server_error else str(error) or None


BASE_CODES: Final[Mapping[type[Exception], WireErrorCode]] = {
    RequestTimedOutError: WireErrorCode.request_timed_out,
    NetworkError: WireErrorCode.network_exception,
    TimeoutError: WireErrorCode.request_timed_out,
}
