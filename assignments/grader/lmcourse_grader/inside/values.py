"""Plain values as strict JSON, and back: what crosses between student code and the grader.

Nothing else crosses: no pickle, no object arrays, no subclasses. Arrays travel as dtype, shape and bytes.
"""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np

DTYPES = frozenset(
    ["|b1", "|i1", "|u1"]
    + [f"<{kind}{size}" for kind in "iu" for size in (2, 4, 8)]
    + ["<f2", "<f4", "<f8", "<c8", "<c16"]
)
MAX_BYTES = 4_000_000
MAX_DEPTH = 8
MAX_ITEMS = 200_000
MAX_TEXT = 100_000


class NotPlain(TypeError):
    """A value that may not cross; the message names the type that came."""


def encode(value: Any, depth: int = 0) -> Any:
    """Turn a plain value into JSON; raise `NotPlain` at anything else.

    NumPy scalars count as Python's. An array must be exactly `numpy.ndarray`, of booleans or numbers.
    """
    if depth > MAX_DEPTH:
        raise NotPlain("containers nested too deeply")
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is str:
        if len(value) > MAX_TEXT:
            raise NotPlain(f"str of {len(value)} characters")
        return value
    if isinstance(value, np.generic):
        if value.dtype.kind not in "biufc" or isinstance(value, np.longdouble | np.clongdouble):
            raise NotPlain(f"numpy.{kind.__name__}")
        return encode(value.item(), depth)
    if kind is int:
        if value.bit_length() > MAX_TEXT:
            raise NotPlain("int of too many digits")
        return {"int": format(value, "x")} if value.bit_length() > 53 else value
    if kind is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if kind is complex:
        return {"complex": [encode(value.real), encode(value.imag)]}
    if kind is np.ndarray:
        return _encode_array(value)
    if kind is list or kind is tuple:
        if len(value) > MAX_ITEMS:
            raise NotPlain(f"{kind.__name__} of {len(value)} items")
        return {kind.__name__: [encode(item, depth + 1) for item in value]}
    if kind is dict:
        if len(value) > MAX_ITEMS:
            raise NotPlain(f"dict of {len(value)} items")
        return {"dict": [[encode(key, depth + 1), encode(item, depth + 1)] for key, item in value.items()]}
    raise NotPlain(f"{kind.__module__}.{kind.__qualname__}"[:120].removeprefix("builtins."))


def _encode_array(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    little = array.dtype.newbyteorder("<")
    if little.str not in DTYPES:
        raise NotPlain(f"numpy array of {array.dtype}")
    if array.nbytes > MAX_BYTES:
        raise NotPlain(f"numpy array of {array.nbytes} bytes, more than {MAX_BYTES}")
    data = np.ascontiguousarray(array, dtype=little).tobytes()
    return {"array": little.str, "shape": list(array.shape), "data": base64.b64encode(data).decode()}


def decode(coded: Any, depth: int = 0) -> Any:
    """Turn JSON back into a plain value, trusting nothing; raise `ValueError` at any other form."""
    if depth > MAX_DEPTH + 1:
        raise ValueError("nested too deeply")
    if coded is None or isinstance(coded, bool | str | int):
        return coded
    if isinstance(coded, float):
        if not math.isfinite(coded):
            raise ValueError("a bare NaN or infinity")
        return coded
    if not isinstance(coded, dict):
        raise ValueError("a bare list")
    match coded:
        case {"int": str(text)} if len(coded) == 1 and len(text) <= MAX_TEXT:
            return int(text, 16)
        case {"float": "nan" | "inf" | "-inf" as text} if len(coded) == 1:
            return float(text)
        case {"complex": [real, imaginary]} if len(coded) == 1:
            parts = decode(real, depth + 1), decode(imaginary, depth + 1)
            if not all(isinstance(part, float) for part in parts):
                raise ValueError("a complex number of something else")
            return complex(*parts)
        case {"list": list(items)} if len(coded) == 1:
            return [decode(item, depth + 1) for item in items]
        case {"tuple": list(items)} if len(coded) == 1:
            return tuple(decode(item, depth + 1) for item in items)
        case {"dict": list(pairs)} if len(coded) == 1:
            return _decode_dict(pairs, depth)
        case {"array": str(dtype), "shape": list(shape), "data": str(data)} if len(coded) == 3:
            return _decode_array(dtype, shape, data)
    raise ValueError("an unknown form")


def _decode_dict(pairs: list[Any], depth: int) -> dict[Any, Any]:
    found = {}
    for pair in pairs:
        if not (isinstance(pair, list) and len(pair) == 2):
            raise ValueError("a dict of something other than pairs")
        key = decode(pair[0], depth + 1)
        if not isinstance(key, str | int | float | bool | None):
            raise ValueError("a key that is not plain")
        found[key] = decode(pair[1], depth + 1)
    return found


def _decode_array(dtype: str, shape: list[Any], data: str) -> np.ndarray[Any, Any]:
    if dtype not in DTYPES:
        raise ValueError("an array of an unknown dtype")
    if len(shape) > 16 or not all(type(size) is int and 0 <= size <= MAX_BYTES for size in shape):
        raise ValueError("an array of an impossible shape")
    raw = base64.b64decode(data, validate=True)
    if len(raw) > MAX_BYTES or math.prod(shape) * np.dtype(dtype).itemsize != len(raw):
        raise ValueError("an array whose shape and size disagree")
    return np.frombuffer(raw, dtype=dtype).reshape(shape).copy()
