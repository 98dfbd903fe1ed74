"""The rules that make names of certificates' subjects (`ssl.principal.mapping.rules`, KIP-371).

Source: Kafka's SslPrincipalMapper.
"""

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_RULES: Final = re.compile(r"\s*((DEFAULT)|RULE:((\\.|[^\\/])*)/((\\.|[^\\/])*)/([LU]?).*?|(.*?))\s*(,\s*|$)")
"""Kafka's own: commas may stand in rules."""
_PART: Final = re.compile(r"\\(.)|\$([0-9]+)|([$\\])", re.DOTALL)
"""What is not literal in a replacement."""
SUBJECT_MAX: Final = 1024
"""The most characters of a subject that rules are tried on, because a pattern may take long for long ones."""


class PrincipalRuleError(ValueError):
    """A rule can't be used. The message names it."""


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str] | None
    """None: the subject stays as it is (DEFAULT)."""
    replacement: str = ""
    case: str = ""

    def apply(self, subject: str) -> str | None:
        """Return the name. None: the rule is for others."""
        if self.pattern is None:
            return subject
        if self.pattern.fullmatch(subject) is None:
            return None
        # As in Kafka: where a part matches too, as with .*?, parts are replaced.
        name = self.pattern.sub(self._replaced, subject)
        return {"L": name.lower(), "U": name.upper()}.get(self.case, name)

    def _replaced(self, match: re.Match[str]) -> str:
        return _PART.sub(lambda part: _part(part, match), self.replacement)


def _part(part: re.Match[str], match: re.Match[str]) -> str:
    """Return what a part of a replacement stands for. Of `$12` the digits that lead beyond the last group are
    text; a group that is not there at all is text too."""
    if part[1] is not None:
        return part[1]
    digits = part[2]
    taken = len(digits)
    while taken > 1 and int(digits[:taken]) > match.re.groups:
        taken -= 1
    if int(digits[:taken]) > match.re.groups:
        return part[0]
    return (match[int(digits[:taken])] or "") + digits[taken:]


@dataclass(frozen=True, slots=True)
class PrincipalRules:
    """Rules in order, of which the first that fits a subject makes its name."""

    rules: Sequence[_Rule]

    @classmethod
    def parse(cls, text: str) -> "PrincipalRules":
        """Parse `RULE:pattern/replacement/[LU]` and `DEFAULT`, separated by commas. Raises
        `PrincipalRuleError`."""
        text = text.strip()
        found: list[_Rule] = []
        for match in _RULES.finditer(text):
            if match[2] is not None:
                found.append(_Rule(None))
            elif match[1] and (match[3] is None or match[1] != f"RULE:{match[3]}/{match[5]}/{match[7]}"):
                raise PrincipalRuleError(
                    f"{match[1]!r:.200} is no rule; write DEFAULT or RULE:pattern/replacement/[LU]"
                )
            elif match[1]:
                found.append(_rule(match[1], match[3], match[5], match[7]))
        return cls(tuple(found))

    def name_of(self, subject: str) -> str | None:
        """Return the name of a subject. None: no rule fits it, or it is longer than `SUBJECT_MAX`."""
        if len(subject) > SUBJECT_MAX and any(each.pattern is not None for each in self.rules):
            return None
        for rule in self.rules:
            name = rule.apply(subject)
            if name is not None:
                return name or None
        return None


DEFAULT_RULES: Final = PrincipalRules((_Rule(None),))


def _rule(text: str, pattern: str, replacement: str, case: str) -> _Rule:
    try:
        with warnings.catch_warnings():
            # Of sets within sets, which mean something else in Java.
            warnings.simplefilter("error", FutureWarning)
            compiled = re.compile(pattern, re.ASCII)
    except (re.error, FutureWarning) as error:
        raise PrincipalRuleError(
            f"the pattern of {text!r:.200} can't be used: {error}; it is read as Python's, which "
            "lacks some of Java's, such as \\p{L}, \\Q and sets within sets"
        ) from error
    for part in _PART.finditer(replacement):
        if part[3] is not None or (part[2] is not None and compiled.groups == 0 and int(part[2]) > 0):
            raise PrincipalRuleError(
                f"{part[0]!r} in the replacement of {text!r:.200} stands for no group; "
                "write \\$ for the character"
            )
    return _Rule(compiled, replacement, case)
