"""The login of one connection (KIP-43, KIP-152, KIP-368), before which nothing else is served."""

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeVar, cast

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.wire.api import Api, ApiKey
from quorate.broker.wire.codecs.entities import (
    build,
    decode_entity,
    encode_entity,
    request_type,
    response_type,
)
from quorate.broker.wire.headers import RequestHeader, read_request_header
from quorate.broker.wire.listener_security import ListenerSecurity, SaslMechanism
from quorate.broker.wire.principals import Principal
from quorate.broker.wire.sasl.credentials import OTHER_AUTHZID, Credentials, LoginRefusedError, Tokens
from quorate.broker.wire.sasl.oauthbearer import INVALID_TOKEN, TokenRefusedError, parse_bearer
from quorate.broker.wire.sasl.plain import check_of, parse_plain
from quorate.broker.wire.sasl.scram import ScramExchange, server_nonce
from quorate.kafka_bytes.varints import MalformedError
from quorate.runtime import Buffer, Compute, Entropy, get_logger

if TYPE_CHECKING:
    from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
    from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

T = TypeVar("T")

log = get_logger(__name__)

_MOST_DELAYED: Final = 1000
"""Failed logins of a listener that wait for their answer. Others beyond it are answered and closed at once: a
flood of them must not hold all descriptors."""
_MOST_DERIVED: Final = 64
"""Passwords of PLAIN and tokens that are checked or wait for it. A password takes some milliseconds of a
thread."""
_REAUTHENTICATION_PAUSE_S: Final = 1.0
"""The least time from one login of a connection to the next (KIP-368)."""
_SASL_KEYS: Final = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
_OUT_OF_ORDER: Final = "Unexpected request: it does not belong to the state of the connection's login."


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginCounts:
    """The logins of a listener since its start."""

    successful: int = 0
    failed: int = 0
    successful_again: int = 0
    """Logins on a connection that had one (KIP-368)."""
    failed_again: int = 0
    expired: int = 0
    """Connections that were closed because their login was too long ago."""


class Logins:
    """What the logins of one listener share."""

    __slots__ = ("compute", "counts", "credentials", "delayed", "derived", "entropy", "security", "tokens")

    def __init__(
        self,
        security: ListenerSecurity,
        credentials: Credentials,
        *,
        entropy: Entropy,
        compute: Compute,
        tokens: Tokens | None = None,
    ) -> None:
        """`tokens`: needed if OAUTHBEARER is enabled."""
        self.security = security
        self.credentials = credentials
        self.tokens = tokens
        self.entropy = entropy
        self.compute = compute
        self.counts = LoginCounts()
        self.delayed = 0
        self.derived = 0


@dataclass(frozen=True, slots=True)
class LoginStep:
    """What a connection does after a frame that belongs to its login."""

    answer: Sequence[Buffer] | None = None
    header: RequestHeader | None = None
    """The header of the request that is answered. None: the answer is a token without a header."""
    closes: bool = False
    """Whether the connection ends after the answer."""


class _State(enum.Enum):
    HANDSHAKE = enum.auto()
    TOKENS = enum.auto()
    """Tokens in requests of SaslAuthenticate."""
    RAW_TOKENS = enum.auto()
    """Tokens in frames of their own, after version 0 of SaslHandshake."""
    REFUSED = enum.auto()
    """A token of OAUTHBEARER was refused, and the client knows. Its next message ends the connection."""
    COMPLETE = enum.auto()


class _FailedError(Exception):
    """The login ends here."""

    def __init__(self, reason: str, step: LoginStep | None = None) -> None:
        """`step`: with the answer; None: there is none."""
        super().__init__(reason)
        self.step = step or LoginStep(closes=True)


def refuse_sasl(api: Api, version: int) -> Sequence[Buffer] | None:
    """Return the answer to an API of SASL where no login is under way; None for any other API."""
    if api.key not in _SASL_KEYS:
        return None
    message = {"error_message": _OUT_OF_ORDER} if api.key == ApiKey.SASL_AUTHENTICATE else {}
    return _answer(api, version, error_code=ErrorCode.illegal_sasl_state, **message)


def _answer(api: Api, version: int, **values: object) -> Sequence[Buffer]:
    return encode_entity(build(response_type(api, version), **values))


def _refusal(header: RequestHeader, told: str) -> LoginStep:
    answer = _answer(
        header.api, header.version, error_code=ErrorCode.sasl_authentication_failed, error_message=told
    )
    return LoginStep(answer, header, closes=True)


class Login:
    """The login of one connection. `take` gets each frame until `principal` is there, and each frame after
    that if the login lasts for a limited time."""

    def __init__(self, logins: Logins, *, peer: str) -> None:
        self._logins = logins
        self._peer = peer
        self._state = _State.HANDSHAKE
        self._versions_shown = False
        self._mechanism: SaslMechanism | None = None
        self._exchange: ScramExchange | None = None
        self._started_at = -math.inf
        self._expires_at = math.inf
        self._again_of: tuple[SaslMechanism, Principal] | None = None
        """The login before this one on the same connection."""
        self.principal: Principal | None = None
        """Who the client is, once it is known."""

    @property
    def max_receive_bytes(self) -> int:
        """The largest frame before the login is complete."""
        return self._logins.security.max_receive_bytes

    @property
    def complete(self) -> bool:
        """Whether no login is under way."""
        return self._state is _State.COMPLETE

    @property
    def mechanism(self) -> SaslMechanism | None:
        """The mechanism that the client chose last; None before it did."""
        return self._mechanism

    @property
    def lasts(self) -> bool:
        """Whether a complete login lasts as long as the connection."""
        return math.isinf(self._expires_at)

    async def take(self, frame: memoryview) -> LoginStep | None:
        """Take a frame. None: it is not for the login, and the connection handles it."""
        if self.complete and not self._begins_again(frame):
            return self._expired()
        arrived_at = trio.current_time()
        try:
            return await self._take(frame)
        except _FailedError as failed:
            await self._fail(str(failed), arrived_at=arrived_at)
            return failed.step
        except MalformedError as error:
            await self._fail(str(error), arrived_at=arrived_at)
            return LoginStep(closes=True)

    def _begins_again(self, frame: memoryview) -> bool:
        """Begin another login of a connection that has one, if the frame asks for it and may."""
        now = trio.current_time()
        principal, mechanism = self.principal, self._mechanism
        if (
            int.from_bytes(frame[:2], "big") != ApiKey.SASL_HANDSHAKE
            or now - self._started_at < _REAUTHENTICATION_PAUSE_S
            or principal is None
            or mechanism is None
        ):
            return False
        self._again_of = mechanism, principal
        self._state = _State.HANDSHAKE
        self._versions_shown = True
        return True

    def _expired(self) -> LoginStep | None:
        if trio.current_time() <= self._expires_at:
            return None
        counts = self._logins.counts
        self._logins.counts = replace(counts, expired=counts.expired + 1)
        log.info("login expired", peer=self._peer, user=str(self.principal))
        return LoginStep(closes=True)

    async def _take(self, frame: memoryview) -> LoginStep | None:
        if self._state is _State.REFUSED:
            return self._end_refused(frame)
        if self._state is _State.RAW_TOKENS:
            return await self._take_raw(bytes(frame))
        header = read_request_header(frame)
        api, version = header.api, header.version
        if self._state is _State.HANDSHAKE and api.key == ApiKey.API_VERSIONS and not self._versions_shown:
            # One that is too new is answered in version 0, and asked again.
            self._versions_shown = api.serves(version)
            return None
        if api.key not in _SASL_KEYS or not api.serves(version):
            raise _FailedError(f"{api.name} version {version} came before the login was complete")
        body = frame[header.body_start :]
        if self._state is _State.HANDSHAKE and api.key == ApiKey.SASL_HANDSHAKE:
            return self._shake_hands(header, body)
        if self._state is _State.TOKENS and api.key == ApiKey.SASL_AUTHENTICATE:
            return await self._authenticate(header, body)
        step = LoginStep(refuse_sasl(api, version), header, closes=True)
        raise _FailedError(f"{api.name} came out of order", step)

    def _shake_hands(self, header: RequestHeader, body: memoryview) -> LoginStep:
        request = cast("SaslHandshakeRequest", decode_entity(request_type(header.api, header.version), body))
        enabled = self._logins.security.mechanisms
        mechanism = next((each for each in enabled if each.value == request.mechanism), None)
        answer = _answer(
            header.api,
            header.version,
            error_code=ErrorCode.none if mechanism else ErrorCode.unsupported_sasl_mechanism,
            mechanisms=[each.value for each in enabled],
        )
        if mechanism is None:
            raise _FailedError(
                f"mechanism {request.mechanism!r:.40} is not enabled", LoginStep(answer, header, closes=True)
            )
        self._started_at = trio.current_time()
        self._mechanism = mechanism
        self._exchange = None
        self._state = _State.TOKENS if header.version else _State.RAW_TOKENS
        return LoginStep(answer, header)

    async def _take_raw(self, token: bytes) -> LoginStep:
        try:
            return LoginStep([await self._next_token(token)])
        except TokenRefusedError as refused:
            self._state = _State.REFUSED
            raise _FailedError(str(refused), LoginStep([INVALID_TOKEN])) from None
        except LoginRefusedError as refused:
            raise _FailedError(str(refused)) from None

    async def _authenticate(self, header: RequestHeader, body: memoryview) -> LoginStep:
        request = cast(
            "SaslAuthenticateRequest", decode_entity(request_type(header.api, header.version), body)
        )
        try:
            token = await self._next_token(bytes(request.auth_bytes))
        except TokenRefusedError as refused:
            self._state = _State.REFUSED
            answer = _answer(header.api, header.version, error_code=ErrorCode.none, auth_bytes=INVALID_TOKEN)
            raise _FailedError(str(refused), LoginStep(answer, header)) from None
        except LoginRefusedError as refused:
            told = refused.told or (
                "Authentication failed during authentication due to invalid credentials with SASL mechanism "
                f"{self._known_mechanism.value}"
            )
            raise _FailedError(str(refused), _refusal(header, told)) from None
        lifetime_ms = 0 if self.lasts or not self.complete else self._lifetime_ms()
        answer = _answer(
            header.api,
            header.version,
            error_code=ErrorCode.none,
            auth_bytes=token,
            session_lifetime=timedelta(milliseconds=lifetime_ms),
        )
        return LoginStep(answer, header)

    def _lifetime_ms(self) -> int:
        """At least 1, because 0 says that it never ends."""
        return max(1, round((self._expires_at - trio.current_time()) * 1000))

    def _end_refused(self, frame: memoryview) -> LoginStep:
        """End the login whose token was refused. The failure was counted and waited for by then. Without
        headers the client's 0x01 is no request, and ends the connection without an answer."""
        try:
            header = read_request_header(frame)
        except MalformedError:
            return LoginStep(closes=True)
        if header.api.key != ApiKey.SASL_AUTHENTICATE or not header.api.serves(header.version):
            return LoginStep(closes=True)
        return _refusal(header, INVALID_TOKEN.decode())

    @property
    def _known_mechanism(self) -> SaslMechanism:
        if self._mechanism is None:
            raise RuntimeError("there was no handshake")
        return self._mechanism

    async def _next_token(self, token: bytes) -> bytes:
        """Take the client's token, and return the server's. The login is complete after the last one. Raises
        `LoginRefusedError`."""
        mechanism = self._known_mechanism
        if self._again_of is not None and self._again_of[0] is not mechanism:
            told = (
                f"Cannot change the SASL mechanism during re-authentication from {self._again_of[0].value} "
                f"to {mechanism.value}"
            )
            raise LoginRefusedError(told, told=told)
        if mechanism is SaslMechanism.PLAIN:
            claim = parse_plain(token)
            await self._derive(check_of(claim, self._logins.credentials))
            # Of both mechanisms any password will do.
            self._check_present(claim.user, SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512)
            self._succeed(claim.user)
            return b""
        if mechanism is SaslMechanism.OAUTHBEARER:
            await self._take_bearer(token)
            return b""
        if self._exchange is None:
            self._exchange = ScramExchange(
                mechanism, self._logins.credentials, server_nonce=server_nonce(self._logins.entropy)
            )
            return self._exchange.take_first(token)
        answer = self._exchange.take_final(token)
        self._check_present(self._exchange.user, mechanism)
        self._succeed(self._exchange.user)
        return answer

    async def _take_bearer(self, message: bytes) -> None:
        claim, tokens = parse_bearer(message), self._logins.tokens
        if tokens is None:
            raise RuntimeError("OAUTHBEARER is enabled without the keys of tokens")
        try:
            user = await self._derive(tokens.check_of(claim.token))
        except LoginRefusedError as refused:
            raise TokenRefusedError(str(refused)) from None
        if claim.authzid not in ("", user.name):
            raise LoginRefusedError(
                f"user {user.name!r:.80} asked for another authorization id", told=OTHER_AUTHZID
            )
        self._succeed(user.name, lasts_s=user.lasts_s)

    def _check_present(self, user: str, *mechanisms: SaslMechanism) -> None:
        """Refuse a user that was removed since the login began. Raises `LoginRefusedError`."""
        credentials = self._logins.credentials
        if all(credentials.credential(user, each) is None for each in mechanisms):
            raise LoginRefusedError(f"user {user!r:.80} was removed during the login")

    async def _derive(self, check: Callable[[], T]) -> T:
        logins = self._logins
        if logins.derived >= _MOST_DERIVED:
            raise LoginRefusedError(
                f"{_MOST_DERIVED} other logins by {self._known_mechanism.value} are being checked"
            )
        logins.derived += 1
        try:
            return await logins.compute.run(check)
        finally:
            logins.derived -= 1

    def _succeed(self, user: str, *, lasts_s: float = math.inf) -> None:
        """`lasts_s`: the time after which the client has to log in again in any case."""
        principal, counts = Principal("User", user), self._logins.counts
        if self._again_of is None:
            self._logins.counts = replace(counts, successful=counts.successful + 1)
        elif self._again_of[1] != principal:
            told = (
                f"Cannot change principals during re-authentication from {self._again_of[1]} to {principal}"
            )
            raise LoginRefusedError(told, told=told)
        else:
            self._logins.counts = replace(counts, successful_again=counts.successful_again + 1)
        self.principal = principal
        self._exchange = None
        self._state = _State.COMPLETE
        # As in Kafka the earlier end counts (KIP-368).
        self._expires_at = trio.current_time() + min(lasts_s, self._logins.security.session_max_s or math.inf)

    async def _fail(self, reason: str, *, arrived_at: float) -> None:
        """Count and log a failure, and return when its answer may be sent: so long after the client's message
        that the time it took to check says nothing."""
        logins, counts = self._logins, self._logins.counts
        if self._again_of is None:
            logins.counts = replace(counts, failed=counts.failed + 1)
        else:
            logins.counts = replace(counts, failed_again=counts.failed_again + 1)
        mechanism = None if self._mechanism is None else self._mechanism.value
        log.info("login failed", peer=self._peer, mechanism=mechanism, reason=reason)
        if logins.delayed >= _MOST_DELAYED:
            return
        logins.delayed += 1
        try:
            await trio.sleep_until(arrived_at + logins.security.failure_delay_s)
        finally:
            logins.delayed -= 1
