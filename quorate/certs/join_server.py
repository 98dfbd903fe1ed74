"""The server at which nodes join: it signs where the authority's key is."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import trio

from quorate.cbor import SchemaError
from quorate.certs.certs_errors import CertificateError
from quorate.certs.folder import CertificateFolder
from quorate.certs.join_messages import (
    JoinAnswer,
    decode_request,
    encode_answer,
    receive_message,
    send_message,
)
from quorate.certs.join_tokens import JoinRefusedError, JoinTokens
from quorate.runtime import (
    Address,
    ClientAuth,
    NetworkError,
    Runtime,
    Stream,
    TlsTerms,
    TokenBucket,
    WallClock,
    get_logger,
)

log = get_logger(__name__)

CONNECTIONS_MAX: Final = 16
SECONDS_MAX: Final = 10.0
"""For the handshake, the request and the answer."""
RATE: Final = 5.0
"""Connections a second in the long run: a handshake and two signatures each."""
_BURST_SECONDS: Final = 4.0


async def serve_joins(
    folder: str | Path,
    address: Address,
    *,
    runtime: Runtime,
    started: Callable[[Address], None] = lambda address: None,
) -> None:
    """Sign for nodes that come with a token of the folder, until cancelled. `started`: gets the address that
    it listens on. Raises `CertificateError`, `AddressInUseError` and `NetworkError`."""
    authority = CertificateFolder(folder, now=_now(runtime.wall_clock))
    authority.signing_authority()  # or there is no folder to write to
    with TemporaryDirectory(prefix="signer-", dir=folder) as private:
        files = authority.create_signer(Path(private))
        network = runtime.network.secured(files, TlsTerms(client_auth=ClientAuth.NONE))
        listener = await network.listen(address)
        try:
            started(listener.address)
            limit = trio.Semaphore(CONNECTIONS_MAX)
            bucket = TokenBucket(burst_s=_BURST_SECONDS)
            async with trio.open_nursery() as nursery:
                while True:
                    await limit.acquire()
                    stream = await listener.accept()
                    bucket.use(1, RATE, now=trio.current_time())
                    nursery.start_soon(_serve, stream, Path(folder), runtime.wall_clock, limit)
                    await trio.sleep(bucket.wait_s(RATE, now=trio.current_time()))
        finally:
            listener.close()


async def _serve(stream: Stream, folder: Path, clock: WallClock, limit: trio.Semaphore) -> None:
    try:
        with trio.fail_after(SECONDS_MAX):
            await stream.handshake()
            answer = _answer(await receive_message(stream), folder, clock, stream.peer)
            await send_message(stream, encode_answer(answer))
            # The other end closes when it has read the answer. Closed here, it could be cut off.
            with suppress(NetworkError):
                await stream.receive_some(1)
    except (NetworkError, SchemaError) as error:
        log.warning("a connection of a node that joins failed", reason=str(error))
    except trio.TooSlowError:
        log.warning("a connection of a node that joins took too long", peer=stream.peer, seconds=SECONDS_MAX)
    finally:
        stream.close()
        limit.release()


def _answer(received: bytes, folder: Path, clock: WallClock, peer: str) -> JoinAnswer:
    try:
        joined = JoinTokens(folder, now=_now(clock)).sign(decode_request(received))
    except SchemaError as error:
        log.warning("a request to join is refused", peer=peer, reason=str(error))
        return JoinAnswer(
            refused="the request can't be read; send it by `quorate certs join` of this version"
        )
    except JoinRefusedError as error:
        log.warning("a request to join is refused", peer=peer, reason=str(error))
        return JoinAnswer(refused=str(error))
    except CertificateError as error:
        log.error("the certificate of a node that joins can't be made", peer=peer, reason=str(error))
        return JoinAnswer(refused="the authority can't sign now; its log says why. Then try again")
    log.info("signed the certificate of a node that joins", node=joined.node, peer=peer)
    return joined.answer


def _now(clock: WallClock) -> datetime:
    return datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
