"""Errors: caught as ours or as the builtin ones, and read as one text."""

from __future__ import annotations

import pytest

from aaams_stream import errors
from aaams_stream.errors import AaamsError, ConfigError, SinkError, SourceError

BUILTIN = {ConfigError: ValueError, SourceError: OSError, SinkError: OSError}


@pytest.mark.parametrize("error", BUILTIN)
def test_errors_are_the_builtin_ones_too(error):
    assert issubclass(error, AaamsError)
    assert issubclass(error, BUILTIN[error])


def test_errors_are_all_of_one_family():
    defined = {kind for kind in vars(errors).values() if isinstance(kind, type)}
    assert defined == {AaamsError, *BUILTIN}


@pytest.mark.parametrize("error", BUILTIN)
def test_errors_read_as_the_text_they_were_given(error):
    text = "clip.mkv: no such file"
    with pytest.raises(BUILTIN[error]) as caught:
        raise error(text)
    assert str(caught.value) == text
