"""Sums of parts: by attribute and by name, names in the order of the contract."""

from types import SimpleNamespace

import numpy as np
from bertscope.questions.attention.sums import HeadSums
from bertscope.values.merging import added, added_by_name


def test_attributes_of_parts_add_up():
    parts = [SimpleNamespace(texts=number, sums=np.array([number, 1])) for number in (1, 2, 4)]
    found = added(parts, ("texts", "sums"))
    assert found["texts"] == 7
    np.testing.assert_array_equal(found["sums"], [7, 3])
    np.testing.assert_array_equal(parts[0].sums, [1, 1])


def test_names_add_up_where_they_are():
    one, two = (HeadSums(texts, np.full((1, 1), texts), np.full((1, 1), texts**2)) for texts in (3.0, 5.0))
    found = added_by_name(iter([{"new": one, "b": one}, {"a": two, "b": two}]), ("a", "b", "c"))
    assert list(found) == ["a", "b", "new"]
    assert [each.texts for each in found.values()] == [5, 8, 3]
    assert found["b"].squares.item() == 34
    assert list(added_by_name([{"y": 1}, {"x": 2, "y": 3}])) == ["y", "x"]
    assert added_by_name([]) == {}
