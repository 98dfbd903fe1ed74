"""State machines that are dataclasses: their snapshots, and what the quorum says where there can be none."""

import enum
import gc
import time
import uuid
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import ClassVar, Literal, NewType

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.cbor import SchemaError
from quorate.log.snapshots.snapshot_file import MAX_CHUNK_BYTES
from quorate.raft import (
    InvalidAppendError,
    QuorumConfigError,
    SnapshotCodec,
    SnapshotNotTakenError,
)
from quorate.raft.snapshots import snapshot_taking
from quorate.raft.state_machine.plain import with_snapshots
from quorate.runtime import at_once
from quorate.types import Epoch, Offset, SnapshotId

AT = SnapshotId(Offset(1), Epoch(1))
OrderId = NewType("OrderId", int)


class Side(enum.Enum):
    BUY = 1
    SELL = "sell"


@dataclass(frozen=True, slots=True)
class Price:
    amount: Decimal
    currency: str = "EUR"


@dataclass
class Order:
    side: Side
    price: Price
    size: int | None = None


@dataclass
class Folder:
    name: str
    parts: "list[Folder]" = field(default_factory=list)


class Applies:
    def apply(self, batch):
        return [None] * len(batch.records)


@dataclass
class Market(Applies):
    """A field of each kind that there is."""

    open: bool = True
    last: float = 0
    name: str = ""
    key: uuid.UUID = field(default_factory=lambda: uuid.UUID(int=7))
    orders: dict[OrderId, Order] = field(default_factory=dict)
    by_price: dict[Price, list[OrderId]] = field(default_factory=dict)
    pairs: dict[tuple[str, int], float | None] = field(default_factory=dict)
    history: list[Order | None] = field(default_factory=list)
    tables: dict[str, dict[str, dict[int, str]]] = field(default_factory=dict)
    best: tuple[Price, list[int]] | None = None
    sides: tuple[Side, ...] = ()
    mode: Literal["open", 3] = "open"
    tree: Folder | None = None
    note: int | str | None = None


sizes = st.integers(-(2**80), 2**80)
prices = st.builds(Price, st.decimals(allow_nan=False), st.text())
orders = st.builds(Order, st.sampled_from(Side), prices, st.none() | sizes)
folders = st.recursive(
    st.builds(Folder, st.text()), lambda inner: st.builds(Folder, st.text(), st.lists(inner))
)
markets = st.builds(
    Market,
    open=st.booleans(),
    last=st.floats(allow_nan=False) | sizes,
    name=st.text(),
    key=st.uuids(),
    orders=st.dictionaries(sizes, orders, max_size=300),
    by_price=st.dictionaries(prices, st.lists(sizes)),
    pairs=st.dictionaries(st.tuples(st.text(), sizes), st.none() | st.floats(allow_nan=False)),
    history=st.lists(st.none() | orders),
    tables=st.dictionaries(st.text(), st.dictionaries(st.text(), st.dictionaries(sizes, st.text()))),
    best=st.none() | st.tuples(prices, st.lists(sizes)),
    sides=st.lists(st.sampled_from(Side)).map(tuple),
    mode=st.sampled_from(["open", 3]),
    tree=st.none() | folders,
    note=st.none() | sizes | st.text(),
)


@dataclass
class MarketInCbor(Market):
    snapshot_codec: ClassVar = SnapshotCodec.CBOR


def restored(machine, into):
    loader = with_snapshots(into).load_snapshot(AT)
    for chunk in with_snapshots(machine).take_snapshot():
        loader.add(chunk)
    loader.install()
    return into


@pytest.mark.slow
@pytest.mark.parametrize("other", [Market, MarketInCbor])
@settings(max_examples=15, deadline=None)
@given(market=markets)
def test_a_state_of_every_kind_comes_back_as_it_was(other, market):
    for codec in (Market, MarketInCbor):
        held = codec(**vars(market))
        back = restored(held, other())
        assert vars(back) == vars(held)
        assert repr(back.orders) == repr(held.orders), "the order of a dictionary is a part of it"


@given(st.dictionaries(st.binary(), st.binary(), max_size=300))
def test_bytes_come_back_in_cbor(items):
    @dataclass
    class Store(Applies):
        items: dict[bytes, bytes]
        snapshot_codec: ClassVar = SnapshotCodec.CBOR

    assert restored(Store(items), Store({})).items == items


def test_any_text_of_json_comes_back():
    @dataclass
    class Store(Applies):
        text: str

    assert restored(Store("a lone surrogate: \ud800, a null: \0"), Store("")).text[18:20] == "\ud800,"


def test_what_changes_after_take_snapshot_is_not_in_it():
    price = Price(Decimal(1))
    market = Market(history=[Order(Side.BUY, price, 1)], by_price={price: [OrderId(1)]})
    before = repr(market)
    chunks = with_snapshots(market).take_snapshot()
    market.history[0].size = 2
    market.by_price[price].append(OrderId(2))
    market.last = 3.0
    loader = with_snapshots(back := Market()).load_snapshot(AT)
    for chunk in chunks:
        loader.add(chunk)
    assert back == Market(), "changed before it was installed"
    loader.install()
    assert repr(back) == before


@dataclass
class Plain:
    number: int


class Handle:
    pass


def machine(hint, value, codec=SnapshotCodec.JSON):
    """A state machine with one field."""
    body = {
        "__annotations__": {"held": hint},
        "held": field(default_factory=lambda: value),
        "snapshot_codec": codec,
        "apply": Applies.apply,
    }
    return dataclass(type("Board", (), body))()


def test_a_snapshot_that_is_installed_while_the_state_is_copied_changes_nothing_of_the_copy():
    machine = with_snapshots(market := Market(name="before", sides=(Side.BUY,)))
    copying = machine.freeze()
    next(copying)
    market.name, market.sides = "behind", ()
    loader = with_snapshots(back := Market()).load_snapshot(AT)
    for chunk in at_once(copying):
        loader.add(chunk)
    loader.install()
    assert (back.name, back.sides) == ("before", (Side.BUY,))


REFUSED: dict[str, tuple[object, object, str]] = {
    "a set": (set[str], set(), r"Board\.held: set\[str\] .* its order differs between nodes; use dict"),
    "a frozenset in a value": (
        dict[str, frozenset[int]],
        {},
        r"Board\.held: frozenset\[int\] .* use a tuple",
    ),
    "any object": (object, 1, r"Board\.held: object has no form"),
    "a class that is no dataclass": (dict[int, Handle], {}, r"Board\.held: Handle has no form"),
    "a bare dict": (dict, {}, r"Board\.held: dict .* as in dict\[str, int\]"),
    "bytes in JSON": (list[bytes], [], r"Board\.held: bytes .* declare snapshot_codec = SnapshotCodec\.CBOR"),
    "two classes": (Plain | Price, Plain(1), r"Board\.held: .*Plain \| .*Price has no form"),
    "a flag": (enum.Flag("Colour", "RED BLUE"), None, r"Board\.held: Colour has no form"),
    "a field in a field": (list[Folder | set[int]], [], r"Board\.held: set\[int\]"),
    "another type than declared": (int, "1", r"Board\.held: expected int, not str"),
    "a boolean for a number": (dict[str, int], {"a": True}, r"Board\.held: expected int, not bool"),
    "a subclass": (dict[str, int], defaultdict(int), r"Board\.held: expected dict, not defaultdict"),
    "a value within a dataclass": (list[Plain], [Plain("x")], r"Board\.held: Plain\.number: expected int"),
    "a tuple for a list": (list[int], (1, 2), r"Board\.held: expected list, not tuple"),
    "a tuple that is too long": (tuple[int, int], (1, 2, 3), r"Board\.held: expected tuples of 2"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_field_that_no_snapshot_can_have_is_named_before_the_first_record(case):
    hint, value, message = REFUSED[case]
    with pytest.raises(QuorumConfigError, match=message):
        with_snapshots(machine(hint, value))


def test_a_state_that_holds_itself_is_refused():
    tree = Folder("root")
    tree.parts.append(tree)
    with pytest.raises(QuorumConfigError, match=r"no snapshot can be taken .*recursion"):
        with_snapshots(Market(tree=tree))


def test_a_codec_that_is_none_is_refused():
    with pytest.raises(QuorumConfigError, match=r"Board\.snapshot_codec is 'pickle'; use SnapshotCodec"):
        with_snapshots(machine(int, 1, codec="pickle"))


def test_an_attribute_that_is_not_a_field_is_refused():
    @dataclass
    class Board(Applies):
        held: int = 0

        def __post_init__(self):
            self.index = {}

    with pytest.raises(QuorumConfigError, match=r"Board\.index is not a field, so a snapshot would lose it"):
        with_snapshots(Board())


def test_a_frozen_state_machine_is_refused():
    @dataclass(frozen=True)
    class Board(Applies):
        held: int = 0

    with pytest.raises(QuorumConfigError, match=r"Board is frozen"):
        with_snapshots(Board())


def test_a_type_that_only_a_function_knows_is_refused():
    class Local:
        pass

    @dataclass
    class Board(Applies):
        held: "Local"

    with pytest.raises(QuorumConfigError, match=r"Board: name 'Local' is not defined"):
        with_snapshots(Board(Local()))


@dataclass
class OldAccount:
    owner: str


@dataclass
class NewAccount:
    owner: str
    tags: list[str] = field(default_factory=list)


@dataclass
class AccountWithLimit:
    owner: str
    limit: int


def bank(account, **fields):
    body = {
        "__annotations__": {"accounts": dict[str, account], **dict.fromkeys(fields, int)},
        "accounts": field(default_factory=dict),
        "apply": Applies.apply,
        **fields,
    }
    return dataclass(type("Bank", (), body))


def test_a_later_version_may_add_fields_with_defaults():
    old = bank(OldAccount)({"a": OldAccount("ann"), "b": OldAccount("bob")})
    new = restored(old, bank(NewAccount, limit=5)())
    assert (new.accounts, new.limit) == ({"a": NewAccount("ann"), "b": NewAccount("bob")}, 5)
    assert new.accounts["a"].tags is not new.accounts["b"].tags


def test_a_later_version_that_cannot_read_a_snapshot_says_which_field():
    old = bank(OldAccount, limit=5)({"a": OldAccount("ann")})
    with pytest.raises(SchemaError, match=r"has a field Bank\.limit; keep this field"):
        restored(old, bank(OldAccount)())
    with pytest.raises(SchemaError, match=r"AccountWithLimit\.limit: .* give it a default"):
        restored(old, bank(AccountWithLimit, limit=5)())


def test_a_damaged_or_foreign_snapshot_installs_nothing():
    (chunk,) = with_snapshots(Market(name="x", sides=(Side.BUY,) * 500)).take_snapshot()
    for broken, message in (
        ([chunk[:-1]], "ends within"),
        ([chunk[:-1], chunk[-1:], chunk[1:]], "goes on behind its end"),
        ([b"12"], "a loader of the state machine's own"),
        ([b"j\x02\0\0\0{}"], "expected a token"),
        ([b"j\x01\0\0\0x"], "not JSON"),
        ([b"c\x01\0\0\0\xff"], "not valid CBOR"),
    ):
        loader = with_snapshots(market := Market()).load_snapshot(AT)
        with pytest.raises(SchemaError, match=message):
            for chunk in broken:
                loader.add(chunk)
            loader.install()
        assert market == Market()


def test_a_value_longer_than_a_chunk_may_be_is_written_in_parts():
    text = "x" * (9 * 1024 * 1024)
    chunks = list(with_snapshots(Market(name=text)).take_snapshot())
    assert max(map(len, chunks)) <= MAX_CHUNK_BYTES < len(text)
    assert restored(Market(name=text), Market()).name == text


@contextmanager
def without_the_collector():
    """What it does at some step is about the whole process."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


LARGE = {
    "many pairs": lambda: Market(tables={"one": {f"{n}": {n: ""} for n in range(50_000)}}),
    "a long list": lambda: Market(history=[Order(Side.BUY, Price(Decimal(1)))] * 100_000),
    "lists within": lambda: Market(by_price={Price(Decimal(n)): [OrderId(n)] * 40 for n in range(10_000)}),
    "one long list within": lambda: Market(best=(Price(Decimal(1)), [0] * 1_000_000)),
    "long texts": lambda: Market(tables={"one": {"two": dict.fromkeys(range(300), "x" * 100000)}}),
}


@pytest.mark.costly
@pytest.mark.parametrize("case", LARGE)
def test_no_step_of_a_large_snapshot_takes_the_event_loop_longer_than_it_may(case):
    market = LARGE[case]()

    def durations():
        taken: list[float] = []

        def timed(steps):
            """Yield the steps, as long as each took."""
            while True:
                started = time.thread_time()
                try:
                    step = next(steps)
                except StopIteration as end:
                    return end.value
                finally:
                    taken.append(time.thread_time() - started)
                yield step

        machine = with_snapshots(Market())
        vars(machine)["_machine"] = market
        with without_the_collector():
            chunks = [*timed(at_once(timed(machine.freeze())))]
            loader = with_snapshots(back := Market()).load_snapshot(AT)
            for _ in timed(loader.add(chunk) for chunk in chunks):
                pass
            loader.install()
        assert vars(back) == vars(market)
        return taken

    # The bound of 10 ms, for a machine at half of its speed. A step that grows with the data takes 100 ms and
    # more, and it does so each time. The processor may be taken away in the middle of any.
    for _ in range(10):
        taken = durations()
        if max(taken) < 0.02:
            return
    pytest.fail(f"a step of {max(taken) * 1000:.1f} ms among {len(taken)}, in each of ten runs")


@dataclass
class Counts:
    """Counts words. `record` may be `broken` with a value that is not of its type."""

    words: dict[str, list[int]] = field(default_factory=dict)

    def apply(self, batch):
        return [self.count(record.decode()) for record in batch.records]

    def count(self, word):
        self.words.setdefault(word, []).append("x" if word == "broken" else 1)
        return len(self.words[word])

    def check(self, records):
        if b"refused" in records:
            raise ValueError("no such word")


async def test_a_quorum_restarts_from_the_snapshot_of_a_dataclass(autojump_clock, world):
    for life in range(1, 4):
        quorum = await world.start_one(journal=Counts)
        counts = world.journals[1]
        assert (await quorum.append([b"a", b"b", b"a"])).results == (2 * life - 1, life, 2 * life)
        with pytest.raises(InvalidAppendError, match="no such word"):
            await quorum.append([b"refused"])
        await quorum.take_snapshot()
        assert counts.words == {"a": [1] * 2 * life, "b": [1] * life}
        await world.stop(1)


async def test_a_value_that_is_not_of_its_type_costs_a_snapshot_and_says_which(autojump_clock, world):
    quorum = await world.start_one(journal=Counts)
    await quorum.append([b"a", b"broken"])
    with pytest.raises(SnapshotNotTakenError, match=r"Counts\.words: expected int, not str"):
        await quorum.take_snapshot()
    assert (await quorum.append([b"a"])).results == (2,)


async def test_a_large_state_is_copied_in_steps_and_what_is_committed_meanwhile_is_applied_behind_it(
    autojump_clock, world, monkeypatch
):
    quorum = await world.start_one(journal=Counts)
    counts = world.journals[1]
    await quorum.append([b"a"])
    counts.words |= {f"word-{n}": [1] for n in range(2_000)}
    late, behind = [], []

    async def slowly(steps):
        """In place of `in_slices`: an append commits between the steps."""
        next(steps)
        late.append(quorum.append_nowait([b"late"]))
        with pytest.raises(StopIteration) as end:
            while True:
                await trio.sleep(0.01)
                next(steps)
        behind.append((quorum.high_watermark - quorum.applied_offset, "late" in counts.words))
        return end.value.value

    monkeypatch.setattr(snapshot_taking, "in_slices", slowly)
    taken = await quorum.take_snapshot()
    assert behind == [(1, False)], "it was applied to a state of which half was copied"
    assert (await late[0].wait()).results == (1,)
    await world.stop(1)
    await world.start(1, journal=Counts)
    assert (await world.leader()).snapshots() == (taken,)
    await world.until(lambda: "late" in world.journals[1].words)
    assert world.journals[1].words == counts.words
