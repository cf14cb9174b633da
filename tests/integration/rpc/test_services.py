"""Every service of the contract has a class in `api/`, and a service without one is named."""

from __future__ import annotations

import dataclasses

import pytest
from bertscope_service.contract import METHODS
from bertscope_service.rpc import services


def test_each_service_has_its_class() -> None:
    classes = services.servicer_classes()
    assert classes.keys() == {method.service for method in METHODS.values()}
    assert classes["bertscope.v1.ClozeService"].__name__ == "ClozeServicer"
    for method in METHODS.values():
        assert callable(getattr(classes[method.service], method.name))


def test_a_service_without_a_class_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    path, method = next(iter(METHODS.items()))
    made = dataclasses.replace(method, service="bertscope.v1.NewService")
    monkeypatch.setattr(services, "METHODS", {path: made})
    with pytest.raises(KeyError, match="New"):
        services.servicer_classes()
