"""From JSON to the types of models.py. Fields that this version does not know are ignored: more will come."""

from __future__ import annotations

import dataclasses
import functools
import typing
from typing import Any, Callable, TypeVar

T = TypeVar("T")


def decode(kind: type[T], data: Any) -> T:
    """A `kind` with the fields of `data`."""
    known = _readers.get(kind) or _find_readers(kind)
    return kind(**{name: known[name](value) for name, value in data.items() if name in known})


# How each field of a type is read.
_readers: dict[type, dict[str, Callable[[Any], Any]]] = {}


def _find_readers(kind: type) -> dict[str, Callable[[Any], Any]]:
    _readers[kind] = {name: _reader(hint) for name, hint in typing.get_type_hints(kind).items()}
    return _readers[kind]


def _reader(hint: Any) -> Callable[[Any], Any]:
    if typing.get_origin(hint) is typing.Union:
        hint = next(kind for kind in typing.get_args(hint) if kind is not type(None))
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return functools.partial(decode, hint)
    items = typing.get_args(hint)
    if typing.get_origin(hint) is list and dataclasses.is_dataclass(items[0]):
        return lambda values: [decode(items[0], value) for value in values]
    return lambda value: value


def encode(request: Any) -> dict[str, Any]:
    """The fields of a request that are set."""
    return {name: value for name, value in dataclasses.asdict(request).items() if value is not None}
