"""The administration of confluent-kafka, kafka-python and aiokafka, call by call."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from rows import Result, Row

UNSERVED = (
    "UNSUPPORTED_FEATURE",
    "UNSUPPORTED_VERSION",
    "UnsupportedVersion",
    "IncompatibleBrokerVersion",
    "SECURITY_DISABLED",
    "SecurityDisabled",
    "No Authorizer is configured",
    "TransactionalIdAuthorization",
    "does not support",
    "INVALID_REQUEST",
)
"""The texts of clients' errors for requests and kinds of requests that brokers lack."""
SOON_SECONDS = 10.0


@dataclass(slots=True)
class Calls:
    """Makes calls and keeps their rows."""

    group: str
    rows: list[Row] = field(default_factory=list)
    area: str = ""

    @contextmanager
    def of(self, area: str) -> Iterator["Calls"]:
        before, self.area = self.area, area
        try:
            yield self
        finally:
            self.area = before

    def passes(self, call: str, checked: str, body: Callable[[], object]) -> None:
        """Run `body` once. It has to return without an error."""
        detail, ms = self._run(body)
        self._keep(call, checked, Result.FAIL if detail else Result.PASS, detail, ms)

    def soon(self, call: str, checked: str, body: Callable[[], object]) -> None:
        """Run `body`, which changes nothing, again and again. It has to return without an error within a
        while."""
        deadline = time.monotonic() + SOON_SECONDS
        while True:
            detail, ms = self._run(body)
            hopeless = any(each in detail for each in UNSERVED)
            if not detail or hopeless or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        self._keep(call, checked, Result.FAIL if detail else Result.PASS, detail, ms)

    def ends(self, call: str, body: Callable[[], object]) -> None:
        self.passes(call, "it ends without an error", body)

    def shows(self, call: str, checked: str, part: object, body: Callable[[], object]) -> None:
        """Run `body`, which changes nothing. The text of its result has to contain `part` within a while."""

        def look() -> None:
            found = str(body())
            must(str(part) in found, found[:300])

        self.soon(call, checked, look)

    def refused(self, call: str, reason: str, body: Callable[[], object]) -> None:
        detail, ms = self._run(body)
        said = any(each in detail for each in UNSERVED)
        result = Result.PASS if not detail else Result.NOT_SERVED if said else Result.FAIL
        self._keep(call, reason, result, detail, ms)

    def _run(self, body: Callable[[], object]) -> tuple[str, int]:
        began = time.monotonic()
        detail = ""
        try:
            body()
        except Exception as error:  # a client's own kinds, of which there are many
            detail = f"{type(error).__name__}: {error}"
        return detail, int((time.monotonic() - began) * 1000)

    def _keep(self, call: str, checked: str, result: Result, detail: str, ms: int) -> None:
        row = Row(
            group=self.group,
            area=self.area,
            call=call,
            checked=checked,
            result=result,
            detail=detail[:600],
            ms=ms,
        )
        self.rows.append(row)


def must(holds: object, what: object) -> None:
    if not holds:
        raise AssertionError(str(what))


Given = Mapping[str, str]
