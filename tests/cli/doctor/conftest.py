"""The machine that `doctor` looks at."""

from pathlib import Path

import pytest

from tests.kit.patients import Patient


@pytest.fixture
def patient(tmp_path: Path) -> Patient:
    return Patient(tmp_path)
