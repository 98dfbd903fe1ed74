"""The form of commits: a subject of one idea, and a body that says why."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SINCE = "3f0074bc9caf"
"""Earlier ones are as they are."""
SUBJECT_MAX = 72


def problems(subject: str, body: str) -> list[str]:
    found = []
    if len(subject) > SUBJECT_MAX:
        found.append(f"{len(subject)} characters, at most {SUBJECT_MAX}")
    if ";" in subject:
        found.append("a semicolon: two ideas are two commits")
    if not body.strip():
        found.append("no body that says why")
    return [f"{subject!r}: {each}" for each in found]


@pytest.mark.parametrize(
    ("subject", "body"),
    [("raft: " + "x" * 70, "Why."), ("raft: one thing; and another", "Why."), ("raft: one thing", " \n")],
)
def test_a_commit_that_breaks_the_form_is_found(subject: str, body: str) -> None:
    assert len(problems(subject, body)) == 1
    assert not problems("raft: one thing", "Why.")


def test_commits_have_one_idea_and_say_why() -> None:
    log = subprocess.run(
        ["git", "log", "--no-merges", "--format=%s%x00%b%x01", f"{SINCE}..HEAD"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if log.returncode:
        pytest.skip("this is no clone with the history in it")
    commits = [each.partition("\0") for each in log.stdout.strip().split("\x01") if each.strip()]
    found = [problem for subject, _, body in commits for problem in problems(subject.strip(), body)]
    assert not found, "\n".join(found)
