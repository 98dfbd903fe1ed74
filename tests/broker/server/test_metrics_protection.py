"""Which metrics endpoints a node starts with."""

import pytest

from quorate.broker.node_config.metrics_protection import metrics_tls
from quorate.broker.node_config.properties_file import ServerConfigError
from quorate.broker.node_config.server_config import ServerConfig
from quorate.runtime import ClientAuth

NODE = {
    "process.roles": "controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "CONTROLLER://:9093",
    "metrics.http.port": "7071",
}
TLS = {"metrics.http.ssl.keystore.location": "/k.pem"}
TOKEN = {"metrics.http.token.location": "/token"}
AUTHORITIES = {"metrics.http.ssl.truststore.location": "/ca.pem"}


def parse(changed: dict[str, str]) -> ServerConfig:
    return ServerConfig.parse("".join(f"{key}={value}\n" for key, value in (NODE | changed).items()))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "::1", "localhost"])
def test_on_this_machine_the_endpoint_may_be_open(host: str) -> None:
    assert metrics_tls(parse({"metrics.http.host": host}).metrics) is None


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.1", "one.example"])
@pytest.mark.parametrize("more", [{}, TLS, TOKEN])
def test_beyond_it_the_endpoint_has_to_ask_who_reads(host: str, more: dict[str, str]) -> None:
    with pytest.raises(ServerConfigError, match=r"metrics\.http\.host: .*metrics\.http\.open=true"):
        parse({"metrics.http.host": host} | more)
    assert parse({"metrics.http.host": host, "metrics.http.port": "-1"} | more)
    for protected in (TLS | TOKEN, TLS | AUTHORITIES, {"metrics.http.open": "true"}):
        assert parse({"metrics.http.host": host} | more | protected)


def test_authorities_without_tls_are_a_mistake() -> None:
    with pytest.raises(ServerConfigError, match=r"no TLS; set metrics\.http\.ssl\.keystore\.location"):
        parse(AUTHORITIES)


PEERS = "metrics.http.page.peers"


@pytest.mark.parametrize(
    "peer",
    [
        "other:7071",
        "http://other:7071/",
        "ftp://other",
        "http://a b",
        "x@http://a",
        "@http://a",
        "http://a;script-src *",
        "http://",
    ],
)
def test_another_page_is_a_scheme_a_host_and_a_port(peer: str) -> None:
    good = "1@http://a.example:7071,https://[::1]:7072,http://b"
    assert parse({PEERS: good}).metrics.page_peers == tuple(good.split(","))
    with pytest.raises(ServerConfigError, match=r"metrics\.http\.page\.peers: .*write ID@http://HOST:PORT"):
        parse({PEERS: peer})


def test_a_truststore_makes_scrapers_show_a_certificate() -> None:
    for more, demanded in (({}, ClientAuth.NONE), (AUTHORITIES, ClientAuth.REQUIRED)):
        found = metrics_tls(parse(TLS | more).metrics)
        assert found is not None and found[1].client_auth is demanded
