"""A new node gets its certificate: its key is made where it is, and stays there."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import trio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from quorate.cbor import SchemaError
from quorate.certs.certs_errors import CertificateError
from quorate.certs.folder import (
    AUTHORITY,
    AUTHORITY_KEY,
    cluster_of,
    write_authorities,
    write_member,
    write_private,
)
from quorate.certs.join_messages import (
    JoinAnswer,
    JoinToken,
    decode_answer,
    encode_request,
    receive_message,
    send_message,
)
from quorate.certs.making import key_pem, new_key
from quorate.raft.transport.identities import Identity, secured_as, signer_uri
from quorate.runtime import Address, Network, NetworkError, TlsError, TlsFiles, TlsFilesError, TlsTerms

SECONDS_MAX: Final = 20.0
"""For everything between the node and the server."""


async def join(token: JoinToken, server: Address, folder: str | Path, *, network: Network) -> TlsFiles:
    """Get the certificate of a token's node, and write it into a folder with its key, `ca.pem` and a
    keystore, in place of earlier ones. The key is kept from the first try on, so a try whose answer was lost
    can be repeated. `network`: without TLS.

    Raises `CertificateError`, also if the server refuses, and `NetworkError`.
    """
    out = Path(folder)
    _check_folder(out, token)
    name = f"node-{token.node}"
    pending = out / f"{name}.joining"
    try:
        key = _pending_key(pending)
        with TemporaryDirectory(prefix="joining-", dir=out) as private:
            tried = Path(private)
            answer = await _ask(token, server, key, network=network, pinned=tried / "pinned.pem")
            write_authorities(tried, answer.authorities.encode())
            certificate = answer.certificate.encode()
            _check(token, write_member(tried, name, key=key_pem(key), certificate=certificate), network)
        write_authorities(out, answer.authorities.encode())
        files = write_member(out, name, key=key_pem(key), certificate=certificate)
        pending.unlink()
    except NetworkError:
        raise
    except OSError as error:
        raise CertificateError(f"{error.filename or out} can't be used: {error.strerror}") from error
    return files


def _check_folder(out: Path, token: JoinToken) -> None:
    """Raise `CertificateError` if what is there would be lost."""
    if (out / AUTHORITY_KEY).exists():
        raise CertificateError(f"{out} is the folder of an authority; choose another one for the node")
    if (out / AUTHORITY).exists():
        cluster_id = cluster_of(out / AUTHORITY)
        if cluster_id != token.cluster_id:
            raise CertificateError(
                f"{out} has the certificates of cluster {cluster_id}, and the token is of "
                f"{token.cluster_id}; choose another folder"
            )


def _pending_key(path: Path) -> ec.EllipticCurvePrivateKey:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        key = new_key()
        write_private(path, key_pem(key))
        return key
    try:
        kept = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError) as error:
        raise CertificateError(f"{path} is no key in the form PEM; delete it, and try again") from error
    if not isinstance(kept, ec.EllipticCurvePrivateKey):
        raise CertificateError(f"{path} is no key of an elliptic curve; delete it, and try again")
    return kept


async def _ask(
    token: JoinToken,
    server: Address,
    key: ec.EllipticCurvePrivateKey,
    *,
    network: Network,
    pinned: Path,
) -> JoinAnswer:
    """Ask for the certificate of a key. Nothing is sent before the server has shown a certificate of the
    token's authority, and for this purpose: those of members are of the same authority."""
    write_private(pinned, token.authority.encode())
    signer = TlsFiles(certificate="", key="", authorities=str(pinned))
    csr = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    request = token.request(csr.public_bytes(serialization.Encoding.PEM).decode())
    try:
        with trio.fail_after(SECONDS_MAX):
            try:
                secured = network.secured(signer, TlsTerms(connects=True, any_host=True))
                stream = await secured.connect(server)
            except (TlsError, TlsFilesError) as error:
                raise CertificateError(
                    f"{server} is not the server of the token's authority, and nothing was sent to it "
                    f"({error}); give the address of `quorate certs sign`, or make another token there"
                ) from error
            try:
                if stream.identities != (signer_uri(token.cluster_id),):
                    names = ", ".join(stream.identities or ()) or "nobody"
                    raise CertificateError(
                        f"the certificate at {server} names {names}, and nothing was sent to it; give the "
                        "address of `quorate certs sign`"
                    )
                await send_message(stream, encode_request(request))
                answer = decode_answer(await receive_message(stream))
            finally:
                stream.close()
    except trio.TooSlowError:
        raise NetworkError(
            f"{server} has not answered within {SECONDS_MAX:.0f} s; try again, with the same token"
        ) from None
    except SchemaError as error:
        raise CertificateError(f"{server}: {error}") from error
    except NetworkError as error:
        raise NetworkError(f"{error}; try again, with the same token") from error
    if answer.refused:
        raise CertificateError(f"{server} refuses: {_printable(answer.refused)}")
    return answer


def _check(token: JoinToken, files: TlsFiles, network: Network) -> None:
    """Raise `CertificateError` unless a node can go by the files."""
    own = Identity(token.cluster_id, token.node)
    try:
        secured_as(network, files, own)
    except TlsFilesError as error:
        raise CertificateError(f"the certificate that came is not one of {own}: {error}") from error


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text)
