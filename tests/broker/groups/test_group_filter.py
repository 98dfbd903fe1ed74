"""The filter of ListGroups against a plain one."""

from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.groups.group_administration import GroupFilter, ListedGroup
from quorate.broker.groups.group_state import GroupState
from quorate.runtime import at_once

STATES = [each.value for each in GroupState]
TYPES = ["classic", "consumer"]


def cased(names: list[str]) -> st.SearchStrategy[str]:
    """One of the names in some case, or a name that nothing has."""
    known = st.sampled_from(names)
    return st.one_of(known, known.map(str.upper), known.map(str.lower), known.map(str.swapcase), st.text())


@given(
    st.lists(cased(STATES), max_size=3),
    st.lists(cased(TYPES), max_size=3),
    st.sampled_from(STATES),
    st.sampled_from(TYPES),
)
def test_a_group_is_listed_if_its_state_and_its_type_are_wanted_in_any_case(
    states: list[str], types: list[str], state: str, group_type: str
) -> None:
    listed = ListedGroup("g", "consumer", state, group_type) in at_once(
        GroupFilter.steps(states=states, types=types)
    )
    state_wanted = not states or any(each.lower() == state.lower() for each in states)
    type_wanted = not types or any(each.lower() == group_type for each in types)
    assert listed == (state_wanted and type_wanted)
