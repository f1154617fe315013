"""Reads objects as the API sends them: a field that is null is a field that is absent.

Programs in Go leave a list, a map or a time that they have no value for as null, and a
server passes on what a kind's schema does not forbid. To tell such an object from a broken one
costs a second look, which only those pay that cannot be read at the first. So does what is
nested too deep for a reader: that is read without its depths.

To make a value of each thing in a long list takes many times as long as to pass over it. So
a kind may have a way of its own to read long objects, `of_long`, that passes over what its
readers would refuse anyway.
"""

import functools
from typing import Any, Final, TypeVar

import msgspec

from berth_crds import nesting

T = TypeVar("T")

LONG_BYTES: Final = 1 << 16  # Bytes; all objects that people mean are shorter, or nearly so.


def decode(decoder: msgspec.json.Decoder[T], body: bytes | msgspec.Raw) -> T:
    """Decode a text as it is, however deep it is nested, or raise one of `errors.DECODE_ERRORS`."""
    try:
        return decoder.decode(body)
    except RecursionError:
        return decoder.decode(nesting.cut_deep_values(bytes(body)))


def decode_object(decoder: msgspec.json.Decoder[T], body: bytes | msgspec.Raw) -> T:
    """Decode an object, or raise one of `errors.DECODE_ERRORS`."""
    try:
        return _of_long(decoder, body) if len(body) > LONG_BYTES else decode(decoder, body)
    except msgspec.ValidationError:
        # What is looked at as a whole is never deep: to skip a level takes little stack, to keep it much.
        whole = msgspec.json.decode(nesting.cut_deep_values(bytes(body)))
        filled = without_nulls(whole)
        if filled == whole:
            raise
        return msgspec.convert(filled, decoder.type, str_keys=True)


def _of_long(decoder: msgspec.json.Decoder[T], body: bytes | msgspec.Raw) -> T:
    """Decode a long object in the way that its kind has for that, if any."""
    found: T = getattr(decoder.type, "of_long", functools.partial(decode, decoder))(body)
    return found


def without_nulls(thing: Any) -> Any:
    """Leave out all fields that are null; an element of a list is no field, and stays."""
    if isinstance(thing, dict):
        return {key: without_nulls(value) for key, value in thing.items() if value is not None}
    return [without_nulls(each) for each in thing] if isinstance(thing, list) else thing
