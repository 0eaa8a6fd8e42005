"""Values of every plain builtin type, for properties."""

from __future__ import annotations

from hypothesis import strategies as st

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats()
    | st.complex_numbers()
    | st.text(max_size=8)
    | st.text(st.characters(), max_size=3)  # with surrogates
    | st.binary(max_size=8)
)
HASHABLES = st.recursive(
    SCALARS, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=6
)
VALUES = st.recursive(
    HASHABLES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(HASHABLES, inner, max_size=3)
        | st.sets(HASHABLES, max_size=3)
    ),
    max_leaves=8,
)
