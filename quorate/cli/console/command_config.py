"""`--command-config`: how a command reaches a protected cluster, in the keys of Kafka's clients."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from quorate.cli.console.cli_errors import wrong_usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quorate.broker.wire.login_network import Login
    from quorate.runtime import Network

_MODULE: Final = re.compile(
    r"\s*org\.apache\.kafka\.common\.security\.(?:scram\.Scram|plain\.Plain)LoginModule\s+required\s+(.*?);?\s*",
    re.DOTALL,
)
_OPTION: Final = re.compile(r"""\s*(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"';]+))""")
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_OPTION_NAME: Final = "--command-config"


def network_by(path: Path | None) -> "Network":
    """Return the network that connects as the file says; None: without protection. Exits with the key that is
    wrong."""
    from quorate.runtime import TlsFiles, TlsFilesError, TlsTerms
    from quorate.runtime.real import RealNetwork, SyncStrategy, real_runtime

    if path is None:
        return RealNetwork()
    values = _read(path)
    protocol = values.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise _wrong(
            path, "security.protocol", f"it is {protocol}; it must be one of {', '.join(_PROTOCOLS)}"
        )
    network: Network = RealNetwork()
    if protocol.endswith("SSL"):
        if values.get("ssl.endpoint.identification.algorithm", "https") != "https":
            raise _wrong(
                path,
                "ssl.endpoint.identification.algorithm",
                "hosts are always compared; only https can be had",
            )
        for key in ("ssl.keystore.type", "ssl.truststore.type"):
            if values.get(key, "PEM") != "PEM":
                raise _wrong(path, key, "quorate reads PEM; make it by openssl pkcs12 -nodes, and write PEM")
        keystore = values.get("ssl.keystore.location", "")
        files = TlsFiles(
            certificate=keystore, key=keystore, authorities=values.get("ssl.truststore.location", "")
        )
        try:
            network = network.secured(files, TlsTerms(before_1_3=True, strict=False, connects=True))
        except TlsFilesError as error:
            raise wrong_usage(f"{_OPTION_NAME} {path}: {error}") from None
    if protocol.startswith("SASL"):
        from quorate.broker.wire.login_network import LoginNetwork

        entropy = real_runtime(sync=SyncStrategy.INLINE).entropy
        network = LoginNetwork(network, _login(path, values), entropy)
    return network


def _read(path: Path) -> "Mapping[str, str]":
    import javaproperties

    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise wrong_usage(f"{_OPTION_NAME} {path}: it can't be read ({error})") from None
    try:
        return {key: value.strip() for key, value in javaproperties.loads(text).items()}
    except ValueError as error:
        raise wrong_usage(f"{_OPTION_NAME} {path}: {error}") from None


def _login(path: Path, values: "Mapping[str, str]") -> "Login":
    from quorate.broker.wire.listener_security import SaslMechanism
    from quorate.broker.wire.login_network import Login

    known = [each.value for each in SaslMechanism]
    mechanism = values.get("sasl.mechanism", "")
    if mechanism not in known:
        raise _wrong(path, "sasl.mechanism", f"it is {mechanism!r}; it must be one of {', '.join(known)}")
    module = _MODULE.fullmatch(values.get("sasl.jaas.config", ""))
    given = {} if module is None else {
        name: re.sub(r"\\(.)", r"\1", double or single) or bare
        for name, double, single, bare in _OPTION.findall(module[1])
    }  # fmt: skip
    user, password = given.get("username", ""), given.get("password", "")
    if not user or not password:
        raise _wrong(
            path,
            "sasl.jaas.config",
            "it names no user; write org.apache.kafka.common.security.scram.ScramLoginModule required "
            'username="NAME" password="PASSWORD";',
        )
    return Login(mechanism=SaslMechanism(mechanism), user=user, password=password)


def _wrong(path: Path, key: str, problem: str) -> Exception:
    return wrong_usage(f"{_OPTION_NAME} {path}: {key}: {problem}")
