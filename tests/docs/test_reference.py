"""Every public name is on the page of the Python reference, and its example runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re

import pytest
from support import ROOT

import aaams_stream

EXAMPLES = [name for name in aaams_stream.__all__ if name != "__version__"]
PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if "generated" not in page.parts]
# Records that others hand out, in whose examples they are seen.
RECORDS = {"EventKind", "Followed", "Scene", "SegmentGraph", "Sighting"}


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


def test_every_public_name_is_in_the_reference(generate):
    others = generate.others
    documented = others.documented()
    assert len(documented) == len(set(documented)) > 60
    left = [name for name in others.public() if name not in documented]
    for name in left:
        assert f":: {name}\n" in others.page() + "\n"
    assert "aaams_stream.segment_video" in documented


def test_what_is_documented_is_there_and_says_what_it_is(generate):
    for name in {*generate.others.documented(), *generate.others.public()}:
        found = resolved(name)
        if inspect.isclass(found) or inspect.isfunction(found):
            assert inspect.getdoc(found), name


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of_a_public_name_runs(name, tmp_path, monkeypatch, compiled):
    monkeypatch.chdir(tmp_path)
    found = getattr(aaams_stream, name)
    text = inspect.getdoc(found) or ""
    assert ">>>" in text or name in RECORDS, f"{name} has no example"
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_sessions_on_pages_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8").replace("```", "")
    example = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    said = []
    runner.run(example, out=said.append)
    assert runner.failures == 0, "".join(said)
