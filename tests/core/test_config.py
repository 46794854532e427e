from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from baleen.core.config import NO_SETTING, from_mapping, override, read_toml, refuse_removed, to_mapping
from baleen.core.errors import ConfigError


@dataclass(frozen=True)
class WhaleConfig:
    length: int
    weight: float = 1.5
    name: str | None = None
    kind: Literal["baleen", "toothed"] = "baleen"
    songs: tuple[str, ...] = ()
    sings: bool = True

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ConfigError(f"length = {self.length} should be at least 1")


WHALE = WhaleConfig(16, 30.0, "Ishmael", "toothed", ("low", "high"), sings=False)


def test_settings_become_the_config() -> None:
    settings = {
        "length": 16,
        "weight": 30,
        "name": "Ishmael",
        "kind": "toothed",
        "songs": ["low", "high"],
        "sings": False,
    }
    assert from_mapping(WhaleConfig, settings) == WHALE


def test_what_is_not_set_keeps_its_default() -> None:
    assert from_mapping(WhaleConfig, {"length": 2}) == WhaleConfig(2)


def test_an_unknown_key_names_its_source_and_the_nearest_known_one() -> None:
    with pytest.raises(ConfigError, match=r"^whale\.toml: there is no setting 'lenght'; did you mean 'length'\?$"):
        from_mapping(WhaleConfig, {"lenght": 2}, source="whale.toml")


def test_an_unknown_key_that_is_near_none_lists_all() -> None:
    with pytest.raises(ConfigError, match="'zzz'; known are kind, length, name, sings, songs, weight$"):
        from_mapping(WhaleConfig, {"zzz": 2})


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("length", "16", "int"),
        ("length", 1.5, "int"),
        ("length", True, "int"),
        ("length", None, "int"),
        ("weight", "heavy", "float"),
        ("weight", False, "float"),
        ("name", 3, r"str \| None"),
        ("kind", "fish", "one of 'baleen', 'toothed'"),
        ("songs", "low", "a list of str"),
        ("songs", ["low", 3], "a list of str"),
        ("sings", 1, "bool"),
    ],
)
def test_a_value_of_the_wrong_type_says_what_was_found_and_what_was_expected(
    key: str, value: Any, expected: str
) -> None:
    with pytest.raises(ConfigError, match=rf"settings: {key} = {re.escape(repr(value))} should be {expected}"):
        from_mapping(WhaleConfig, {"length": 2, key: value})


def test_a_setting_that_must_be_given_is_asked_for() -> None:
    with pytest.raises(ConfigError, match="^settings: the setting 'length' is missing, and has no default$"):
        from_mapping(WhaleConfig, {})


def test_a_config_checks_its_own_values() -> None:
    with pytest.raises(ConfigError, match=r"^whale\.toml: length = 0 should be at least 1$"):
        from_mapping(WhaleConfig, {"length": 0}, "whale.toml")


@dataclass(frozen=True)
class PodConfig:
    leader: WhaleConfig
    others: tuple[WhaleConfig, ...] = ()
    stray: WhaleConfig | None = None
    tags: Mapping[str, int] = field(default_factory=dict)
    depths: tuple[int, ...] | None = None
    anything: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    seen_from: Path = field(default=Path("here"), metadata=NO_SETTING)


def test_configs_are_built_within_configs() -> None:
    whale = {"length": 16, "songs": ["low"]}
    pod = from_mapping(
        PodConfig,
        {
            "leader": whale,
            "others": [{"length": 3}, whale],
            "stray": {"length": 9},
            "tags": {"red": 3},
            "depths": [5, 6],
            "anything": {"of": {"whales": [1, "two"]}},
        },
    )
    own = WhaleConfig(16, songs=("low",))
    assert (pod.leader, pod.others, pod.stray) == (own, (WhaleConfig(3), own), WhaleConfig(9))
    assert (pod.tags, pod.depths, pod.anything) == ({"red": 3}, (5, 6), {"of": {"whales": [1, "two"]}})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"leeder": {}}, "there is no setting 'leeder'; did you mean 'leader'?"),
        ({"leader": {"lenght": 2}}, "leader: there is no setting 'lenght'; did you mean 'length'?"),
        ({"leader": {"length": "long"}}, "leader: length = 'long' should be int"),
        ({"leader": {"length": 0}}, "leader: length = 0 should be at least 1"),
        ({"leader": {}}, "leader: the setting 'length' is missing, and has no default"),
        ({"leader": 16}, "leader = 16 should be a table"),
        ({}, "the setting 'leader' is missing, and has no default"),
        ({"others": [{"length": 2}, {"length": 2, "wieght": 1}]}, "others[1]: there is no setting 'wieght'; did you"),
        ({"others": {"length": 2}}, "others = {'length': 2} should be a list of tables"),
        ({"others": [16]}, "others = [16] should be a list of tables"),
        ({"stray": {"name": 3, "length": 2}}, "stray: name = 3 should be str | None"),
        ({"tags": {"red": "three"}}, "tags = {'red': 'three'} should be a table of int"),
        ({"tags": [3]}, "tags = [3] should be a table of int"),
        ({"depths": ["deep"]}, "depths = ['deep'] should be"),
        ({"seen_from": "there"}, "there is no setting 'seen_from'; known are anything, depths, leader, others, stray"),
    ],
)
def test_errors_in_nested_settings_name_the_path(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        from_mapping(PodConfig, settings, "pod.toml")
    assert str(refusal.value).startswith(f"pod.toml: {said}")


def test_a_removed_setting_names_the_release_that_reads_it() -> None:
    with pytest.raises(ConfigError, match=r"^pod\.toml: stray: the setting 'rounding' is gone; .* use baleen 0\.1\.0$"):
        from_mapping(PodConfig, {"leader": {"length": 2}, "stray": {"length": 2, "rounding": 2}}, "pod.toml")
    with pytest.raises(ConfigError, match=r"^plan\.json: retriever: the setting 'teacher' is gone"):
        refuse_removed({"hops": 4, "retriever": {"teacher": None}}, "plan.json")
    refuse_removed({"hops": 4, "retriever": {"steps": [2]}}, "plan.json")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("stand_in", "'untrained'"),
        ("named_bonus", "'mention_boost'"),
        ("threshold", "'keep', 'read' and 'final'"),
        ("least_passages", "'min_passages'"),
    ],
)
def test_a_renamed_setting_is_refused_with_its_new_name(old: str, new: str) -> None:
    with pytest.raises(ConfigError, match=rf"^pod\.toml: leader: the setting '{old}' is now {new}$"):
        from_mapping(PodConfig, {"leader": {old: 2}}, "pod.toml")
    with pytest.raises(ConfigError, match=rf"^the setting '{old}' is now {new}$"):
        override(WHALE, **{old: 2})


def test_lists_become_tuples_and_tuples_lists() -> None:
    assert from_mapping(WhaleConfig, {"length": 2, "songs": ["low"]}).songs == ("low",)
    assert to_mapping(WhaleConfig(2, songs=("low",)))["songs"] == ["low"]


@pytest.mark.parametrize("config", [WHALE, WhaleConfig(1)])
def test_a_config_goes_to_a_mapping_and_back(config: WhaleConfig) -> None:
    assert from_mapping(WhaleConfig, to_mapping(config)) == config


def test_an_override_wins_unless_it_is_none() -> None:
    assert override(WHALE, length=3, name=None) == WhaleConfig(
        3, 30.0, "Ishmael", "toothed", ("low", "high"), sings=False
    )
    assert override(WHALE, sings=False, weight=0) == WhaleConfig(
        16, 0, "Ishmael", "toothed", ("low", "high"), sings=False
    )
    assert WHALE.length == 16, "the config itself is left alone"


def test_an_override_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="there is no setting 'wieght'; did you mean 'weight'"):
        override(WHALE, wieght=3)


def test_an_override_is_checked_like_any_value() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        override(WHALE, length=0)


def test_toml_is_read(tmp_path: Path) -> None:
    file = tmp_path / "whale.toml"
    file.write_text('length = 16\nname = "Ishmaël"\nsongs = ["low"]\n', "utf-8")
    assert from_mapping(WhaleConfig, read_toml(file)) == WhaleConfig(16, name="Ishmaël", songs=("low",))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"length = ", "not valid TOML"),
        (b'name = "\xff"', "not valid TOML"),
        (b"length = 1\nlength = 2", "not valid TOML"),
    ],
)
def test_what_is_not_toml_names_the_file(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "whale.toml"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=message) as refusal:
        read_toml(file)
    assert str(file) in str(refusal.value)


def test_a_toml_file_that_is_not_there_names_itself(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"whale\.toml: no such file"):
        read_toml(tmp_path / "whale.toml")


def test_a_folder_in_place_of_a_toml_file_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be read"):
        read_toml(tmp_path)
