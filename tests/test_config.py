from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from baleen.config import from_mapping, override, read_toml, to_mapping
from baleen.errors import ConfigError


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
        ("songs", "low", "tuple"),
        ("sings", 1, "bool"),
    ],
)
def test_a_value_of_the_wrong_type_says_what_was_found_and_what_was_expected(
    key: str, value: Any, expected: str
) -> None:
    with pytest.raises(ConfigError, match=rf"settings: {key} = {value!r} should be {expected}"):
        from_mapping(WhaleConfig, {"length": 2, key: value})


def test_a_setting_that_must_be_given_is_asked_for() -> None:
    with pytest.raises(ConfigError, match="settings: .*'length'"):
        from_mapping(WhaleConfig, {})


def test_a_config_checks_its_own_values() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        from_mapping(WhaleConfig, {"length": 0})


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
