"""`quorate quotas` against a cluster of one."""

import pytest

from quorate.cli.console.cli_errors import ExitCode
from tests.cli.command import Quorate


@pytest.mark.slow
def test_quotas_are_set_listed_and_removed(ask: Quorate) -> None:
    def quotas(*words: str) -> str:
        return ask.output("quotas", *words)

    def listed(*words: str) -> list[tuple[dict[str, str | None], dict[str, float]]]:
        return [(each["entity"], each["quotas"]) for each in ask.json("quotas", "list", *words)]

    assert listed() == []
    done = quotas("set", "--user", "ann", "producer_byte_rate=10000000", "request_percentage=12.5")
    assert done == "set producer_byte_rate, request_percentage of user ann\n"
    quotas("set", "--user", "ann", "--client-id-default", "consumer_byte_rate=5")
    quotas("set", "--ip-default", "connection_creation_rate=100")
    tried = quotas("set", "--client-id", "app", "consumer_byte_rate=7", "--validate-only")
    assert tried == "would set consumer_byte_rate of client-id app\n"
    removed = "removed request_percentage of user ann\n"
    ann = ({"user": "ann"}, {"producer_byte_rate": 1e7, "request_percentage": 12.5})
    both = ({"user": "ann", "client-id": None}, {"consumer_byte_rate": 5.0})
    assert listed() == [({"ip": None}, {"connection_creation_rate": 100.0}), ann, both]
    assert listed("--user", "ann") == [ann, both]
    assert listed("--ip-default") == [({"ip": None}, {"connection_creation_rate": 100.0})]
    table = quotas("list")
    assert "12.5" in table and "(default)" in table and "10000000" in table
    assert quotas("remove", "--user", "ann", "request_percentage") == removed
    assert listed("--user", "ann") == [({"user": "ann"}, {"producer_byte_rate": 1e7}), both], "both stay"
    assert quotas("remove", "--user", "ann") == "removed producer_byte_rate of user ann\n"
    assert quotas("remove", "--user", "ann") == "user ann has no quotas\n"
    missing = ask.error("quotas", "remove", "--ip-default", "producer_byte_rate")
    assert "ip (default) has no quota producer_byte_rate; it has connection_creation_rate" in missing


@pytest.mark.slow
@pytest.mark.costly
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--user", "ann", "bytes=1"), "'bytes' is no quota of this entity"),
        (("--user", "ann", "producer_byte_rate=0"), "must be greater than 0"),
        (("--ip", "localhost", "connection_creation_rate=1"), "'localhost' is no IP address"),
    ],
)
def test_the_clusters_refusal_names_the_owner_and_the_quota(
    ask: Quorate, words: tuple[str, ...], says: str
) -> None:
    assert says in ask.error("quotas", "set", *words)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("set", "producer_byte_rate=1"), "name whose quotas"),
        (("remove",), "name whose quotas"),
        (("set", "--user", "a", "producer_byte_rate"), "is not of the form quota=number"),
        (("set", "--user", "a", "producer_byte_rate=many"), "is not of the form quota=number"),
        (("set", "--user", "a", "producer_byte_rate=inf"), "is not of the form quota=number"),
        (("set", "--user", "a", "x=1", "x=2"), "x is given twice"),
        (("set", "--user", "a", "--user-default", "x=1"), "exclude one another"),
        (("set", "--user", "", "x=1"), "--user-default"),
        (("set", "--ip", "::1", "--client-id", "a", "x=1"), "--ip stands alone"),
    ],
)
def test_a_command_that_contradicts_itself_is_refused_before_anybody_is_asked(
    quorate: Quorate, words: tuple[str, ...], says: str
) -> None:
    assert says in quorate.error("quotas", *words, code=ExitCode.USAGE)
