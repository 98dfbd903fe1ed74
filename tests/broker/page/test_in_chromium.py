"""The page in a browser, live and at an older offset, of a cluster with a killed node: it says what the
cluster and `quorate metadata at` say.

With QUORATE_SCREENSHOTS=FOLDER it leaves pictures there, such as those of the docs.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from quorate.cli.node.local_cluster import LocalCluster
from quorate.health.catalogue import BROKER_FENCED
from tests.kit.chromium import Tab, chromium_tab
from tests.kit.clusters import running_cluster, wait_in_sync

pytestmark = [pytest.mark.slow, pytest.mark.system]

TOPICS = {"audit": 3, "clicks": 60, "orders": 12, "payments": 24}


def run(*arguments: str) -> str:
    command = [sys.executable, "-m", "quorate.cli.main", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_unwell(*arguments: str) -> str:
    """Run `quorate cluster health` on a cluster that is not well."""
    command = [sys.executable, "-m", "quorate.cli.main", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    return done.stdout


def metadata_at(cluster: LocalCluster, offset: int, path: str) -> dict[str, Any]:
    found = json.loads(
        run("metadata", "at", "--offset", str(offset), path, "--json", "-b", cluster.bootstrap)
    )
    (value,) = found.values()
    return value


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with running_cluster(tmp_path_factory.mktemp("page") / "c") as cluster:
        for topic, partitions in TOPICS.items():
            run(
                "topics", "create", "--topic", topic, "--partitions", str(partitions), "-b", cluster.bootstrap
            )
        for topic in TOPICS:
            wait_in_sync(cluster, topic)
        yield cluster


@pytest.fixture
def tab(tmp_path: Path) -> Iterator[Tab]:
    with chromium_tab(tmp_path / "profile") as tab:
        tab.size(1280, 1000)
        yield tab


def picture(tab: Tab, name: str) -> None:
    folder = os.environ.get("QUORATE_SCREENSHOTS")
    if folder:
        time.sleep(0.3)
        # As in the tutorial, whatever the folder of the test.
        tab.value(
            "document.querySelectorAll('#directories td.name')"
            ".forEach(each => { each.textContent = './quorate-data/1/data'; })"
        )
        tab.screenshot(Path(folder) / f"{name}.png")


def problems_of(tab: Tab) -> list[list[str]]:
    """The problems that are shown: what, and the rest."""
    return tab.value(
        "[...document.querySelectorAll('#problems li')]"
        ".map(each => [each.querySelector('h3').innerText, each.querySelector('dl').innerText])"
    )


def brokers_of(tab: Tab) -> list[list[str]]:
    """The table of brokers: id, state and reason, rack, leads, in sync."""
    return tab.value(
        "[...document.querySelectorAll('#brokers tbody tr')]"
        ".map(each => [...each.cells].map(one => one.innerText))"
    )


def test_present_and_past_are_what_the_cluster_says(cluster: LocalCluster, tab: Tab) -> None:
    page = f"http://127.0.0.1:{cluster.node(1).metrics_port}/"
    tab.open(page)
    tab.wait("document.body.dataset.healthy")
    before = int(tab.value("document.body.dataset.offset"))
    assert tab.text("#verdict") == "well"
    assert [each[1] for each in brokers_of(tab)] == ["up"] * 3
    leads = {int(each[0]): int(each[3]) for each in brokers_of(tab)}
    assert sum(leads.values()) == sum(TOPICS.values())
    picture(tab, "well")

    # Without a reload the page tells of a killed node.
    cluster.kill(3)
    tab.wait("document.getElementById('verdict').innerText.startsWith('broker 3 is fenced')")
    behind = sum(TOPICS.values())
    tab.wait(f"document.querySelector('#counts .behind dd')?.innerText === '{behind}'")
    tab.wait("document.body.dataset.shown === document.body.dataset.offset")
    now = int(tab.value("document.body.dataset.shown"))
    # What the page names is what the command names, with the same remedy.
    tab.wait("document.querySelectorAll('#problems li').length === 3")
    named = json.loads(run_unwell("cluster", "health", "--json", "-b", cluster.bootstrap))["problems"]
    problems = problems_of(tab)
    assert [each[0] for each in problems] == [
        f"{each['where']} {each['title']} · {each['severity']}" for each in named
    ]
    (fenced,) = [each for title, each in problems if title.startswith("broker 3 is fenced")]
    assert "broker gone" in fenced and "quorate brokers unregister 3" in fenced and "`" not in fenced
    told = brokers_of(tab)[2]
    assert told[1].startswith("fenced broker gone") and told[3] == "0"
    at_now = metadata_at(cluster, now, "/brokers/3")
    assert at_now["isFenced"] and at_now["leads"] == 0
    assert tab.text("#quorum-line").startswith(("Node 1 leads", "Node 2 leads"))
    is_leader = tab.text("#quorum-line").startswith("Node 1 ")
    votes = tab.value("document.getElementById('votes').textContent")
    assert ("leads" if is_leader else "follows node 2") in votes
    tab.wait("document.querySelectorAll('table.sick-behind tbody tr').length === 99")
    orders = metadata_at(cluster, now, "/topics/byName/orders/0")
    shown = tab.value(
        "[...document.querySelectorAll('table.sick-behind tbody tr')].map(each => [...each.cells]"
        ".map(one => one.innerText)).find(each => each[0] === 'orders-0')"
    )
    assert shown[1] == str(orders["leader"])
    assert shown[4] == ", ".join(map(str, orders["isr"]))
    picture(tab, "killed")
    tab.size(1280, 1000, dark=True)
    picture(tab, "killed-dark")
    tab.size(400, 1800, dark=True)
    picture(tab, "killed-400")
    tab.wait("document.documentElement.scrollWidth <= 400")
    tab.size(1280, 1000)

    # What it is stands on the page itself, by the keyboard, and stays unfolded while the page goes on.
    place = "[...document.querySelectorAll('#problems li')].find(each => each.innerText.includes('fenced'))"
    assert BROKER_FENCED.meaning not in tab.text("#problems")
    tab.value(f"({place}).querySelector('summary').focus()")
    tab.press(" ")
    tab.wait(f"({place}).querySelector('details').open")
    assert BROKER_FENCED.meaning in tab.text("#problems")

    # The slider leads back, by the keyboard's event.
    tab.value(
        f"(() => {{ const slider = document.getElementById('slider'); slider.value = {before};"
        " slider.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )
    tab.wait(f"document.body.dataset.shown === '{before}' && document.body.classList.contains('past')")
    tab.wait(f"document.body.dataset.healthy === '{before}'")
    assert tab.text("#verdict") == "was well"
    assert tab.text("#problems") == "No problem was in the metadata at this offset."
    assert {int(each[0]): int(each[3]) for each in brokers_of(tab)} == leads
    for broker, led in leads.items():
        assert metadata_at(cluster, before, f"/brokers/{broker}")["leads"] == led
    assert tab.value("location.hash") == f"#offset={before}"
    assert "broker gone" in tab.text("#changes")
    assert "became the leader of the quorum" in tab.text("#changes")
    picture(tab, "past")

    # Whoever read about a problem goes on reading in the present.
    tab.value("document.getElementById('live').click()")
    tab.wait("document.getElementById('problems').innerText.includes('broker 3 is fenced')")
    assert BROKER_FENCED.meaning in tab.text("#problems")

    # Who opens the link sees the same.
    tab.open("about:blank")
    tab.open(f"{page}#offset={before}")
    tab.wait(f"document.body.dataset.healthy === '{before}'")
    assert tab.text("#verdict") == "was well"
    tab.value("document.getElementById('live').click()")
    tab.wait("document.getElementById('problems').innerText.includes('broker 3 is fenced')")
    assert not tab.complaints


def test_an_offset_that_is_not_there_yet_shows_the_present(cluster: LocalCluster, tab: Tab) -> None:
    tab.open(f"http://127.0.0.1:{cluster.node(1).metrics_port}/#offset=999999999")
    tab.wait("document.body.dataset.shown")
    assert tab.value("document.getElementById('live').getAttribute('aria-pressed')") == "true"
    assert not tab.complaints


def test_a_page_whose_node_is_killed_goes_on_with_another(cluster: LocalCluster, tab: Tab) -> None:
    cluster.start(3)
    cluster.wait_ready()
    tab.open(f"{cluster.page_url(3)}/#offset=4")
    tab.wait("document.body.dataset.shown === '4'")
    cluster.kill(3)
    tab.wait(f"location.origin !== '{cluster.page_url(3)}' && document.body?.dataset.shown === '4'")
    assert tab.value("location.origin") in {cluster.page_url(1), cluster.page_url(2)}
    assert tab.value("location.hash") == "#offset=4"
    tab.value("document.getElementById('live').click()")
    tab.wait("document.getElementById('problems').innerText.includes('broker 3 is fenced')")


def test_each_node_shows_the_groups_that_it_coordinates(cluster: LocalCluster, tab: Tab) -> None:
    cluster.start(3)
    cluster.wait_ready()
    names = {"bootstrap.servers": cluster.bootstrap, "group.id": "billing"}
    producer = Producer(names)
    for _ in range(10):
        producer.produce("orders", b"x", partition=0)
    assert producer.flush(30) == 0
    consumer = Consumer(names)
    consumer.commit(offsets=[TopicPartition("orders", 0, 4)], asynchronous=False)
    consumer.close()

    # Any page knows the coordinator, and leads to its page.
    ask = (
        "(() => { document.getElementById('group').value = 'billing';"
        " document.getElementById('group-form').requestSubmit(); })()"
    )
    tab.open(cluster.page_url(1))
    tab.wait("document.querySelector('#groups-section:not([hidden])') !== null")
    tab.value(ask)
    tab.wait("document.getElementById('group-told').innerText.includes('billing')")
    told = tab.text("#group-told")
    home = 1
    if not told.startswith(("This node", "group")):
        home = next(each for each in (2, 3) if f"billing is coordinated by node {each}" in told)
        tab.value("document.querySelector('#group-told a').click()")
    tab.wait(f"location.origin === '{cluster.page_url(home)}'")
    tab.wait("document.querySelector('#groups tbody tr td')?.innerText === 'billing'")
    shown = tab.value("[...document.querySelectorAll('#groups tbody tr')][0].innerText.split('\\t')")
    assert [each.strip() for each in shown] == ["billing", "Empty", "0", "1", "6"]
    assert "billing: at most 6 within the last hour" in tab.value(
        "document.querySelector('#group-plots svg').getAttribute('aria-label')"
    )
    picture(tab, "groups")
    links = tab.value("[...document.querySelectorAll('#brokers a')].map(each => [each.innerText, each.href])")
    others = [each for each in (1, 2, 3) if each != home]
    assert links == [[str(each), f"{cluster.page_url(each)}/"] for each in others]
    disks = tab.text("#other-disks")
    assert disks == f"The disks of the others are on their own pages: node {others[0]}, node {others[1]}"
    tab.size(400, 1800)
    tab.wait("document.documentElement.scrollWidth <= 400")
    # The past has no groups.
    tab.value("document.getElementById('earlier').click()")
    tab.wait("document.querySelector('#groups-section[hidden]') !== null")
    assert not tab.complaints


def test_the_leader_of_a_partition_that_moves_shows_what_is_left(
    cluster: LocalCluster, tab: Tab, tmp_path: Path
) -> None:
    run(
        "topics",
        "create",
        "-t",
        "big",
        "--partitions",
        "1",
        "--replication-factor",
        "1",
        "-b",
        cluster.bootstrap,
    )
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for _ in range(100):
        producer.produce("big", b"x" * 100_000)
    assert producer.flush(60) == 0
    leader = json.loads(run("topics", "describe", "-t", "big", "--json", "-b", cluster.bootstrap))
    home = next(each for each in (1, 2, 3) if f'"leader": {each}' in json.dumps(leader))
    new = home % 3 + 1
    file = tmp_path / "moves.json"
    file.write_text(
        json.dumps({"version": 1, "partitions": [{"topic": "big", "partition": 0, "replicas": [new]}]})
    )
    moves = ("--reassignment-json-file", str(file), "-b", cluster.bootstrap)
    run("reassign-partitions", "execute", "--throttle", "500000", *moves)
    tab.open(cluster.page_url(home))
    tab.wait("document.querySelector('#moves td')?.innerText === 'big-0'")
    cells = "[...document.querySelectorAll('#moves td')].map(each => each.innerText)"
    _, records, _ = tab.value(cells)
    lacking = int(records.removeprefix(f"broker {new}: "))
    assert 0 < lacking <= 100
    assert "this node leads 1: about " in tab.text("#moves")
    picture(tab, "moving")
    # The page goes on by itself.
    tab.wait(f"parseInt(({cells})[1]?.slice('broker {new}: '.length)) < {lacking}")
    tab.open(cluster.page_url(new))
    tab.wait("document.getElementById('moves').innerText.includes('of the other 1 is on the pages')")
    run("reassign-partitions", "cancel", *moves)
    tab.wait("document.getElementById('moves').innerText === ''")
    assert not tab.complaints
