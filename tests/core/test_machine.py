"""The description of the machine, with fallbacks."""

from __future__ import annotations

import platform
from pathlib import Path

from baleen.core import machine


def test_a_machine_has_a_name_a_size_and_versions() -> None:
    found = machine.machine_info()
    assert list(found) == ["cpu", "cores", "memory_gb", "date", "python", *machine.PACKAGES]
    assert found["cpu"]
    assert found["cores"] >= 1
    assert found["python"] == platform.python_version()
    assert found["torch"] == machine.package_version("torch") != "not installed"


def test_a_package_that_is_not_there_is_said_to_be_so() -> None:
    assert machine.package_version("no-such-package-anywhere") == "not installed"


def test_a_processor_is_called_by_its_model_or_by_its_architecture(tmp_path: Path) -> None:
    (tmp_path / "named").write_text("processor\t: 0\nmodel name\t: Fast: One\n\nmodel name\t: Other\n")
    (tmp_path / "nameless").write_text("processor\t: 0\n")
    assert machine._cpu(tmp_path / "named") == "Fast: One"
    assert machine._cpu(tmp_path / "nameless") == machine._cpu(tmp_path / "absent") == platform.machine()
