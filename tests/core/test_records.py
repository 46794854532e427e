"""Records of all sorts of fields: to JSON as plain values, and back as they were."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from baleen.core.records import Record


@dataclass(frozen=True, slots=True)
class Leaf(Record):
    name: str
    kind: Literal["red", "green"] = "green"
    weight: float | None = None


@dataclass(frozen=True, slots=True)
class Flower(Record):
    petals: int


@dataclass(frozen=True, slots=True)
class Tree(Record):
    name: str
    leaves: tuple[Leaf, ...] = ()
    own: Leaf | None = None
    spans: tuple[tuple[int, int], ...] = ()
    names: tuple[str, ...] = ()
    some: tuple[Leaf | None, ...] = ()
    crown: Flower | None = None
    kept: Mapping[str, Any] = field(default_factory=dict)
    trees: tuple[Tree, ...] = ()


FULL = Tree(
    "oak",
    (Leaf("a"), Leaf("b", "red", 0.5)),
    Leaf("c", weight=-0.0),
    ((0, 3), (4, 4)),
    ("x", "y"),
    (None, Leaf("d")),
    Flower(3),
    {"deep": {"list": [1, None], "tuple": (1, 2)}, "leaf": Leaf("e")},
    (Tree("sapling", trees=(Tree("seed"),)),),
)


def test_what_goes_out_is_plain_and_in_the_order_of_the_fields() -> None:
    document = FULL.to_json()
    assert list(document) == ["name", "leaves", "own", "spans", "names", "some", "crown", "kept", "trees"]
    assert document["leaves"][1] == {"name": "b", "kind": "red", "weight": 0.5}
    assert document["spans"] == [[0, 3], [4, 4]]
    assert document["some"] == [None, Leaf("d").to_json()]
    assert document["kept"] == {"deep": {"list": [1, None], "tuple": [1, 2]}, "leaf": Leaf("e").to_json()}
    assert json.loads(json.dumps(document)) == document


@pytest.mark.parametrize("tree", [FULL, Tree("bare"), Tree("one", crown=Flower(0))])
def test_what_comes_back_is_the_record(tree: Tree) -> None:
    back = Tree.from_json(json.loads(json.dumps(tree.to_json())))
    plain = {**tree.kept, **({"leaf": Leaf("e").to_json()} if tree.kept else {})}  # a mapping's values stay plain
    assert json.dumps(back.to_json()) == json.dumps(tree.to_json())
    for name in ("name", "leaves", "own", "spans", "names", "some", "crown", "trees"):
        assert repr(getattr(back, name)) == repr(getattr(tree, name))
    assert json.dumps(back.kept) == json.dumps(plain)


def test_missing_and_null_keys_take_defaults_and_input_is_unchanged() -> None:
    data = {"name": "elm", "own": None, "leaves": [{"name": "a"}]}
    assert Tree.from_json(data) == Tree("elm", (Leaf("a"),))
    assert data == {"name": "elm", "own": None, "leaves": [{"name": "a"}]}


def test_a_key_that_no_field_has_is_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        Leaf.from_json({"name": "a", "colour": "red"})
    for given in ({"crown": {"petals": 5, "colour": "red"}}, {"some": [None, {"name": "a", "colour": "red"}]}):
        with pytest.raises(TypeError, match="colour"):
            Tree.from_json({"name": "elm", **given})


def test_a_kind_with_a_way_of_its_own_keeps_it_within_others() -> None:
    @dataclass(frozen=True, slots=True)
    class Loud(Leaf):
        def to_json(self) -> dict[str, Any]:
            return {"name": self.name.upper()}

    assert Tree("oak", (Loud("a"),)).to_json()["leaves"] == [{"name": "A"}]
