"""Settings: fields of dataclasses, each read from a configuration key.

A setting is declared once, as a field:

    num_partitions: int = setting(int_key("num.partitions", 1, "The number of ...", low=1))

The key's default is the field's default, `read` makes an instance from the texts of a file, and `keys_of`
collects the keys for error messages, DescribeConfigs and the documentation.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from quorate.broker.settings.config_key import ConfigKey, TypedKey

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
P = TypeVar("P", bound="DataclassInstance")

_KEY: Final = "key"
_DECLARED: Final = "declared"
_NESTED: Final = "nested"


def setting(key: TypedKey[T]) -> T:
    """The field whose value is that of `key`, which it declares. Type checkers see the value."""
    return _field(key, declared=True)


def shared(key: TypedKey[T]) -> T:
    """As `setting`, for a key that another class declares."""
    return _field(key, declared=False)


def _field(key: TypedKey[T], *, declared: bool) -> T:
    default = key.parse(key.initial)
    # A factory, because a default such as an empty mapping need not be hashable.
    return field(default_factory=lambda: default, metadata={_KEY: key, _DECLARED: declared})


def nested(part: type[P]) -> P:
    """The field that holds another class of settings."""
    return field(default_factory=part, metadata={_NESTED: part})


def keys_of(area: type) -> Iterator[ConfigKey]:
    """Yield the keys that a class declares, without those of its bases: first the keys that are attributes of
    the class, then those of its settings in their order, with the keys of nested classes."""
    yield from (each for each in vars(area).values() if isinstance(each, ConfigKey))
    if not is_dataclass(area):
        return
    inherited = {each.name for base in area.__mro__[1:] if is_dataclass(base) for each in fields(base)}
    for each in fields(area):
        if each.name in inherited:
            continue
        if each.metadata.get(_DECLARED):
            yield each.metadata[_KEY]
        elif _NESTED in each.metadata:
            yield from keys_of(each.metadata[_NESTED])


def read(part: type[P], values: Mapping[str, str]) -> P:
    """Return the settings of a class. `values`: a text, already checked, for each of its keys."""
    return part(**read_fields(part, values))


def read_fields(part: "type[DataclassInstance]", values: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of the fields that are settings, by the names of the fields."""
    found: dict[str, Any] = {}
    for each in fields(part):
        if _KEY in each.metadata:
            key: TypedKey[Any] = each.metadata[_KEY]
            found[each.name] = key.parse(values[key.name])
        elif _NESTED in each.metadata:
            found[each.name] = read(each.metadata[_NESTED], values)
    return found
