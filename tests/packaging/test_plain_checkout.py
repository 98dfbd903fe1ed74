"""A checkout that is not installed, as tools see it: the dependencies are there, quorate is not."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with this environment's packages, but not with those that .pth files add, as quorate is."""
    home = tmp_path_factory.mktemp("dependencies")
    venv.create(home, symlinks=True, with_pip=False)
    (packages,) = home.glob("lib/python3*/site-packages")
    (packages / "dependencies.pth").write_text("\n".join(p for p in sys.path if p.endswith("site-packages")))
    return home / "bin" / "python"


@pytest.fixture(scope="module")
def checkout(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("checkout") / "quorate"
    shutil.copytree(source, copy)
    return copy


def run(python: Path, *args: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")}
    return subprocess.run([python, *args], cwd=cwd, env=clean, capture_output=True, text=True)


def test_quorate_is_not_installed(python: Path, tmp_path: Path) -> None:
    assert "No module named 'quorate'" in run(python, "-c", "import trio, kio, quorate", cwd=tmp_path).stderr


def test_mypy_finds_nothing_and_then_misspelt_fields_and_a_handler_in_the_wrong_row(
    python: Path, checkout: Path
) -> None:
    done = run(python, "-m", "mypy", cwd=checkout)
    assert done.returncode == 0, done.stdout + done.stderr
    slips = {
        "quorate/broker/apis/group_membership.py": ("request.group_id", "request.gruop_id"),
        "quorate/broker/apis/log_offsets.py": ("part.timestamp", "part.time_stamp"),
        "quorate/broker/apis/cluster.py": ('"is_fenced":', '"is_fencd":'),
        "quorate/broker/apis/topics.py": ("brokers=handle_create_topics", "brokers=handle_delete_topics"),
        "quorate/broker/broker_node.py": (
            "groups.offsets_commit_timeout_ms",
            "groups.offset_commit_timeout_ms",
        ),
    }
    before = {file: (checkout / file).read_text() for file in slips}
    for file, (right, wrong) in slips.items():
        assert right in before[file]
        (checkout / file).write_text(before[file].replace(right, wrong))
    told = run(python, "-m", "mypy", cwd=checkout).stdout
    for file, (_, wrong) in slips.items():
        named = {"handle_delete_topics": "brokers"}.get(last := re.findall(r"\w+", wrong)[-1], last)
        assert re.search(rf'{file}:\d+: error: .*\b{named}["\']', told), told
        (checkout / file).write_text(before[file])


def test_pyright_finds_nothing(python: Path, checkout: Path) -> None:
    done = run(python, "-m", "pyright", "--pythonpath", str(python), "--outputjson", cwd=checkout)
    assert done.stdout.startswith("{"), done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert [f"{each['file']}: {each['message']}" for each in told["generalDiagnostics"]] == []
    checked = [path for place in ("quorate", "tests/simulator") for path in (checkout / place).rglob("*.py")]
    assert told["summary"]["filesAnalyzed"] == len(checked), "each file once"


class LanguageServer:
    """An editor's side of the conversation, one request at a time."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.folder = folder
        self._server = subprocess.Popen(
            [python, "-m", "pyright.langserver", "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._number = 0
        self.ask(
            "initialize",
            processId=None,
            capabilities={"workspace": {"workspaceFolders": True}},
            workspaceFolders=[{"uri": folder.as_uri(), "name": folder.name}],
        )
        self.tell("initialized")

    def tell(self, method: str, **params: object) -> None:
        self._write({"method": method, "params": params})

    def ask(self, method: str, **params: object) -> Any:
        self._number += 1
        self._write({"id": self._number, "method": method, "params": params})
        while True:
            message = self._read()
            if message.get("id") == self._number and "method" not in message:
                return message["result"]
            if "id" in message:
                nothing = [None] * len(message["params"].get("items", ()))
                self._write({"id": message["id"], "result": nothing or None})

    def _write(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._server.stdin is not None
        self._server.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._server.stdin.flush()

    def _read(self) -> dict[str, Any]:
        assert self._server.stdout is not None
        size = 0
        while (line := self._server.stdout.readline()) != b"\r\n":
            assert line, "the server ended"
            if line.lower().startswith(b"content-length:"):
                size = int(line.partition(b":")[2])
        message: dict[str, Any] = json.loads(self._server.stdout.read(size))
        return message

    def close(self) -> None:
        self._server.kill()
        self._server.communicate()


@pytest.fixture
def server(python: Path, checkout: Path) -> Iterator[LanguageServer]:
    started = LanguageServer(python, checkout)
    yield started
    started.close()


def exported(init: Path) -> list[str]:
    for node in ast.parse(init.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def test_an_editor_goes_to_the_definition_of_every_name_of_every_package(
    server: LanguageServer, checkout: Path
) -> None:
    """Also where a package imports its names when they are first used."""
    inits = sorted((checkout / "quorate").rglob("__init__.py"))
    doors = {".".join(each.parent.relative_to(checkout).parts): exported(each) for each in inits}
    lines = [f"from {package} import {name}" for package, names in doors.items() for name in names]
    assert "from quorate.raft import Quorum" in lines
    uri = (checkout / "editor.py").as_uri()
    text = "\n".join(lines)
    server.tell(
        "textDocument/didOpen", textDocument={"uri": uri, "languageId": "python", "version": 1, "text": text}
    )
    found = {}
    for number, line in enumerate(lines):
        name = line.split()[-1]
        position = {"line": number, "character": len(line) - 1}
        places = server.ask("textDocument/definition", textDocument={"uri": uri}, position=position)
        assert places, f"nothing is found for {line}"
        path = Path(places[0]["uri"].removeprefix("file://"))
        there = path.read_text().splitlines()[places[0]["range"]["start"]["line"]]
        is_module = name in (path.stem, path.parent.name if path.stem == "__init__" else "")
        defined = re.match(rf"\s*(class |(async )?def )?{name}\b", there) or is_module
        assert defined, f"{line} leads to {path}: {there}"
        found[line] = path
    outside = {line for line, path in found.items() if checkout not in path.parents}
    assert not outside, outside
    assert found["from quorate.raft import Quorum"] == checkout / "quorate/raft/quorum.py"
    assert found["from quorate.log import Log"] == checkout / "quorate/log/log.py"
