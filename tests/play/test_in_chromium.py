"""The page in a real browser: what it shows is what the core has."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.play.played import Played
from quorate.play.script import Rule, parse_script, play_script
from quorate.play.stories import STORIES, load_story
from quorate.raft.core import request_handlers
from tests.cli.command import COMMAND
from tests.kit.chromium import Tab, chromium_tab
from tests.simulator.explorer.exploration import Task, run

pytestmark = pytest.mark.slow


@contextlib.contextmanager
def served(*words: str, command: list[str] = COMMAND) -> Iterator[str]:
    command = [*command, "raft", "play", "--no-browser", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            yield next(word for word in line.split() if word.startswith("http://127.0.0.1:"))
        finally:
            process.terminate()
        assert process.wait(30) == 0


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served() as found:
        yield found


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with chromium_tab(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture
def page(browser: Tab) -> Tab:
    browser.size(1280, 900)
    return browser


def opened(page: Tab, address: str) -> None:
    page.open(address)
    page.wait("document.body.dataset.position !== undefined")


def shown(page: Tab) -> tuple[list[dict[str, str]], str]:
    """The nodes as the page has drawn them, and the invariants that it says are broken."""
    nodes = page.value('[...document.querySelectorAll("[data-node]")].map((each) => ({...each.dataset}))')
    broken = page.value(
        '[...document.querySelectorAll("#violations strong")].map((each) => each.textContent)'
    )
    return nodes, ",".join(broken)


def expected(played: Played, position: int) -> tuple[list[dict[str, str]], str]:
    world = played.at(position)
    nodes = [
        {
            "node": str(node.id),
            "role": "down" if node.core is None else node.core.role.value,
            "epoch": str(node.election.epoch),
            "voted": "" if node.election.voted is None else str(node.election.voted.id),
            "log": ",".join(str(record.epoch) for record in node.records),
            "durable": str(node.synced),
            "committed": str(node.high_watermark),
        }
        for node in world.nodes.values()
    ]
    return nodes, ",".join(each.invariant for each in world.violations)


def press_to(page: Tab, key: str, position: int) -> None:
    page.press(key)
    page.wait(f"document.body.dataset.position === '{position}'")


@pytest.mark.parametrize("name", STORIES)
def test_a_story_is_stepped_through_forth_and_back_by_either_rule(name: str, address: str, page: Tab) -> None:
    for rule in load_story(name).rules:
        played = play_script(load_story(name), rule)
        opened(page, f"{address}?story={name}&rule={rule.value}")
        steps = len(played.steps)
        assert shown(page) == expected(played, 0)
        for position in range(1, steps + 1):
            press_to(page, "ArrowRight", position)
            assert shown(page) == expected(played, position)
        says = page.value('document.querySelector("#says").textContent')
        assert "rule" in says
        assert bool(shown(page)[1]) is (rule is Rule.WRONG)
        page.press("z")
        page.wait(f"document.body.dataset.position === '{steps - 1}'")
        assert shown(page) == expected(played, steps - 1)


def test_an_address_names_a_story_a_rule_and_a_step(address: str, page: Tab) -> None:
    played = play_script(load_story("figure-8"), Rule.WRONG)
    opened(page, f"{address}?story=figure-8&rule=wrong&step=12")
    assert shown(page) == expected(played, 12)
    press_to(page, "ArrowRight", 13)
    assert page.value("location.search") == "?story=figure-8&rule=wrong&step=13"


def test_a_quorum_of_ones_own_is_played_by_clicks_and_keys_saved_and_checked(
    address: str, page: Tab, tmp_path: Path
) -> None:
    opened(page, address)
    page.click('[data-node="2"]')
    press_to(page, "t", 1)  # its election timer
    press_to(page, "a", 2)
    assert [node["role"] for node in shown(page)[0]] == ["follower", "leader", "follower"]
    page.value('document.querySelector("#record").value = "<b>"')
    page.click("#propose button")
    page.wait("document.body.dataset.position === '3'")
    assert "<b>" in page.value('document.querySelector("#world").textContent'), "text, and no element"
    messages = 'document.querySelectorAll("svg .message").length'
    assert page.value(messages) == 2
    page.click("svg .message")
    page.wait("document.body.dataset.position === '4'")
    page.click("svg .message", shift=True)
    page.wait("document.body.dataset.position === '5'")
    assert page.value(messages) == 0, "one was delivered and not yet stored, the other dropped"
    press_to(page, "a", 6)
    assert [node["committed"] for node in shown(page)[0]] == ["2", "2", "1"]
    before = shown(page)
    press_to(page, "c", 7)
    assert shown(page)[0][1]["role"] == "down"
    press_to(page, "z", 6)
    assert shown(page) == before
    press_to(page, "y", 7)
    text = page.value(
        """new Promise((done) => {
          const create = URL.createObjectURL;
          URL.createObjectURL = (blob) => { blob.text().then(done); return create(blob); };
          document.querySelector("#save").click();
        })"""
    )
    assert json.loads(text.splitlines()[3])["text"] == "<b>"
    file = tmp_path / "mine.jsonl"
    file.write_text(text)
    done = subprocess.run([*COMMAND, "raft", "play", "--check", str(file)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (
        0,
        "by the right rule: 7 steps as expected, no invariant violated\n",
    )


def test_a_step_that_cannot_be_taken_is_explained_and_the_story_can_be_gone_back_to(
    address: str, page: Tab
) -> None:
    opened(page, f"{address}?story=a-stale-read&step=4")
    press_to(page, "c", 5)
    assert "left the story" in page.value('document.querySelector("#says").textContent')
    page.click("#return")
    page.wait("document.body.dataset.position === '4'")
    press_to(page, "ArrowRight", 5)
    assert shown(page) == expected(play_script(load_story("a-stale-read"), Rule.RIGHT), 5)
    page.press("l")
    page.wait('!document.querySelector("#error").hidden')
    assert "no message is in flight" in page.value('document.querySelector("#error").textContent')


ELECTS_ANYBODY = """
from quorate.cli.main import main
from quorate.raft.core import request_handlers

request_handlers._is_up_to_date = lambda roles, request: True
main()
"""


def test_a_counterexample_is_stepped_through_until_its_invariant_is_broken(
    page: Tab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_handlers, "_is_up_to_date", lambda roles, request: True)
    report = run(Task(suite="small", name="short candidate"))
    file = tmp_path / "found.jsonl"
    file.write_text(report.script)
    played = play_script(parse_script(report.script), Rule.RIGHT)
    with served(str(file), command=[sys.executable, "-c", ELECTS_ANYBODY]) as address:
        opened(page, address)
        steps = len(played.steps)
        for position in range(1, steps + 1):
            press_to(page, "ArrowRight", position)
            assert shown(page) == expected(played, position)
        assert shown(page)[1] == "LeaderCompleteness"
        says = page.value('document.querySelector("#says").textContent')
        assert "The explorer says that this is broken: a leader has every committed record" in says


CHOOSE = (
    "{ const it = document.querySelector('#%s'); it.value = '%s'; it.dispatchEvent(new Event('change')) }"
)


def test_a_script_may_have_more_nodes_than_the_page_offers(page: Tab, tmp_path: Path) -> None:
    file = tmp_path / "seven.jsonl"
    file.write_text(
        '{"play": 1, "title": "Seven", "nodes": 7}\n{"step": "fire", "node": 7, "timer": "election"}\n'
    )
    nodes = 'document.querySelectorAll("[data-node]").length'
    with served(str(file)) as address:
        opened(page, address)
        press_to(page, "ArrowRight", 1)
        assert page.value(nodes) == 7
        assert page.value('[...document.querySelector("#nodes").options].at(-1).value') == "5"
        page.value(CHOOSE % ("story", ""))
        page.wait(f"{nodes} === 3")
        assert page.value('document.querySelector("#nodes").value') == "3"
        page.value(
            f"""{{
              const file = new File([{json.dumps(file.read_text())}], "seven.jsonl");
              const all = new DataTransfer();
              all.items.add(file);
              document.querySelector("#open").files = all.files;
              document.querySelector("#open").dispatchEvent(new Event("change"));
            }}"""
        )
        page.wait(f"{nodes} === 7")
        assert (
            page.value('document.querySelector("#story").selectedOptions[0].text')
            == "the script that was opened"
        )
        page.value(CHOOSE % ("story", ""))
        page.wait(f"{nodes} === 3")


def test_voters_change_and_a_snapshot_is_fetched_by_clicks(address: str, page: Tab) -> None:
    """Five nodes, three of which vote; the fourth joins, and gets the snapshot in place of the log."""
    opened(page, address)
    steps = iter(range(1, 100))

    def settled(act: str) -> None:
        page.value(act)
        page.wait(f"document.body.dataset.position === '{next(steps)}'")

    def pressed(key: str) -> None:
        press_to(page, key, next(steps))

    def clicked(text: str) -> None:
        buttons = "[...document.querySelectorAll('button')]"
        settled(f"{buttons}.find((each) => each.textContent.startsWith('{text}')).click()")

    page.value(CHOOSE % ("nodes", "4"))
    page.wait('document.querySelectorAll("[data-node]").length === 4')
    page.value(CHOOSE % ("voters", "3"))
    page.wait('document.querySelector("#world").textContent.includes("no voter")')
    pressed("c")  # node 1, for a moment: then node 4 has nothing when the others have a snapshot
    pressed("r")
    page.press("4")
    pressed("c")
    page.press("2")
    pressed("t")
    pressed("a")
    assert shown(page)[0][1]["role"] == "leader"
    pressed("o")
    pressed("m")
    assert "▣ 3" in page.value('document.querySelector("#world").textContent')
    page.press("4")
    pressed("r")
    pressed("a")
    assert shown(page)[0][3]["log"] == "1,1,1"
    assert page.value('document.querySelectorAll(".snapshot").length') == 2, "node 4 has fetched it"
    page.press("2")
    clicked("Add voter 4")
    pressed("a")
    assert shown(page)[0][3]["committed"] == "4"
    assert "voters 1, 2, 3, 4" in page.value('document.querySelector("#node-state").textContent')
    assert "no voter" not in page.value('document.querySelector("#world").textContent')
    clicked("Remove voter 1")
    pressed("a")
    assert "voters 2, 3, 4" in page.value('document.querySelector("#node-state").textContent')


@pytest.mark.parametrize("width", [400, 820, 1280])
def test_nothing_is_wider_than_the_window(width: int, address: str, page: Tab) -> None:
    page.size(width, 900)
    opened(page, f"{address}?story=figure-8&rule=wrong&step=20")
    assert page.value("document.documentElement.scrollWidth") <= width
    assert page.value('document.querySelectorAll("svg .message").length') > 3


COVERED = """(() => {
  const meets = (one, other) => one.left < other.right && other.left < one.right
    && one.top < other.bottom && other.top < one.bottom;
  const drawn = [...document.querySelectorAll(
    "#world circle.body, #world text.role, #world .node > text.facts, #world .record rect"
  )].map(each => each.getBoundingClientRect());
  return [...document.querySelectorAll("#world .message")].filter(each => {
    const pill = each.querySelector("rect").getBoundingClientRect();
    return drawn.some(other => meets(pill, other));
  }).map(each => each.getAttribute("aria-label"));
})()"""


@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("name", ["figure-8", "two-majorities"])
def test_no_message_covers_a_node_or_what_is_told_of_it(
    name: str, width: int, address: str, page: Tab
) -> None:
    page.size(width, 900)
    opened(page, f"{address}?story={name}&rule=wrong")
    messages = 0
    for position in range(1, len(play_script(load_story(name), Rule.WRONG).steps) + 1):
        press_to(page, "ArrowRight", position)
        messages = max(messages, page.value('document.querySelectorAll("#world .message").length'))
        assert page.value(COVERED) == [], position
    assert messages > 5
