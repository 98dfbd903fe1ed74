"""The protection of each listener, read from the keys of a node."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar
from urllib.parse import unquote, urlsplit

from quorate.broker.node_config.properties_file import PropertyValues
from quorate.broker.settings.config_key import TypedKey
from quorate.broker.settings.listener_keys import ListenerKeys
from quorate.broker.settings.node_keys import NodeKeys
from quorate.broker.wire.key_stores import KeyStoreError, tls_files
from quorate.broker.wire.listener_security import (
    ListenerSecurity,
    SaslMechanism,
    SecurityProtocol,
    TokenTerms,
)
from quorate.broker.wire.principal_rules import PrincipalRuleError, PrincipalRules
from quorate.runtime import MEMBERS, ClientAuth, TlsFiles, TlsTerms

T = TypeVar("T")

_NAMES: Final = frozenset(each.value for each in SecurityProtocol)


def protections(
    values: PropertyValues, names: Sequence[str], *, between_nodes: Sequence[str]
) -> Mapping[str, ListenerSecurity]:
    """Return the protection of listeners by name. `between_nodes`: those by which nodes know each other.
    Raises `ServerConfigError`."""
    protocols = _protocols(values, names)
    for prefixed, line in values.of_listeners.items():
        listener = prefixed.removeprefix("listener.name.").partition(".")[0]
        if listener not in [each.lower() for each in names]:
            raise values.error_at(
                prefixed, line, f"there is no listener {listener}; the prefix is its name in lower case"
            )
    found = {name: _protection(values, name, protocols[name]) for name in names}
    for name in between_nodes:
        _check_between_nodes(values, name, found[name])
        found[name] = replace(found[name], terms=MEMBERS)
    return found


def _protocols(values: PropertyValues, names: Sequence[str]) -> Mapping[str, SecurityProtocol]:
    key = NodeKeys.PROTOCOL_MAP
    mapped: dict[str, SecurityProtocol] = {}
    for item in values.get(key):
        listener, separator, protocol = item.partition(":")
        if not separator:
            raise values.error(key, f"{item!r} is not NAME:PROTOCOL")
        if protocol.upper() not in _NAMES:
            raise values.error(
                key, f"{listener} has protocol {protocol}; there are {', '.join(sorted(_NAMES))}"
            )
        mapped[listener] = SecurityProtocol(protocol.upper())
    protected = [name for name, each in mapped.items() if each is not SecurityProtocol.PLAINTEXT]
    for name in names:
        if name in mapped:
            continue
        if protected:
            # Else a listener that was forgotten would be open to everybody.
            raise values.error(key, f"{name} has no protocol, and {protected[0]} has; add {name}:PROTOCOL")
        mapped[name] = SecurityProtocol(name) if name in _NAMES else SecurityProtocol.PLAINTEXT
    return mapped


def _protection(values: PropertyValues, name: str, protocol: SecurityProtocol) -> ListenerSecurity:
    def get(key: TypedKey[T]) -> T:
        return values.of_listener(key, name)

    named = get(ListenerKeys.MECHANISMS) if protocol.sasl else ()
    mechanisms = tuple(map(SaslMechanism, named))
    if protocol.sasl and not mechanisms:
        raise values.error(
            ListenerKeys.MECHANISMS,
            f"listener {name} has protocol {protocol.value} and no mechanism; "
            "add sasl.enabled.mechanisms=SCRAM-SHA-512",
        )
    if not protocol.encrypted and SaslMechanism.PLAIN in mechanisms:
        raise values.error(
            ListenerKeys.MECHANISMS,
            f"listener {name} would take passwords in clear; give it protocol SASL_SSL, or leave PLAIN out",
        )
    if not protocol.encrypted and SaslMechanism.OAUTHBEARER in mechanisms:
        raise values.error(
            ListenerKeys.MECHANISMS,
            f"listener {name} would take tokens in clear; give it protocol SASL_SSL, or drop OAUTHBEARER",
        )
    keystore, truststore = get(ListenerKeys.KEYSTORE), get(ListenerKeys.TRUSTSTORE)
    # As in Kafka (KIP-684): of a listener with SASL only what is set for it alone counts.
    demand = (
        values.of_listener(ListenerKeys.CLIENT_AUTH, name, alone=True)
        if protocol.sasl
        else get(ListenerKeys.CLIENT_AUTH)
    )
    client_auth = ClientAuth(demand)
    if protocol.encrypted and not keystore:
        raise values.error(
            ListenerKeys.KEYSTORE,
            f"listener {name} has protocol {protocol.value} and no key; set "
            f"listener.name.{name.lower()}.ssl.keystore.location",
        )
    if protocol.encrypted and client_auth is not ClientAuth.NONE and not truststore:
        raise values.error(
            ListenerKeys.TRUSTSTORE,
            f"listener {name} asks clients for certificates, and no authority vouches for them; set "
            f"listener.name.{name.lower()}.ssl.truststore.location",
        )
    return ListenerSecurity(
        protocol=protocol,
        tls=_files(values, name) if protocol.encrypted else None,
        terms=TlsTerms(
            client_auth=client_auth,
            before_1_3="TLSv1.2" in get(ListenerKeys.PROTOCOLS),
            strict=False,
        ),
        principal_rules=_principal_rules(values, name),
        mechanisms=mechanisms,
        tokens=_token_terms(values, name) if SaslMechanism.OAUTHBEARER in mechanisms else None,
        max_receive_bytes=get(ListenerKeys.MAX_RECEIVE),
        failure_delay_s=get(ListenerKeys.FAILURE_DELAY) / 1000,
        session_max_s=get(ListenerKeys.MAX_REAUTH) / 1000,
    )


def _files(values: PropertyValues, name: str) -> TlsFiles:
    try:
        return tls_files(lambda key: values.of_listener(_STORES[key], name))
    except KeyStoreError as error:
        raise values.error(_STORES[error.key], f"listener {name}: {error}") from None


_STORES: Final = {
    each.name: each
    for each in (
        ListenerKeys.KEYSTORE,
        ListenerKeys.KEYSTORE_TYPE,
        ListenerKeys.KEYSTORE_PASSWORD,
        ListenerKeys.KEY_PASSWORD,
        ListenerKeys.TRUSTSTORE,
        ListenerKeys.TRUSTSTORE_TYPE,
        ListenerKeys.TRUSTSTORE_PASSWORD,
    )
}


def _token_terms(values: PropertyValues, name: str) -> TokenTerms:
    location = values.of_listener(ListenerKeys.TOKEN_KEYS, name)
    issuer = values.of_listener(ListenerKeys.TOKEN_ISSUER, name)
    audiences = values.of_listener(ListenerKeys.TOKEN_AUDIENCES, name)
    for key, given, example in (
        (ListenerKeys.TOKEN_KEYS, location, "file:///etc/quorate/jwks.json"),
        (ListenerKeys.TOKEN_ISSUER, issuer, "https://issuer.example/"),
        (ListenerKeys.TOKEN_AUDIENCES, audiences, "quorate"),
    ):
        if not given:
            raise values.error(
                key,
                f"listener {name} has OAUTHBEARER, and without this key tokens of others would count; add a "
                f"line such as {key.name}={example}",
            )
    return TokenTerms(
        keys=_token_file(values, name, location),
        issuer=issuer,
        audiences=audiences,
        skew_s=values.of_listener(ListenerKeys.TOKEN_SKEW, name),
        user_claim=values.of_listener(ListenerKeys.TOKEN_USER, name),
    )


def _token_file(values: PropertyValues, name: str, given: str) -> str:
    if given.startswith("/"):
        return given
    try:
        url = urlsplit(given)
    except ValueError:
        url = urlsplit("")
    if url.scheme in ("http", "https"):
        raise values.error(
            ListenerKeys.TOKEN_KEYS,
            f"listener {name}: nodes fetch nothing; have a timer do it, curl -fsS {given} -o jwks.new && mv "
            "jwks.new jwks.json, and name the file: file:///etc/quorate/jwks.json",
        )
    path = unquote(url.path)
    if url.scheme != "file" or url.netloc not in ("", "localhost") or not path.startswith("/"):
        raise values.error(
            ListenerKeys.TOKEN_KEYS,
            f"listener {name}: {given!r:.200} is no file; write file:///etc/quorate/jwks.json, or its path",
        )
    return path


def _principal_rules(values: PropertyValues, name: str) -> PrincipalRules:
    try:
        return PrincipalRules.parse(values.of_listener(ListenerKeys.PRINCIPAL_RULES, name))
    except PrincipalRuleError as error:
        raise values.error(ListenerKeys.PRINCIPAL_RULES, f"listener {name}: {error}") from error


def _check_between_nodes(values: PropertyValues, name: str, security: ListenerSecurity) -> None:
    if security.protocol.sasl:
        raise values.error(
            NodeKeys.PROTOCOL_MAP,
            f"{name} has protocol {security.protocol.value}, and nodes know each other by certificates; give "
            f"it protocol SSL and a keystore by `quorate certs create-node`, or PLAINTEXT",
        )
    if security.tls is not None and not security.tls.authorities:
        raise values.error(
            ListenerKeys.TRUSTSTORE,
            f"listener {name} is between nodes, and no authority vouches for them; set "
            f"listener.name.{name.lower()}.ssl.truststore.location to the ca.pem of the cluster",
        )
