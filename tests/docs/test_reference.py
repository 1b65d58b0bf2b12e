"""Every public name is on the page of the Python reference, and its example runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re

import pytest
from support import ROOT

import aaams_stream

REFERENCE = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
DOCUMENTED = re.findall(
    r"^\.\. (?:auto\w+|py:data):: (aaams_stream\.\S+)$", REFERENCE, re.MULTILINE
)
ROOMS = ("export", "metrics", "live")  # whose __all__ is public, beside that of the package
EXAMPLES = [name for name in aaams_stream.__all__ if name != "__version__"]


def resolved(name):
    """Return what a full name stands for."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for part in parts[end:]:
            found = getattr(found, part)
        return found
    raise AssertionError(name)


def test_every_public_name_is_in_the_reference():
    public = [f"aaams_stream.{name}" for name in EXAMPLES]
    for room in ROOMS:
        module = importlib.import_module(f"aaams_stream.{room}")
        public += [f"aaams_stream.{room}.{name}" for name in module.__all__]
    assert sorted(set(public) - set(DOCUMENTED)) == []
    assert len(DOCUMENTED) == len(set(DOCUMENTED))


@pytest.mark.parametrize("name", DOCUMENTED)
def test_what_is_documented_is_there_and_says_what_it_is(name):
    found = resolved(name)
    if inspect.isclass(found) or inspect.isfunction(found):
        assert inspect.getdoc(found), name


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of_a_public_name_runs(name, tmp_path, monkeypatch, compiled):
    monkeypatch.chdir(tmp_path)
    found = getattr(aaams_stream, name)
    text = inspect.getdoc(found) or ""
    assert ">>>" in text, f"{name} has no example"
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    said = []
    runner.run(example, out=said.append)
    assert runner.failures == 0, "".join(said)


@pytest.mark.parametrize("name", EXAMPLES)
def test_public_functions_tell_their_arguments_and_what_they_return(name):
    found = getattr(aaams_stream, name)
    if not inspect.isfunction(found):
        return
    text = inspect.getdoc(found) or ""
    told = text.partition("Args:")[2]
    for argument in inspect.signature(found).parameters:
        assert re.search(rf"^\s+{argument}: ", told, re.MULTILINE), f"{name}: {argument}"
    assert re.search(r"^(Returns|Yields):", text, re.MULTILINE), name


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_sessions_on_pages_run(page, tmp_path, monkeypatch):
    if "generated" in page.parts:
        pytest.skip("made by the build")
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8").replace("```", "")
    example = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    said = []
    runner.run(example, out=said.append)
    assert runner.failures == 0, "".join(said)
