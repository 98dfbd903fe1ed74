"""The protection of listeners: Kafka's keys, prefixes and protocols, and what is refused."""

import pytest

from quorate.broker.node_config.properties_file import ServerConfigError
from quorate.broker.node_config.server_config import ServerConfig
from quorate.broker.wire.listener_security import (
    ListenerSecurity,
    SaslMechanism,
    SecurityProtocol,
    TokenTerms,
)
from quorate.runtime import MEMBERS, ClientAuth, KeyStoreForm, TlsFiles, TlsUse

SECURED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "BROKERS://:9091,CLIENTS://:9092,CONTROLLER://:9093",
    "inter.broker.listener.name": "BROKERS",
    "listener.security.protocol.map": "BROKERS:SSL,CLIENTS:SASL_SSL,CONTROLLER:SSL",
    "ssl.keystore.location": "/secrets/node.pem",
    "ssl.truststore.location": "/secrets/ca.pem",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
}


KEYS = "sasl.oauthbearer.jwks.endpoint.url"
HANDLER = "listener.name.clients.oauthbearer.sasl.server.callback.handler.class"
TOKENS: dict[str, str | None] = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    KEYS: "file:///etc/key%20sets/jwks.json",
    "sasl.oauthbearer.expected.issuer": "https://issuer.example/",
    "sasl.oauthbearer.expected.audience": "quorate,kafka",
}


def parse(changed: dict[str, str | None]) -> ServerConfig:
    values = {key: value for key, value in (SECURED | changed).items() if value is not None}
    return ServerConfig.parse("".join(f"{key}={value}\n" for key, value in values.items()))


def clients(**changed: str | None) -> ListenerSecurity:
    return parse(changed).listener_security["CLIENTS"]


def test_nodes_know_each_other_by_certificates_and_clients_log_in() -> None:
    config = parse({})
    files = TlsFiles(certificate="/secrets/node.pem", key="/secrets/node.pem", authorities="/secrets/ca.pem")
    assert (config.controller_tls, config.inter_broker_tls) == (files, files)
    assert config.quorum(cluster_id="c").tls == files
    assert config.listener_security["BROKERS"].terms == MEMBERS
    protected = config.listener_security["CLIENTS"]
    assert protected.protocol is SecurityProtocol.SASL_SSL
    assert protected.mechanisms == (SaslMechanism.SCRAM_SHA_512,)
    assert protected.terms.client_auth is ClientAuth.NONE
    assert protected.terms.before_1_3


def test_the_quorum_says_how_far_it_has_come_to_tls() -> None:
    assert parse({}).quorum(cluster_id="c").tls_use is TlsUse.REQUIRED
    assert parse({"controller.tls.use": "accepted"}).quorum(cluster_id="c").tls_use is TlsUse.ACCEPTED
    open_quorum = "BROKERS:SSL,CLIENTS:SASL_SSL,CONTROLLER:PLAINTEXT"
    with pytest.raises(ServerConfigError, match=r"controller\.tls\.use.* give it SSL"):
        parse({"controller.tls.use": "preferred", "listener.security.protocol.map": open_quorum})


def test_a_key_with_the_prefix_of_a_listener_is_its_own() -> None:
    changed = {"listener.name.clients.ssl.keystore.location": "/public/site.pem"}
    config = parse(changed)
    tls = config.listener_security["CLIENTS"].tls
    assert tls is not None and tls.certificate == "/public/site.pem"
    assert config.controller_tls is not None and config.controller_tls.certificate == "/secrets/node.pem"


def test_only_its_own_key_asks_the_clients_of_a_listener_with_sasl_for_certificates() -> None:
    assert clients(**{"ssl.client.auth": "required"}).terms.client_auth is ClientAuth.NONE
    own = clients(**{"listener.name.clients.ssl.client.auth": "requested"})
    assert own.terms.client_auth is ClientAuth.REQUESTED
    of_ssl = clients(
        **{
            "listener.security.protocol.map": "BROKERS:SSL,CLIENTS:SSL,CONTROLLER:SSL",
            "ssl.client.auth": "required",
        }
    )
    assert of_ssl.terms.client_auth is ClientAuth.REQUIRED


def test_a_listener_takes_tokens_by_the_keys_of_kafka() -> None:
    assert clients(**TOKENS).tokens == TokenTerms(
        keys="/etc/key sets/jwks.json", issuer="https://issuer.example/", audiences=("quorate", "kafka")
    )
    changed = {
        **TOKENS,
        KEYS: None,
        f"listener.name.clients.{KEYS}": "/etc/own.json",
        "listener.name.clients.sasl.oauthbearer.clock.skew.seconds": "5",
        "sasl.oauthbearer.sub.claim.name": "email",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms": "60000",
        "sasl.oauthbearer.scope.claim.name": "scp",
        HANDLER: "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
    }
    own = clients(**changed).tokens
    assert own is not None
    assert (own.keys, own.skew_s, own.user_claim) == ("/etc/own.json", 5, "email")
    assert clients(**{**TOKENS, "sasl.enabled.mechanisms": "PLAIN"}).tokens is None


def test_a_cluster_without_protection_needs_no_key() -> None:
    plain = {key: None for key in SECURED if key.startswith(("ssl.", "sasl.", "listener."))}
    config = parse(plain)
    assert config.controller_tls is None and config.inter_broker_tls is None
    assert {each.protocol for each in config.listener_security.values()} == {SecurityProtocol.PLAINTEXT}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (
            {"listener.security.protocol.map": "BROKERS:SSL,CONTROLLER:SSL"},
            "CLIENTS has no protocol, and BROKERS has; add CLIENTS:PROTOCOL",
        ),
        ({"listener.security.protocol.map": "CLIENTS:TLS"}, "CLIENTS has protocol TLS; there are PLAINTEXT"),
        (
            {"listener.security.protocol.map": "BROKERS:SASL_SSL,CLIENTS:SSL,CONTROLLER:SSL"},
            "BROKERS has protocol SASL_SSL, and nodes know each other by certificates",
        ),
        ({"sasl.enabled.mechanisms": None}, "listener CLIENTS has protocol SASL_SSL and no mechanism"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "it must be one or more of: SCRAM-SHA-256"),
        (
            {
                "listener.security.protocol.map": "BROKERS:SSL,CLIENTS:SASL_PLAINTEXT,CONTROLLER:SSL",
                "sasl.enabled.mechanisms": "PLAIN",
            },
            "listener CLIENTS would take passwords in clear; give it protocol SASL_SSL",
        ),
        ({"ssl.keystore.location": None}, "has protocol SSL and no key; set listener.name.brokers.ssl"),
        ({"ssl.truststore.location": None}, "is between nodes, and no authority vouches for them"),
        (
            {
                "listener.name.clients.ssl.client.auth": "required",
                "listener.name.clients.ssl.truststore.location": "",
            },
            "listener CLIENTS asks clients for certificates, and no authority vouches for them",
        ),
        ({"listener.name.nobody.ssl.client.auth": "none"}, "there is no listener nobody"),
        ({"listener.name.clients.num.partitions": "1"}, "is not a known key"),
        ({"listener.name.clients.ssl.client.auth": "maybe"}, "it must be none, requested or required"),
        (
            {"ssl.keystore.type": "JKS"},
            "keytool -importkeystore -srckeystore FILE -destkeystore FILE.p12 -deststoretype PKCS12",
        ),
        ({"listener.name.clients.ssl.truststore.type": "JKS"}, "keytool -importkeystore"),
        ({"ssl.keystore.password": "hidden"}, "a file of the form PEM has no password"),
        (
            {
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.password": "hidden",
                "ssl.key.password": "hidden 2",
            },
            "in PKCS12 it is that of ssl.keystore.password; leave it out",
        ),
        (
            {
                "listener.security.protocol.map": "BROKERS:SSL,CLIENTS:SASL_PLAINTEXT,CONTROLLER:SSL",
                **TOKENS,
            },
            "listener CLIENTS would take tokens in clear; give it protocol SASL_SSL",
        ),
        (
            {**TOKENS, KEYS: None},
            "without this key tokens of others would count; add a line such as "
            "sasl.oauthbearer.jwks.endpoint.url=file:///etc/quorate/jwks.json",
        ),
        (
            {**TOKENS, "sasl.oauthbearer.expected.issuer": None},
            "sasl.oauthbearer.expected.issuer: listener CLIENTS has OAUTHBEARER",
        ),
        (
            {**TOKENS, "sasl.oauthbearer.expected.audience": " , "},
            "sasl.oauthbearer.expected.audience: listener CLIENTS has OAUTHBEARER",
        ),
        (
            {**TOKENS, KEYS: "https://issuer.example/keys"},
            "nodes fetch nothing; have a timer do it, curl -fsS https://issuer.example/keys -o",
        ),
        ({**TOKENS, KEYS: "file://server/etc/jwks.json"}, "is no file; write file:///etc/quorate/jwks.json"),
        ({**TOKENS, KEYS: "ftp://issuer.example/keys"}, "is no file; write file:///etc/quorate/jwks.json"),
        ({**TOKENS, KEYS: "jwks.json"}, "is no file; write file:///etc/quorate/jwks.json"),
        ({**TOKENS, "sasl.oauthbearer.clock.skew.seconds": "601"}, "it must be between 0 and 600"),
        ({**TOKENS, "sasl.oauthbearer.sub.claim.name": ""}, "it must not be empty"),
        ({**TOKENS, HANDLER: "org.example.Mine"}, "no class is loaded: tokens are checked as by Kafka's org"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "it must be one or more of: TLSv1.2, TLSv1.3"),
    ],
)
def test_what_would_leave_a_listener_open_is_refused_with_the_remedy(
    changed: dict[str, str | None], says: str
) -> None:
    with pytest.raises(ServerConfigError) as raised:
        parse(changed)
    assert says in str(raised.value)
    assert "hidden" not in str(raised.value)


def test_a_listener_may_have_a_keystore_of_another_form_and_no_repr_shows_its_password() -> None:
    config = parse(
        {
            "ssl.key.password": "hidden",
            "listener.name.clients.ssl.keystore.type": "PKCS12",
            "listener.name.clients.ssl.keystore.location": "/public/site.p12",
            "listener.name.clients.ssl.keystore.password": "hidden 2",
            "listener.name.clients.ssl.key.password": "hidden 2",
        }
    )
    site, nodes = config.listener_security["CLIENTS"].tls, config.controller_tls
    assert site is not None and nodes is not None
    assert (site.key_form, site.key_password) == (KeyStoreForm.PKCS12, "hidden 2")
    assert (nodes.key_form, nodes.key_password) == (KeyStoreForm.PEM, "hidden")
    assert "hidden" not in repr(config)


def test_rules_for_names_are_a_listeners_own_and_a_bad_one_is_named() -> None:
    own = {"listener.name.clients.ssl.principal.mapping.rules": "RULE:^CN=(.*?),.*$/$1/L,DEFAULT"}
    config = parse(dict(own))
    assert config.listener_security["CLIENTS"].principal_rules.name_of("CN=Bob,O=Shop") == "bob"
    assert config.listener_security["BROKERS"].principal_rules.name_of("CN=Bob,O=Shop") == "CN=Bob,O=Shop"
    with pytest.raises(ServerConfigError, match=r"ssl\.principal\.mapping\.rules.*'default' is no rule"):
        parse({"ssl.principal.mapping.rules": "default"})
