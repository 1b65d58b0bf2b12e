"""The command `warmup`: which kernels it compiles, and what it says."""

from __future__ import annotations

import pkgutil

import pytest
from support.commands import run

from aaams_stream import jit, kernels
from aaams_stream.run.warmup import RECIPES


def entry_points(file):
    """Return the kernels that Python calls: those that no other kernel of the file calls."""
    found = {kernel.py_func.__name__: kernel for kernel in jit.kernels_of(file)}
    called = {name for k in found.values() for name in k.py_func.__code__.co_names}
    return {name: k for name, k in found.items() if name not in called}


def test_recipes_compile_every_kernel_that_is_called():
    for recipe in RECIPES.values():
        recipe()
    names = {info.name for info in pkgutil.iter_modules(kernels.__path__)}
    assert "mean_shift" in names
    for name in sorted(names - {"common"}):  # what several files share is compiled into each
        found = entry_points(name)
        cold = [kernel for kernel in found if not found[kernel].signatures]
        assert cold == [], f"{name}: not compiled"


def test_warmup_says_how_long_it_took(monkeypatch, capsys):
    warmed = []
    for subject in RECIPES:
        monkeypatch.setitem(RECIPES, subject, lambda subject=subject: warmed.append(subject))
    assert run("warmup") == 0
    assert warmed == ["image", "video", "evaluate", "export"]
    assert capsys.readouterr().out.startswith("kernels are ready (")


def test_warmup_compiles_for_one_subject_alone(monkeypatch, capsys):
    warmed = []
    for subject in RECIPES:
        monkeypatch.setitem(RECIPES, subject, lambda subject=subject: warmed.append(subject))
    assert run("warmup", "evaluate") == 0
    assert warmed == ["evaluate"]
    assert capsys.readouterr().out.startswith("kernels are ready (")


def test_warmup_hides_how_its_work_is_shared(capsys):
    with pytest.raises(SystemExit):
        run("warmup", "--help")
    assert "--share" not in capsys.readouterr().out
