"""The settings of a login, with characters that its formats escape."""

import javaproperties
import pytest

from quorate.broker.wire.client_protection import login_of
from quorate.cli.node.client_login import ClientLogin

STRANGE = ["plain", 'with "quotes"', "back\\slash", " blanks ", "semi;colon", "=:#!", "pässwörd €"]


@pytest.mark.parametrize("password", STRANGE)
def test_javas_properties_carry_every_password(password: str) -> None:
    login = ClientLogin(user="a b", password=password, authorities="/ca.pem", bootstrap_servers="h:1,h:2")
    text = login.java_properties()
    assert text.isascii(), "Java reads such files as Latin-1"
    read = javaproperties.loads(text)
    assert read == dict(login.java())
    assert read["bootstrap.servers"] == "h:1,h:2"
    found = login_of(read)
    assert (found.user, found.password) == ("a b", password)


def test_a_login_without_addresses_names_none() -> None:
    login = ClientLogin(user="a", password="b", authorities="/ca.pem")
    assert "bootstrap.servers" not in login.java() and "bootstrap.servers" not in login.librdkafka()
