"""The linearizability checker against histories known to be good or bad, and against a dumb twin."""

import itertools
import random
import time
from collections.abc import Hashable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.simulation.histories.linearizability import (
    UNKNOWN,
    Anomaly,
    Model,
    Operation,
    Report,
    Search,
    Unknown,
    Verdict,
    check_history,
)
from quorate.simulation.histories.models import (
    Add,
    Append,
    AppendLog,
    CompareAndSet,
    Counter,
    Get,
    KeyValue,
    Put,
    Read,
    Register,
    Write,
    key_of,
)
from quorate.simulation.violations import SafetyViolation

AnyOperation = Operation[Any, Any]


def done(client: str, request: object, answer: object, start: float, end: float) -> AnyOperation:
    return Operation(client=client, request=request, answer=answer, invoked_at=start, returned_at=end)


def unknown(client: str, request: object, start: float) -> AnyOperation:
    return Operation(client=client, request=request, invoked_at=start)


def verdict(model: Model[Any, Any, Any], *history: AnyOperation) -> Verdict:
    return check_history(model, history).verdict


def counterexample(model: Model[Any, Any, Any], *history: AnyOperation) -> list[tuple[str, object, object]]:
    report: Report[Any, Any] = check_history(model, history)
    assert report.verdict is Verdict.NOT_LINEARIZABLE
    return [
        (each.client, each.request, UNKNOWN if each in report.bystanders else each.answer)
        for each in report.counterexample
    ]


# Herlihy and Wing (1990), figure 1, and what goes wrong in the field


def test_overlapping_operations_may_take_effect_in_any_order() -> None:
    history = (
        done("a", Write(1), None, 0, 10),
        done("b", Write(2), None, 1, 9),
        done("c", Read(), 2, 2, 3),
        done("c", Read(), 1, 4, 5),
    )
    assert verdict(Register(0), *history) is Verdict.LINEARIZABLE


def test_a_stale_read_is_found() -> None:
    assert counterexample(
        Register(0),
        done("a", Write(7), None, 0, 1),
        done("a", Write(1), None, 2, 3),
        done("c", Read(), 7, 1.5, 3.5),
        done("b", Read(), 7, 4, 5),
    ) == [("a", Write(7), UNKNOWN), ("a", Write(1), None), ("b", Read(), 7)]


def test_a_lost_update_is_found() -> None:
    bad = counterexample(
        Counter(),
        done("a", Add(1), 1, 0, 2),
        done("b", Add(1), 1, 1, 3),
        done("c", Read(), 1, 4, 5),
    )
    assert bad == [("a", Add(1), 1), ("b", Add(1), 1)]


def test_reads_of_both_sides_of_a_split_brain_are_found() -> None:
    """The old leader answers reads from its own state while the new one takes writes."""
    bad = counterexample(
        Register(0),
        done("majority", Write(1), None, 0, 1),
        done("majority", Read(), 1, 2, 3),
        done("minority", Read(), 0, 2, 3),
    )
    assert ("minority", Read(), 0) in bad


def test_a_read_that_goes_back_under_a_write_of_unknown_outcome_is_found() -> None:
    """The write may take effect at any time or never, but not be taken back."""
    history = [unknown("a", Write(1), 0), done("b", Read(), 1, 1, 2), done("b", Read(), 0, 3, 4)]
    assert counterexample(Register(0), *history) == [
        ("a", Write(1), UNKNOWN),
        ("b", Read(), 1),
        ("b", Read(), 0),
    ]
    assert verdict(Register(0), history[0], history[2]) is Verdict.LINEARIZABLE
    assert verdict(Register(0), history[0], done("b", Read(), 0, 1, 2), done("b", Read(), 1, 3, 4)) is (
        Verdict.LINEARIZABLE
    )


def test_two_clients_can_not_both_win_a_compare_and_set() -> None:
    lock = CompareAndSet("free", "held")
    bad = counterexample(Register("free"), done("a", lock, True, 0, 3), done("b", lock, True, 1, 2))
    assert bad == [("a", lock, True), ("b", lock, True)]


def test_a_log_that_loses_an_append_is_found() -> None:
    assert verdict(
        AppendLog(),
        done("a", Append("x"), 3, 0, 1),
        done("b", Append("y"), 5, 2, 3),
        done("c", Read(), ("y",), 4, 5),
    ) is (Verdict.NOT_LINEARIZABLE)


def test_a_log_whose_offsets_go_against_time_is_found() -> None:
    bad = counterexample(AppendLog(), done("a", Append("x"), 4, 0, 1), done("b", Append("y"), 2, 2, 3))
    assert bad == [("a", Append("x"), 4), ("b", Append("y"), 2)]


def test_an_unknown_append_may_show_up_later() -> None:
    history = (
        unknown("a", Append("x"), 0),
        done("b", Append("y"), 1, 1, 2),
        done("b", Read(), ("y",), 3, 4),
        done("b", Read(), ("y", "x"), 5, 6),
    )
    assert verdict(AppendLog(), *history) is Verdict.LINEARIZABLE


def test_each_key_is_checked_by_itself() -> None:
    good = [done("a", Put(key, key), None, key, key + 0.5) for key in range(50)]
    bad = [done("b", Put(7, 1), None, 100, 101), done("c", Get(7), 7, 102, 103)]
    assert check_history(KeyValue(), good, key=key_of).verdict is Verdict.LINEARIZABLE
    report = check_history(KeyValue(), good + bad, key=key_of)
    assert (report.verdict, report.key) == (Verdict.NOT_LINEARIZABLE, 7)
    assert all(operation.request.key == 7 for operation in report.counterexample)
    assert "of key 7" in str(report)


def test_a_counterexample_is_told_and_raised() -> None:
    report = check_history(Register(0), [done("a", Read(), 5, 0, 1)])
    with pytest.raises(
        SafetyViolation, match=r"(?s)no order of these operations.*a: Read\(\) -> 5 \(0 to 1\)"
    ):
        report.require()
    check_history(Register(0), []).require()


@pytest.mark.slow
@pytest.mark.long
def test_a_counterexample_is_small_and_no_lie() -> None:
    """One stale read in a long history: what is left are the read, the write that it saw and those after."""
    history: list[AnyOperation] = []
    for number in range(300):
        history.append(done("a", Write(number), None, number, number + 0.9))
        history.append(done(f"b{number % 3}", Read(), number, number + 0.91, number + 1.5))
    history.append(done("late", Read(), 200, 250, 250.5))
    bad = counterexample(Register(0), *history)
    assert ("a", Write(200), UNKNOWN) in bad
    assert ("late", Read(), 200) in bad
    assert len(bad) <= 4


def test_a_search_that_would_take_too_long_is_given_up_and_says_so() -> None:
    history = [unknown(f"a{number}", Add(2**number), 0) for number in range(30)]
    history.append(done("b", Read(), -1, 1, 2))
    report = check_history(Counter(), history, configurations_max=1000)
    assert report.verdict is Verdict.UNDECIDED
    with pytest.raises(SafetyViolation, match="undecided"):
        report.require()


@pytest.mark.parametrize(("answer", "end"), [(UNKNOWN, 1.0), (None, -1.0)])
def test_an_operation_that_contradicts_itself_is_refused(answer: Unknown | None, end: float) -> None:
    with pytest.raises(ValueError):
        Operation(client="a", request=Write(1), answer=answer, invoked_at=0.0, returned_at=end)


# Against a dumb twin


def is_linearizable(model: Model[Any, Any, Any], operations: Sequence[AnyOperation]) -> bool:
    """Every order of every choice of unknown operations."""
    known = [each for each in operations if each.has_returned]
    unknowns = [each for each in operations if not each.has_returned]
    for count in range(len(unknowns) + 1):
        for chosen in itertools.combinations(unknowns, count):
            for order in itertools.permutations([*known, *chosen]):
                if fits(model, order):
                    return True
    return False


def fits(model: Model[Any, Any, Any], order: Sequence[AnyOperation]) -> bool:
    if any(later.returned_at < earlier.invoked_at for earlier, later in itertools.combinations(order, 2)):
        return False
    state: Hashable = model.initial()
    for operation in order:
        ok, state = model.step(state, operation.request, operation.answer)
        if not ok:
            return False
    return True


REGISTER = st.one_of(
    st.tuples(st.just(Read()), st.integers(0, 2)),
    st.tuples(st.builds(Write, st.integers(0, 2)), st.none()),
    st.tuples(st.builds(CompareAndSet, st.integers(0, 2), st.integers(0, 2)), st.booleans()),
)
COUNTER = st.one_of(
    st.tuples(st.just(Read()), st.integers(0, 3)),
    st.tuples(st.just(Add(1)), st.none() | st.integers(1, 3)),
)
LOG = st.one_of(
    st.tuples(st.just(Read()), st.lists(st.integers(0, 1), max_size=2).map(tuple)),
    st.tuples(st.builds(Append, st.integers(0, 1)), st.integers(0, 3)),
)


@st.composite
def histories(draw: st.DrawFn, calls: st.SearchStrategy[Any]) -> list[AnyOperation]:
    history = []
    for number in range(draw(st.integers(1, 6))):
        request, answer = draw(calls)
        start = draw(st.integers(0, 6))
        if draw(st.integers(0, 3)):
            history.append(done(f"c{number}", request, answer, start, start + draw(st.integers(0, 6))))
        else:
            history.append(unknown(f"c{number}", request, start))
    return history


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "calls"),
    [(Register(0), REGISTER), (Counter(), COUNTER), (AppendLog(), LOG)],
    ids=["register", "counter", "log"],
)
def test_the_search_agrees_with_trying_every_order(
    model: Model[Any, Any, Any], calls: st.SearchStrategy[Any]
) -> None:
    seen = {True: 0, False: 0}

    @settings(max_examples=400)
    @given(histories(calls))
    def agree(history: list[AnyOperation]) -> None:
        expected = is_linearizable(model, history)
        seen[expected] += 1
        report = check_history(model, history)
        assert (report.verdict is Verdict.LINEARIZABLE) == expected
        if not expected:
            assert not is_linearizable(model, report.counterexample)

    agree()
    assert min(seen.values()) > 20


# At size


ONE = done("a", Add(), 1, 0, 1)


@pytest.mark.parametrize(
    ("anomaly", "suspect", "history"),
    [
        pytest.param(Anomaly.STALE_READ, None, [ONE, done("b", Read(), 0, 2, 3)], id="stale"),
        pytest.param(
            Anomaly.LOST_UPDATE,
            ONE,
            [ONE, done("b", Read(), 0, 2, 3), done("b", Add(), 1, 4, 5)],
            id="a read of what was lost",
        ),
        pytest.param(Anomaly.LOST_UPDATE, ONE, [ONE, done("b", Add(), 1, 2, 3)], id="lost"),
        pytest.param(Anomaly.APPLIED_TWICE, ONE, [ONE, done("b", Read(), 2, 2, 3)], id="read twice"),
        pytest.param(
            Anomaly.APPLIED_TWICE,
            None,
            [done("a", Add(1), None, 0, 3), done("b", Add(10), None, 0, 3), done("c", Read(), 22, 4, 5)],
            id="two applied twice",
        ),
        pytest.param(None, None, [ONE, done("b", Read(), 7, 2, 3)], id="a read of what never was"),
        pytest.param(None, None, [ONE, done("b", Add(), 7, 2, 3)], id="a wrong answer"),
    ],
)
def test_the_kind_of_mistake_is_found_with_the_operation_that_it_is_about(
    anomaly: Anomaly | None, suspect: AnyOperation | None, history: list[AnyOperation]
) -> None:
    report: Report[Any, Any] = check_history(Counter(), history)
    assert (report.verdict, report.anomaly, report.suspect) == (Verdict.NOT_LINEARIZABLE, anomaly, suspect)
    assert str(report).startswith(f"{anomaly.value}: no order" if anomaly else "no order")


def test_a_verdict_alone_has_no_counterexample() -> None:
    report: Report[Any, Any] = check_history(Counter(), [done("b", Read(), 7, 2, 3)], explain=False)
    assert (report.verdict, report.counterexample) == (Verdict.NOT_LINEARIZABLE, ())
    with pytest.raises(SafetyViolation, match="not linearizable: 1 operations"):
        report.require()


def test_a_report_counts_the_operations_that_only_others_have_seen() -> None:
    history = [done("a", Add(), number, 2 * number, 2 * number + 1) for number in range(1, 30)]
    lines = str(check_history(Counter(), [*history, done("b", Read(), 27, 98, 99)])).splitlines()
    assert lines[1] == "  25 operations, whatever they were answered"
    assert len(lines) == 7, lines


def concurrent_register(operations: int, clients: int, seed: int) -> list[AnyOperation]:
    """A history that a real register could have: effects at a drawn time within each call."""
    source = random.Random(seed)
    free_at = {client: source.random() for client in range(clients)}
    calls = []
    for number in range(operations):
        client = min(free_at, key=lambda each: free_at[each])
        start = free_at[client]
        effect, end = sorted((start + source.random() * 4, start + source.random() * 4))
        free_at[client] = end + source.random() * 0.1
        request = Read() if source.random() < 0.5 else Write(number)
        calls.append((effect, client, request, start, end))
    state, history = 0, []
    for _, client, request, start, end in sorted(calls, key=lambda call: call[0]):
        if isinstance(request, Write):
            state = request.value
        elif source.random() < 0.05:
            continue
        if isinstance(request, Write) and source.random() < 0.01:
            history.append(unknown(f"c{client}", request, start))
        else:
            answer = None if isinstance(request, Write) else state
            history.append(done(f"c{client}", request, answer, start, end))
    return history


@pytest.mark.slow
@pytest.mark.long
def test_two_thousand_operations_of_eight_clients_take_seconds() -> None:
    history = concurrent_register(2000, 8, seed=1)
    began = time.process_time()
    assert check_history(Register(0), history).verdict is Verdict.LINEARIZABLE
    # One answer from the far past.
    reads = [number for number, each in enumerate(history) if isinstance(each.request, Read)]
    at, early = reads[-50], history[reads[50]]
    history[at] = done("late", Read(), early.answer, history[at].invoked_at, history[at].returned_at)
    history.sort(key=lambda operation: operation.invoked_at)
    search: Search[Any, Any, Any] = Search(Register(0), history, configurations_max=5_000_000)
    assert search.run() is Verdict.NOT_LINEARIZABLE
    assert time.process_time() - began < 20
