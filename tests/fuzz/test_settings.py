"""The first few wrong settings and command lines of the campaigns."""

from __future__ import annotations

import itertools
import sys

import pytest
from support import standin

from aaams_stream.cli import options, preview
from aaams_stream.run import batch
from fuzz import arguments, settings
from fuzz.harness import called, tried, what_is_wrong_with


@pytest.fixture
def _kept(monkeypatch, tmp_path):
    """Have everything put back that the check of command lines replaces."""
    standin.take_over(monkeypatch)
    for owner, name in ((preview, "open_loop"), (batch, "run_batch"), (options, "say_if_cold")):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("seed", range(4))
def test_wrong_settings_are_refused_in_a_line(tmp_path, seed):
    check = settings.Check(tmp_path)
    cases = (case._replace(compute=False) for case in settings.cases(seed))
    wrong = [(c, said) for c in itertools.islice(cases, 150) if (said := tried(check, c))]
    assert wrong == []


@pytest.mark.usefixtures("compiled")
def test_settings_that_are_not_refused_compute(tmp_path):
    check = settings.Check(tmp_path)
    cases = (case._replace(compute=True) for case in settings.cases(100))
    wrong = [(c, said) for c in itertools.islice(cases, 40) if (said := tried(check, c))]
    assert wrong == []


@pytest.mark.usefixtures("_kept")
def test_wrong_command_lines_are_refused_in_a_line(tmp_path):
    check = arguments.Check(tmp_path)
    cases = arguments.cases(0)
    wrong = [(c, said) for c in itertools.islice(cases, 60) if (said := tried(check, c))]
    assert wrong == []


def test_the_campaign_notices_what_a_user_may_not_meet():
    """A net that lets everything through would find nothing either."""
    assert what_is_wrong_with(0, "done", "") is None
    assert what_is_wrong_with(2, "", "error: no\n") is None
    assert what_is_wrong_with(1, "", "Traceback (most recent call last):")
    assert what_is_wrong_with(2, "", "error: a\nb\n")
    assert what_is_wrong_with(2, "", "")
    assert what_is_wrong_with(130, "", "interrupted")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_names_that_no_text_can_hold_are_printed_all_the_same(tmp_path, monkeypatch):
    standin.take_over(monkeypatch)
    monkeypatch.setattr("aaams_stream.cli.options.say_if_cold", lambda quiet: None)
    path = str(tmp_path / "a\udcff.zarr")
    code, out, err = called(["segment", "demo", "-o", path, "--size", "32x24", "--duration", "0.2"])
    assert (code, err) == (0, "")
    assert "a\\udcff.zarr: " in out
    assert called(["info", path])[0] == 0
