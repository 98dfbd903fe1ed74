"""Audit lines: each denial, in Kafka's form, each permission where the logger's level is DEBUG, and each
change that a client asked for."""

from collections.abc import Callable
from typing import Final

from quorate.broker.metadata.acls import AclOperation, ResourceType
from quorate.broker.wire.principals import Principal
from quorate.error_code import ErrorCode
from quorate.runtime import AUDIT_LOGGER, get_logger

_WINDOW_S: Final = 1.0
"""Equal denials within this time after the first become one more line."""
_MOST_OPEN: Final = 1_000
_MOST_CHARACTERS: Final = 256
"""Of a part that a client chooses."""

log = get_logger(AUDIT_LOGGER)

_Denial = tuple[Principal, str, AclOperation, ResourceType, str]


def tell_change(who: Principal, host: str, request: str, *, outcome: ErrorCode) -> None:
    """Write the line of a request that changes the cluster. Its parts may have errors of their own; what did
    change is in the metadata log."""
    log.info(
        "a client changes the cluster",
        principal=_shown(str(who)),
        host=_shown(host),
        request=request,
        outcome=outcome.name,
    )


class AuditLog:
    """Writes the lines. The first of equal denials is written at once. Those of the second after it are
    counted, and written as one line by the next decision after that second."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.counts: dict[_Denial, tuple[float, str, int]] = {}
        """By what was denied: the end of its second, its line, and how often it was denied again. In the
        order of their ends."""

    def allowed(
        self,
        who: Principal,
        host: str,
        operation: AclOperation,
        resource: ResourceType,
        name: str,
        *,
        rule: object,
        request: str,
    ) -> None:
        if self.counts:
            self._close(self._now())
        if log.writes_debug:
            log.debug(_line(who, host, operation, resource, name, word="Allowed", rule=rule, request=request))

    def denied(
        self,
        who: Principal,
        host: str,
        operation: AclOperation,
        resource: ResourceType,
        name: str,
        *,
        rule: object,
        request: str,
    ) -> None:
        now = self._now()
        self._close(now)
        denial = (who, host, operation, resource, name)
        held = self.counts.get(denial)
        if held is not None:
            end, line, count = held
            self.counts[denial] = (end, line, count + 1)
            return
        if len(self.counts) >= _MOST_OPEN:
            self._close(float("inf"))
        line = _line(who, host, operation, resource, name, word="Denied", rule=rule, request=request)
        log.info(line)
        self.counts[denial] = (now + _WINDOW_S, line, 0)

    def _close(self, now: float) -> None:
        """Write the counts of seconds that have ended."""
        while self.counts:
            denial = next(iter(self.counts))
            end, line, count = self.counts[denial]
            if end > now:
                return
            del self.counts[denial]
            if count:
                log.info(f"{line} (denied {count} more times within a second)")


def _line(
    who: Principal,
    host: str,
    operation: AclOperation,
    resource: ResourceType,
    name: str,
    *,
    word: str,
    rule: object,
    request: str,
) -> str:
    kind = resource.name.title().replace("_", "")
    of = f" for request = {request}" if request else ""
    return (
        f"Principal = {_shown(str(who))} is {word} operation = {operation.name} from host = {_shown(host)} "
        f"on resource = {kind}:LITERAL:{_shown(name)}{of} with resourceRefCount = 1 "
        f"based on rule {_shown(str(rule), most=4 * _MOST_CHARACTERS)}"
    )


def _shown(text: str, *, most: int = _MOST_CHARACTERS) -> str:
    """Return a text that fits in a line: what a client chose may hold line ends, or be very long."""
    cut = text if len(text) <= most else f"{text[:most]}..."
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in cut
    )
