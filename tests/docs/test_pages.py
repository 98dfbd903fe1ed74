"""Pages are current, and their links lead somewhere."""

import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from documents import DOCUMENTS, ROOT, each_document

HOME = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Homepage"]
_LINK = re.compile(r"\]\(([^)\s]+)\)")
"""The target of a link or an image."""
_HEADING = re.compile(r"^#+ (.*)$", re.M)


def anchors(file: Path) -> set[str]:
    """The anchors that GitHub makes of a file's headings."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in _HEADING.findall(file.read_text())
    }


@each_document
def test_links_resolve(document: Path) -> None:
    """The repository's own files are linked by path, so that links lead there in any checkout."""
    broken = []
    for target in _LINK.findall(document.read_text()):
        if re.match(r"https?://", target):
            if target.startswith(HOME):
                broken.append(target)
            continue
        path, _, anchor = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        if not (file.exists() and file.is_relative_to(ROOT)) or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert not broken


def pages_from(page: Path) -> set[Path]:
    """The pages of this repository that a page links to."""
    targets = (target.partition("#")[0] for target in _LINK.findall(page.read_text()))
    return {(page.parent / target).resolve() for target in targets if target.endswith(".md")}


def test_every_page_is_two_clicks_from_the_readme() -> None:
    """README, map, page: each page is on the map."""
    map_of_pages = ROOT / "docs" / "README.md"
    assert map_of_pages in pages_from(ROOT / "README.md")
    pages = {*DOCUMENTS} - {ROOT / "README.md", map_of_pages}
    assert len(pages) > 50
    assert sorted(map(str, pages - pages_from(map_of_pages))) == []


_CITED = re.compile(r"([\w./-]*[\w-]\.md)(?:#([\w-]+))?\b")
_PLACES = ("quorate", "tests", "scripts", "examples", "benchmarks")


@pytest.mark.slow
def test_source_cites_only_documents_and_headings_that_are_in_the_tree() -> None:
    pages = {page.name: page for page in DOCUMENTS}
    rules = ROOT / "docs" / "reference" / "kraft-rules.md"
    cited: set[str] = set()
    missing = []
    for source in sorted(file for place in _PLACES for file in (ROOT / place).rglob("*.*")):
        if source.suffix not in (".py", ".txt", ".sh", ".toml"):
            continue
        for path, anchor in _CITED.findall(source.read_text()):
            page = ROOT / path if "/" in path else pages.get(path)
            if page is None or not page.is_file() or (anchor and anchor not in anchors(page)):
                missing.append(f"{source.relative_to(ROOT)}: {path}#{anchor}")
            elif page == rules:
                cited.add(anchor)
    assert missing == []
    assert len(cited) > 8, "the rules are cited by their headings"


def test_no_source_cites_a_rule_by_a_letter() -> None:
    letters = re.compile(r"\b(?:[D]ESIGN\b|[A-Z]\.\d\)|\([A-Z]\d{1,2}[,)])")
    found = [
        f"{file.relative_to(ROOT)}: {match}"
        for place in _PLACES
        for file in sorted((ROOT / place).rglob("*.py"))
        for match in letters.findall(file.read_text())
    ]
    assert found == []


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "scripts" / "generate_docs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_parts_are_current(generator: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    code = generator.main(check=True)
    assert code == 0, capsys.readouterr().out


def test_a_stale_page_is_noticed(generator: ModuleType) -> None:
    parts = generator.PARTS["docs/reference/metrics.md"]
    text = (ROOT / "docs/reference/metrics.md").read_text()
    assert generator.filled(text, parts, by=generator.BY) == text
    stale = text.replace("raft_manager_current_epoch", "raft_manager_term")
    assert generator.filled(stale, parts, by=generator.BY) == text


def test_every_public_name_of_the_quorum_is_in_the_reference() -> None:
    import quorate.raft

    text = (ROOT / "docs/reference/python-api.md").read_text()
    assert not [name for name in quorate.raft.__all__ if name not in text]


def test_every_public_member_of_a_quorum_is_in_the_reference() -> None:
    from quorate.raft import Quorum

    text = (ROOT / "docs/reference/python-api.md").read_text()
    members = [name for name in vars(Quorum) if not name.startswith("_")]
    assert len(members) > 10
    assert not [name for name in members if not re.search(rf"`[^`]*\b{name}\b", text)]


def test_every_request_and_error_of_the_quorum_is_in_the_reference() -> None:
    from quorate.raft.transport.frame_fields import QUORUM_CODES
    from quorate.raft.transport.frames import FrameKind

    text = (ROOT / "docs/reference/quorum-protocol.md").read_text()
    before, _, errors = text.partition("## Errors")
    requests = {int(kind): name for kind, name in re.findall(r"^\| (\d+) \| (\w+) \| .* \|$", before, re.M)}
    names = {kind.value: "".join(map(str.capitalize, kind.name.split("_"))) for kind in FrameKind}
    assert {kind: requests.get(kind) for kind in names} == names
    rows = re.findall(r"^\| (\d+) \| ([A-Z_]+) \|", errors, re.M)
    assert {int(code): name for code, name in rows} == {error.value: error.name for error in QUORUM_CODES}


def test_every_field_of_the_quorums_requests_is_in_the_reference() -> None:
    from dataclasses import fields

    from quorate.raft.core import messages

    text = (ROOT / "docs/reference/quorum-protocol.md").read_text()
    told = set(re.findall(r"`(\w+)`", text))
    common = {field.name for each in (messages.Request, messages.Response) for field in fields(each)}
    requests = [each for each in vars(messages).values() if isinstance(each, type)]
    for request in requests:
        if issubclass(request, messages.Request | messages.Response):
            own = {field.name for field in fields(request)} - common
            assert own - {"batches", "records", "length", "chunk"} <= told, request


def test_every_public_name_of_the_simulator_is_in_the_reference_and_no_other() -> None:
    import quorate.simulation
    from quorate.simulation import models

    text = (ROOT / "docs/reference/python-api.md").read_text()
    part = text.partition("## `quorate.simulation`")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]*`) \| (.*) \|$", part, re.M)
    listed = [name for names, _ in rows for name in re.findall(r"`(\w+)`", names)]
    assert sorted(listed) == sorted(quorate.simulation.__all__)
    (of_models,) = (content for names, content in rows if names == "`models`")
    assert not [name for name in re.findall(r"`(\w+)`", of_models) if not hasattr(models, name)]
