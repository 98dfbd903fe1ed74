"""Names of certificates' subjects by rules. Cases are Kafka's (SslPrincipalMapperTest), and ours."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.access.certificates import principal_of
from quorate.broker.wire.principal_rules import SUBJECT_MAX, PrincipalRuleError, PrincipalRules
from quorate.broker.wire.principals import Principal
from quorate.runtime import TlsError


@pytest.mark.parametrize(
    "text",
    [
        "DEFAULT",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT",
        "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/",
        "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L",
        "RULE:^cn=(.?),ou=(.?),dc=(.?),dc=(.?)$/$1@$2/U",
        "RULE:^CN=([^,ADEFLTU,]+)(,.*|$)/$1/",
        "RULE:^CN=([^,DEFAULT,]+)(,.*|$)/$1/",
    ],
)
def test_kafkas_valid_rules_are_valid(text: str) -> None:
    assert PrincipalRules.parse(text).rules


@pytest.mark.parametrize(
    "text",
    [
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "DEFAULT/U",
        "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/L",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/LU",
    ],
)
def test_kafkas_invalid_rules_are_invalid(text: str) -> None:
    with pytest.raises(PrincipalRuleError, match="is no rule"):
        PrincipalRules.parse(text)


MIXED = ", ".join([
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L",
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U",
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U",
    "DEFAULT",
])  # fmt: skip


@pytest.mark.parametrize(
    ("text", "subject", "name"),
    [
        (MIXED, "CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        (MIXED, "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        (MIXED, "cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        (MIXED, "cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        (MIXED, "OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
        (r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT", r"CN=Tkac\, Adam,OU=ITZ,DC=cz", r"Tkac\, Adam"),
        # The whole subject has to match.
        ("RULE:CN=bob/bob/", "CN=bob,O=Shop", None),
        ("RULE:CN=bob/bob/", "O=Shop,CN=bob", None),
        ("RULE:CN=bob/bob/", "CN=bob", "bob"),
        ("RULE:CN=(\\w+),O=Shop/$1/", "CN=eve,O=CN=bob,O=Shop", None),
        # Groups beyond the last are text, digit by digit.
        ("RULE:CN=(.*)$/$1@$4/", "CN=bob", "bob@$4"),
        ("RULE:^CN=(.*)$/$12/", "CN=bob", "bob2"),
        ("RULE:^CN=(.*)$/$0/", "CN=bob", "CN=bob"),
        ("RULE:^CN=(a)?(.*)$/<$1$2>/", "CN=bob", "<bob>"),
        (r"RULE:^CN=(.*)$/\$1\/$1/", "CN=bob", "$1/bob"),
        (r"RULE:^CN=a\/(.*)$/$1/", "CN=a/bob", "bob"),
        # Each part that matches is replaced, as by Java's replaceAll.
        ("RULE:.*/x/", "CN=bob", "xx"),
        ("RULE:CN=(.*?)/<$1>/", "CN=bob", "<>bob"),
        # Letters of ASCII only, as in Java.
        (r"RULE:^CN=(\w+)$/$1/", "CN=bób", None),
        # No name is no user.
        ("RULE:^CN=.*$//", "CN=bob", None),
        ("RULE:^CN=(.*)$/$1/", "CN=" + "b" * SUBJECT_MAX, None),
        ("DEFAULT", "CN=" + "b" * SUBJECT_MAX, "CN=" + "b" * SUBJECT_MAX),
        ("", "CN=bob", None),
        (",, ,DEFAULT,,", "CN=bob", "CN=bob"),
        ("  RULE:   /     / ,  DEFAULT  ", "CN=bob", "CN=bob"),
    ],
)  # fmt: skip
def test_the_first_rule_that_fits_makes_the_name(text: str, subject: str, name: str | None) -> None:
    assert PrincipalRules.parse(text).name_of(subject) == name


def test_kafkas_rules_with_rules_in_them_are_taken_apart() -> None:
    text = (
        r"RULE:,RULE:,/,RULE:,\//U,RULE:,/RULE:,/,RULE:,RULE:,/L,RULE:,/L,RULE:, DEFAULT, /DEFAULT/,DEFAULT"
    )
    found = [
        None if each.pattern is None else (each.pattern.pattern, each.replacement, each.case)
        for each in PrincipalRules.parse(text).rules
    ]
    assert found == [
        (",RULE:,", r",RULE:,\/", "U"), (",", "RULE:,", ""), (",RULE:,", "L,RULE:,", "L"),
        (", DEFAULT, ", "DEFAULT", ""), None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (r"RULE:^CN=(\p{L}+)$/$1/", r"can't be used: bad escape \\p"),
        (r"RULE:^CN=([a-z&&[^b]]+)$/$1/", "can't be used: Possible"),
        ("RULE:^CN=(/$1/", "can't be used: missing"),
        ("RULE:^CN=.*$/$1/", r"'\$1' in the replacement .* stands for no group"),
        ("RULE:^CN=(.*)$/a$b/", r"'\$' in the replacement .* stands for no group"),
    ],
)
def test_what_python_does_not_read_as_java_does_is_refused(text: str, says: str) -> None:
    with pytest.raises(PrincipalRuleError, match=says):
        PrincipalRules.parse(text)


PLAIN_TEXT = st.text(st.characters(codec="ascii", exclude_characters="\\/$", exclude_categories=["Cc"]))


@pytest.mark.bug("CVE-2026-33248")
@given(PLAIN_TEXT.filter(bool))
def test_what_is_captured_whole_is_the_name(name: str) -> None:
    assert PrincipalRules.parse("RULE:^CN=(.*)$/$1/").name_of(f"CN={name}") == name
    assert PrincipalRules.parse("RULE:^CN=(.*)$/$1/U,DEFAULT").name_of(f"CN={name}") == name.upper()
    assert PrincipalRules.parse("RULE:^CN=(.*)$/$1/,DEFAULT").name_of(f"O={name}") == f"O={name}"


@given(st.text(st.sampled_from("RULE:DEFAULT/\\$1,LU ()*^."), max_size=40))
def test_any_text_is_rules_or_an_error(text: str) -> None:
    try:
        rules = PrincipalRules.parse(text)
    except PrincipalRuleError:
        return
    rules.name_of("CN=bob,O=Shop")


class Shown:
    identities, peer = (), "h:1"

    def __init__(self, subject: str) -> None:
        self.subject = subject


def test_a_subject_that_no_rule_fits_is_nobody() -> None:
    rules = PrincipalRules.parse("RULE:^CN=(.*?),O=Shop$/$1/")
    assert principal_of(Shown("CN=bob,O=Shop"), "c", rules) == Principal("User", "bob")  # type: ignore[arg-type]
    with pytest.raises(TlsError, match=r"no rule of ssl\.principal\.mapping\.rules fits"):
        principal_of(Shown("CN=bob,O=Other"), "c", rules)  # type: ignore[arg-type]
