"""A message is its dataclass: all of its codec follows from the types of its fields and their bounds."""

import dataclasses
import enum
import math
import uuid
from dataclasses import dataclass
from typing import Annotated, NewType, TypeVar

import cbor2
import pytest

from quorate.bounds import Integer, Most, Numbered, Only
from quorate.cbor import Arrays, Messages, SchemaError

Node = NewType("Node", int)


class Colour(enum.IntEnum):
    RED = 1
    GREEN = 2
    BLUE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    spokes: Annotated[int, Integer(low=3, high=36)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bicycle:
    """The first version of a message."""

    name: Annotated[str, Most(8)]
    wheels: Annotated[tuple[Wheel, ...], Most(2)] = ()
    weight: float | None = None
    colour: Colour = Colour.RED


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBicycle(Bicycle):
    """The next version: each field below is one line, as a field of a record or of a request would be."""

    # 4 was the bell.
    frame: Annotated[uuid.UUID | None, Numbered(5)] = None
    gears: Annotated[tuple[Annotated[int, Integer(bits=16, low=1)], ...], Most(3)] = ()
    rider: Node | None = None
    paint: Annotated[Colour, Only([Colour.RED, Colour.BLUE])] = Colour.RED
    sold: bool = False


class BicycleError(ValueError):
    pass


T = TypeVar("T")


def messages_of(of: type[T]) -> Messages[T]:
    return Messages("bicycle", (7, 2, of), error=BicycleError, max_bytes=1000, bounds={Node: Integer(low=0)})


OLD = messages_of(Bicycle)
NEW = messages_of(NewBicycle)
FULL = NewBicycle(
    name="tandem",
    wheels=(Wheel(spokes=36), Wheel(spokes=3)),
    weight=12.5,
    colour=Colour.BLUE,
    frame=uuid.UUID(int=9),
    gears=(1, 32767),
    rider=Node(4),
    paint=Colour.BLUE,
    sold=True,
)
BODY = {
    0: "tandem", 1: [{0: 36}, {0: 3}], 2: 12.5, 3: 3,
    5: bytes(15) + b"\x09", 6: [1, 32767], 7: 4, 8: 3, 9: True,
}  # fmt: skip


def test_the_codec_of_a_message_follows_from_its_dataclass() -> None:
    assert cbor2.loads(NEW.encode(FULL)) == [7, 2, BODY]
    assert NEW.decode(NEW.encode(FULL)) == FULL


def test_defaults_are_not_written() -> None:
    assert cbor2.loads(NEW.encode(NewBicycle(name="x"))) == [7, 2, {0: "x"}]
    assert NEW.decode(cbor2.dumps([7, 0, {0: "x"}])) == NewBicycle(name="x")


def test_versions_of_a_message_read_each_other() -> None:
    assert OLD.decode(NEW.encode(FULL)) == Bicycle(
        name="tandem", wheels=FULL.wheels, weight=12.5, colour=Colour.BLUE
    )
    assert NEW.decode(OLD.encode(Bicycle(name="x", weight=1.5))) == NewBicycle(name="x", weight=1.5)
    with pytest.raises(BicycleError, match="upgrade this node"):
        OLD.decode(cbor2.dumps([7, 3, {0: "x"}]))


@pytest.mark.parametrize(
    ("number", "value", "why"),
    [
        (0, "123456789", "NewBicycle.name: a string of 9 characters, more than the 8 allowed"),
        (0, None, "NewBicycle.name: expected a string, not NoneType"),
        (1, [{0: 3}] * 3, "NewBicycle.wheels: a list of 3, more than the 2 allowed"),
        (1, [{0: 2}], "NewBicycle.wheels: Wheel.spokes: 2 is not within 3 and 36"),
        (1, [{0: 37}], "NewBicycle.wheels: Wheel.spokes: 37 is not within 3 and 36"),
        (1, [{}], "NewBicycle.wheels: Wheel: missing spokes"),
        (2, math.inf, "NewBicycle.weight: expected a finite number, not inf"),
        (3, 4, "NewBicycle.colour: expected a Colour, not 4"),
        (5, b"short", "NewBicycle.frame: expected an id of 16 bytes"),
        (6, [0], "NewBicycle.gears: an integer that is not within 1 and 32767"),
        (6, [1, 1, 1, 1], "NewBicycle.gears: a list of 4, more than the 3 allowed"),
        (7, -1, "NewBicycle.rider: -1 is not within 0 and 2147483647"),
        (8, 2, "NewBicycle.paint: expected a Colour, not 2"),
        (9, 1, "NewBicycle.sold: expected a boolean, not int"),
    ],
)
def test_a_value_outside_of_its_bounds_is_refused_by_the_fields_name(
    number: int, value: object, why: str
) -> None:
    with pytest.raises(BicycleError) as refusal:
        NEW.decode(cbor2.dumps([7, 2, {**BODY, number: value}]))
    assert str(refusal.value) == f"not a bicycle: {why}"


def test_the_number_of_a_field_that_is_gone_is_skipped() -> None:
    assert NEW.decode(cbor2.dumps([7, 2, {**BODY, 4: ["anything"]}])) == FULL


@pytest.mark.parametrize(
    ("hint", "why"),
    [
        (tuple[int, ...], "it needs Most"),
        (Annotated[str, Integer()], "it needs Most"),
        (Annotated[int, Most(3)], "it needs Integer"),
        (Annotated[int, Most(3), Integer()], "it needs Integer"),
        (Annotated[bool, Most(3)], "no kind of field"),
        (Annotated[Wheel, Most(1)], "no bound of its own"),
        (dict[int, int], "no kind of field"),
        (bytes, "no kind of field"),
        (int | str, "no kind of field"),
        (Annotated[tuple[int, str], Most(2)], "no kind of field"),
        (Annotated[tuple[int | None, ...], Most(2)], "may be null"),
        (Annotated[int, Numbered(0)], "the number 0 is taken"),
    ],
)
def test_bounds_that_a_field_lacks_or_can_not_have_are_refused_when_the_table_is_made(
    hint: object, why: str
) -> None:
    of = dataclasses.make_dataclass("Made", [("first", int), ("second", hint)])
    with pytest.raises(TypeError, match=rf"Made\.second.*{why}"):
        messages_of(of)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    x: int
    y: Annotated[int, Integer(low=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ride:
    """In an array."""

    stamp: int
    by: Wheel
    start: Place | None
    note: Annotated[str, Most(4)] = ""


RIDES = Arrays({int: Integer(bits=64), Place: Most(2)}, flat=[Wheel])
RIDE = RIDES.array(Ride, "stamp")


def test_a_field_of_an_array_is_one_line_too() -> None:
    ride = Ride(stamp=5, by=Wheel(spokes=4), start=Place(x=-(2**40), y=7), note="fast")
    assert RIDE.encode(ride) == [4, [-(2**40), 7], "fast"]
    assert RIDE.decode([4, [-(2**40), 7], "fast"], 5) == ride
    assert RIDE.decode([4, None, "", "newer"], 5) == Ride(stamp=5, by=Wheel(spokes=4), start=None)
    refused: list[tuple[list[object], str]] = [
        ([2, None, ""], r"Ride\.by\.spokes: 2 is not within 3 and 36"),
        ([4, [1, 2, 3], ""], r"Ride\.start: expected a list of no more than 2 values"),
        ([4, [1, -1], ""], r"Ride\.start: Place\.y: -1 is not within 0"),
        ([4, None, "slowly"], r"Ride\.note: a string of 6 characters"),
        ([4, None], r"Ride: 2 fields, not 3"),
    ]
    for fields, why in refused:
        with pytest.raises(SchemaError, match=why):
            RIDE.decode(fields, 5)


def test_an_array_without_the_field_that_is_given_beside_it_is_refused_when_it_is_made() -> None:
    with pytest.raises(TypeError, match="Ride has no time"):
        RIDES.array(Ride, "time")


def test_a_field_of_an_array_with_a_number_is_refused_when_it_is_made() -> None:
    of = dataclasses.make_dataclass("Made", [("first", Annotated[int, Numbered(3)])])
    with pytest.raises(TypeError, match="first has a number"):
        RIDES.array(of)
