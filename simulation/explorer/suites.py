"""The explorations that are run together, with what each is for. Figures: docs/verification."""

from collections.abc import Mapping
from typing import Final

from quorate.simulation.explorer.bounds import Bound, Budgets

Suite = Mapping[str, Bound]

SMALL: Final[Suite] = {
    "crash": Bound(situation="elected", budgets=Budgets(appends=1, crashes=1), voters=2),
    "handover": Bound(situation="elected", budgets=Budgets(resignations=1, transfers=1)),
    "reads": Bound(situation="elected", budgets=Budgets(reads=1, appends=1)),
    "divergence": Bound(situation="diverged", budgets=Budgets()),
    "restart": Bound(situation="diverged", budgets=Budgets(crashes=1), in_flight=3),
    "two leaders": Bound(situation="deposed", budgets=Budgets(reads=1, appends=1)),
    "undone change": Bound(situation="undone change", budgets=Budgets()),
    "snapshots": Bound(situation="behind the start", budgets=Budgets(appends=1)),
    "voters": Bound(situation="dynamic", budgets=Budgets(voter_changes=1)),
}
"""Seconds, for the suite of tests."""

CI: Final[Suite] = {
    "elections": Bound(situation="cold", budgets=Budgets(timeouts=1), epochs=1, in_flight=3),
    "elections of two": Bound(situation="cold", budgets=Budgets(timeouts=2, crashes=1), voters=2, epochs=2),
    "crashes": Bound(situation="elected", budgets=Budgets(appends=1, crashes=1, power_losses=1)),
    "repeats": Bound(situation="elected", budgets=Budgets(appends=2, duplicates=1, losses=1)),
    "timeouts": Bound(situation="lagging", budgets=Budgets(appends=1, timeouts=1)),
    "handover": Bound(situation="elected", budgets=Budgets(appends=1, resignations=1, transfers=1, ticks=1)),
    "reads": Bound(situation="elected", budgets=Budgets(reads=2, appends=1, timeouts=1)),
    "divergence": Bound(situation="diverged", budgets=Budgets(timeouts=1), in_flight=3),
    "two leaders": Bound(situation="deposed", budgets=Budgets(reads=1, appends=1, timeouts=1), in_flight=4),
    "undone change": Bound(situation="undone change", budgets=Budgets(timeouts=1), in_flight=4),
    "snapshots": Bound(situation="behind the start", budgets=Budgets(timeouts=1, damages=1), in_flight=4),
    "snapshots and crashes": Bound(situation="lagging", budgets=Budgets(snapshots=2, damages=1, crashes=1)),
    "voters": Bound(situation="dynamic", budgets=Budgets(voter_changes=2), in_flight=4),
    "voters and crashes": Bound(situation="dynamic", budgets=Budgets(voter_changes=1, crashes=1)),
    "voters come and go": Bound(situation="dynamic", budgets=Budgets(voter_changes=2), voters=2, observers=1),
}
"""A minute or two on two cores."""

SUITES: Final[Mapping[str, Suite]] = {"small": SMALL, "ci": CI}
