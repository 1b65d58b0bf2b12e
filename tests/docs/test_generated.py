"""Generated pages say something of every setting, every column and every option."""

from __future__ import annotations

import argparse

import numpy as np
import pytest

from aaams_stream import ConfigError, Params
from aaams_stream.cli import build_parser


def test_every_setting_is_shown_at_values_it_takes(generate):
    settings = generate.settings
    assert list(settings.SHOWN) == settings.keys()
    for key, shown in settings.SHOWN.items():
        assert len(shown.values) >= 2
        for value in shown.values:
            Params().overridden([*shown.also, f"{key}={value}"])
        assert settings.default_of(key) in shown.values


def test_ranges_are_those_the_package_refuses_values_beyond(generate):
    settings = generate.settings
    assert settings.range_of("stream.scale") == "in 0.05..1"
    assert settings.range_of("stream.flow") == '"fine" or "fast"'
    for key in settings.keys():  # noqa: SIM118  a function, not a mapping
        assert settings.range_of(key)
    with pytest.raises(ConfigError, match=r"stream\.scale must be in 0\.05\.\.1"):
        Params().overridden(["stream.scale=2"])


def test_a_setting_is_drawn_with_what_it_gave(generate, tmp_path, compiled):
    settings = generate.settings
    told = settings._draw("post.level", settings.SHOWN["post.level"], tmp_path / "level.png")
    counts = [int(word.split(": ")[1].split()[0]) for word in told.rstrip(".").split("; ")]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1]
    assert (tmp_path / "level.png").stat().st_size > 1000


def test_scenes_are_functions_of_their_frame_alone(generate):
    from generate import scenes

    for scene in (scenes.meadow, scenes.passing, scenes.dusk, scenes.running):
        assert scene(3).dtype == np.uint8
        np.testing.assert_array_equal(scene(3), scene(3))


def test_every_column_has_a_unit_and_a_meaning(generate):
    volume = generate.volume
    for table, its in volume.columns().items():
        assert list(volume.MEANING[table]) == list(its), table
        assert all(meaning for _, meaning in volume.MEANING[table].values())
    assert volume.columns()["segments"]["mode"] == "float32 × 5"


def test_the_page_of_the_volume_lists_every_table(generate, compiled):
    page = generate.volume.page()
    for table in generate.volume.MEANING:
        assert f"\n## {table}\n" in page
    assert "| `labels/ids/0` | uint32 | t, y, x |" in page


def test_every_option_of_every_command_is_on_the_page(generate):
    page = generate.commands.page()
    commands = generate.commands.subcommands(build_parser())
    assert len(commands) >= 10
    for name, command in commands.items():
        section = page.split(f"\n## {name}\n")[1].split("\n## ")[0]
        for action in command._actions:
            if isinstance(action, argparse._HelpAction) or action.help is argparse.SUPPRESS:
                continue
            for option in action.option_strings:
                assert f"`{option}" in section, (name, option)


def test_pages_are_left_alone_where_nothing_changed(generate, tmp_path):
    path = tmp_path / "page.md"
    generate.write(path, "as it is")
    before = path.stat().st_mtime_ns
    generate.write(path, "as it is")
    assert path.stat().st_mtime_ns == before
    generate.write(path, "otherwise")
    assert path.read_text(encoding="utf-8") == "otherwise"
