"""Records of the arithmetic cannot be changed after they were made."""

import dataclasses
import importlib
import inspect
import pkgutil

import pytest

import fedcsa.core

MODULES = [
    importlib.import_module(f"fedcsa.core.{module.name}")
    for module in pkgutil.iter_modules(fedcsa.core.__path__)
]
RECORDS = [
    value
    for module in MODULES
    for _, value in inspect.getmembers(module, dataclasses.is_dataclass)
    if inspect.isclass(value) and value.__module__ == module.__name__
]


def test_there_are_records_to_check():
    assert {"Tilt", "NewSite", "Table1", "RiskMoments", "Estimate"} <= {
        cls.__name__ for cls in RECORDS
    }


@pytest.mark.parametrize("cls", RECORDS, ids=lambda cls: cls.__name__)
def test_every_record_is_frozen(cls):
    names = [field.name for field in dataclasses.fields(cls)]
    record = object.__new__(cls)
    with pytest.raises(
        dataclasses.FrozenInstanceError, match=f"cannot assign to field '{names[0]}'"
    ):
        setattr(record, names[0], None)
