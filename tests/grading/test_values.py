"""Plain values cross as they are; nothing else crosses."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from lmcourse_grader.inside import values

PLAIN = [
    None,
    True,
    False,
    0,
    -(2**70),
    2**53 + 1,
    0.1,
    -0.0,
    5e-324,
    math.inf,
    -math.inf,
    1 + 2j,
    complex(math.inf, -1),
    "",
    "naïve ∑ \ud800",
    [],
    (),
    [1, (2.0, "x"), [None]],
    {"p": 1, 2: [3]},
]
ARRAYS = [
    np.arange(6).reshape(2, 3),
    np.arange(6, dtype=">i4")[::2],
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.zeros((0, 3)),
    np.array(1.5),
    np.array([math.nan, math.inf, -0.0]),
    np.array([True, False]),
    np.array([1j, 2]),
    np.float32([1.1]),
    np.broadcast_to(np.float64(2), (3,)),
]


def there_and_back(value):
    return values.decode(json.loads(json.dumps(values.encode(value), allow_nan=False)))


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_plain_values(value):
    found = there_and_back(value)
    assert type(found) is type(value)
    assert repr(found) == repr(value)


def test_nan():
    assert math.isnan(there_and_back(math.nan))


@pytest.mark.parametrize("array", ARRAYS, ids=repr)
def test_arrays(array):
    found = there_and_back(array)
    assert type(found) is np.ndarray
    assert found.dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize(
    ("scalar", "plain"),
    [(np.float64(0.1), 0.1), (np.int32(3), 3), (np.bool_(True), True), (np.complex64(1j), 1j)],
)
def test_numpy_scalars(scalar, plain):
    assert there_and_back(scalar) == plain
    assert type(there_and_back(scalar)) is type(plain)


class Float(float):
    pass


class Array(np.ndarray):
    pass


@pytest.mark.parametrize(
    "value",
    [
        Float(1),
        np.zeros(2).view(Array),
        np.array([None]),
        np.array(["text"]),
        np.zeros(3, dtype=[("a", "f8")]),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.ma.zeros(2),
        {1, 2},
        range(3),
        iter([1]),
        object(),
        len,
        b"bytes",
        "x" * 200_000,
        2**200_000,
        [0] * 300_000,
        np.zeros(3_000_000),
        np.longdouble(1),
        np.clongdouble(1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_nothing_else_crosses(value):
    with pytest.raises(values.NotPlain):
        values.encode(value)
    with pytest.raises(values.NotPlain):
        values.encode([value])


@pytest.mark.parametrize(
    "coded",
    [
        [],
        {"float": "1e5"},
        {"float": "nan", "more": 1},
        {"int": "zz"},
        {"complex": ["1", 2]},
        {"object": 1},
        {"dict": [[1]]},
        {"dict": [[{"list": []}, 1]]},
        {"array": "|O", "shape": [1], "data": "AAAAAAAAAAA="},
        {"array": "<f8", "shape": [2], "data": "AAAAAAAAAAA="},
        {"array": "<f8", "shape": [-1], "data": "AAAAAAAAAAA="},
        {"array": "<f8", "shape": [True], "data": "AAAAAAAAAAA="},
        {"array": "<f8", "shape": [10**12, 10**12], "data": ""},
        {"array": "<f8", "shape": [1], "data": "?"},
        {"array": "<f8", "shape": [1] * 40, "data": "AAAAAAAAAAA="},
        math.nan,
    ],
    ids=str,
)
def test_a_forged_form_is_refused(coded):
    with pytest.raises(ValueError):  # noqa: PT011
        values.decode(coded)
    with pytest.raises(ValueError):  # noqa: PT011
        values.decode({"list": [coded]})


def test_depth_is_bounded_both_ways():
    deep, coded = 1, 1
    for _ in range(20):
        deep, coded = [deep], {"list": [coded]}
    with pytest.raises(values.NotPlain):
        values.encode(deep)
    with pytest.raises(ValueError, match="nested"):
        values.decode(coded)
