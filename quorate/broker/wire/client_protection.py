"""A client's way to a protected cluster, in the keys of Kafka's clients: `security.protocol`, `ssl.*` and
`sasl.*`. Commands take them from a file, Spark's sources as options."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from quorate.broker.settings.listener_keys import CONVERT
from quorate.broker.wire.key_stores import KeyStoreError, tls_files
from quorate.broker.wire.listener_security import SaslMechanism, SecurityProtocol
from quorate.broker.wire.login_network import Login, LoginNetwork
from quorate.runtime import (
    MEMBERS,
    Address,
    CertificateEnd,
    Listener,
    Network,
    Stream,
    TlsFiles,
    TlsFilesError,
    TlsTerms,
)
from quorate.runtime.real import RealNetwork, SyncStrategy, real_runtime

_MODULE: Final = re.compile(
    r"\s*org\.apache\.kafka\.common\.security\.(?:scram\.Scram|plain\.Plain)LoginModule\s+required\s+(.*?);?\s*",
    re.DOTALL,
)
_OPTION: Final = re.compile(r"""\s*(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"';]+))""")


class ClientProtectionError(ValueError):
    """A setting can't be used. The message has no secret."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"{key}: {problem}")
        self.key = key


class ClientNetwork:
    """`quorate.runtime.network.Network` that connects as the settings of a client say.

    It can be pickled: where it arrives, the files are read anew.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        """`settings`: others than those of the protection are left alone. Raises `ClientProtectionError`."""
        self._settings = dict(settings)
        self._network = _network_by(self._settings)

    def __reduce__(self) -> tuple[type["ClientNetwork"], tuple[Mapping[str, str]]]:
        return ClientNetwork, (self._settings,)

    @property
    def identities(self) -> tuple[str, ...] | None:
        return self._network.identities

    @property
    def certificates(self) -> Sequence[CertificateEnd]:
        return self._network.certificates

    async def connect(self, address: Address) -> Stream:
        return await self._network.connect(address)

    async def listen(self, address: Address) -> Listener:
        return await self._network.listen(address)

    def secured(self, files: TlsFiles, terms: TlsTerms = MEMBERS) -> Network:
        return self._network.secured(files, terms)


def protocol_of(settings: Mapping[str, str]) -> SecurityProtocol:
    """Return the protocol that a client's settings name. Raises `ClientProtectionError`."""
    named = settings.get("security.protocol", SecurityProtocol.PLAINTEXT.value).upper()
    try:
        return SecurityProtocol(named)
    except ValueError:
        known = ", ".join(each.value for each in SecurityProtocol)
        raise ClientProtectionError(
            "security.protocol", f"it is {named}; it must be one of {known}"
        ) from None


def _network_by(settings: Mapping[str, str]) -> Network:
    protocol = protocol_of(settings)
    network: Network = RealNetwork()
    if protocol.encrypted:
        network = _secured(network, settings)
    if protocol.sasl:
        network = LoginNetwork(network, login_of(settings), real_runtime(sync=SyncStrategy.INLINE).entropy)
    return network


def _secured(network: Network, settings: Mapping[str, str]) -> Network:
    if settings.get("ssl.endpoint.identification.algorithm", "https") != "https":
        raise ClientProtectionError(
            "ssl.endpoint.identification.algorithm", "hosts are always compared; only https can be had"
        )
    for key in ("ssl.keystore.type", "ssl.truststore.type"):
        if settings.get(key, "PEM") not in ("PEM", "PKCS12"):
            raise ClientProtectionError(key, CONVERT)
    try:
        files = tls_files(lambda key: settings.get(key, ""))
    except KeyStoreError as error:
        raise ClientProtectionError(error.key, str(error)) from None
    try:
        return network.secured(files, TlsTerms(before_1_3=True, strict=False, connects=True))
    except TlsFilesError as error:
        raise ClientProtectionError("ssl.*", str(error)) from None


def login_of(settings: Mapping[str, str]) -> Login:
    """Return the user that a client's settings name. Raises `ClientProtectionError`."""
    known = [each.value for each in SaslMechanism if each is not SaslMechanism.OAUTHBEARER]
    mechanism = settings.get("sasl.mechanism", "")
    if mechanism not in known:
        raise ClientProtectionError(
            "sasl.mechanism", f"it is {mechanism!r}; it must be one of {', '.join(known)}"
        )
    module = _MODULE.fullmatch(settings.get("sasl.jaas.config", ""))
    given = {} if module is None else {
        name: re.sub(r"\\(.)", r"\1", double or single) or bare
        for name, double, single, bare in _OPTION.findall(module[1])
    }  # fmt: skip
    user, password = given.get("username", ""), given.get("password", "")
    if not user or not password:
        raise ClientProtectionError(
            "sasl.jaas.config",
            "it names no user; write org.apache.kafka.common.security.scram.ScramLoginModule required "
            'username="NAME" password="PASSWORD";',
        )
    return Login(mechanism=SaslMechanism(mechanism), user=user, password=password)
