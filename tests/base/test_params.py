"""Settings: ranges, TOML, overrides, and errors that name the key."""

from __future__ import annotations

import dataclasses
import math

import pytest

from aaams_stream.errors import AaamsError, ConfigError
from aaams_stream.params import DomainParams, Params, PostParams, resolve, shipped


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("colour.sigma2=0", "colour.sigma2 must be in 0.01..10000, got 0.0"),
        ("colour.sigma2=-4", "colour.sigma2 must be"),
        ("space.sigma2=1e12", "space.sigma2 must be"),
        ("colour.sigma2=nan", "colour.sigma2 must be finite, got nan"),
        ("space.epsilon2=-1", "space.epsilon2 must be in 0..1e8, got -1.0"),
        ("space.epsilon2=inf", "space.epsilon2 must be finite"),
        ("core.delta=0", "core.delta must be > 0"),
        ("core.max_iterations=0", r"core.max_iterations must be >= 1 and below 2\*\*31, got 0"),
        ("core.max_iterations=2.5", "core.max_iterations must be of type int, got 2.5"),
        ("core.min_merge_share=1", r"core.min_merge_share must be in \[0, 1\), got 1.0"),
        ("post.min_size=0", "post.min_size must be"),
        ("post.min_size=true", "post.min_size must be of type int, got True"),
        ("post.level=-0.1", "post.level must be >= 0, got -0.1"),
        ("post.level=high", "post.level must be of type float, got 'high'"),
        ("post.bhattacharyya=-1", "post.bhattacharyya must be >= 0"),
        ("post.criterion=size", 'post.criterion must be "bhattacharyya" or "size-aware"'),
        ("stream.flow=slow", 'stream.flow must be "fine" or "fast", got \'slow\''),
        ("stream.scale=0.01", "stream.scale must be in 0.05..1, got 0.01"),
        ("stream.scale=1.5", "stream.scale must be in 0.05..1, got 1.5"),
        ("post.criterion=3", "post.criterion must be of type str, got 3"),
    ],
)
def test_a_value_out_of_range_is_named_with_its_key(assignment, message):
    with pytest.raises(ConfigError, match=message):
        Params().overridden([assignment])


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("color.sigma2=3", "unknown table 'color'; the nearest known is 'colour'"),
        ("colour.sigma=3", "unknown key colour.sigma; the nearest known is colour.sigma2"),
        ("post.minsize=3", "unknown key post.minsize; the nearest known is post.min_size"),
        ("sigma2=3", "expected table.key=value, got 'sigma2=3'"),
        ("colour.sigma2", "expected table.key=value, got 'colour.sigma2'"),
        ("colour.=3", "expected table.key=value"),
    ],
)
def test_an_unknown_key_is_an_error_that_names_the_nearest(assignment, message):
    with pytest.raises(ConfigError, match=message):
        Params().overridden([assignment])


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -1.0])
def test_records_made_by_hand_are_checked_too(value):
    with pytest.raises(ConfigError, match=r"colour\.sigma2"):
        Params(colour=DomainParams(value, 1.0))


def test_later_overrides_win_and_integers_serve_as_floats():
    params = Params().overridden(["post.level=3", "post.level=2", 'post.criterion="bhattacharyya"'])
    assert params.post == PostParams(level=2.0, criterion="bhattacharyya")
    assert isinstance(params.post.level, float)
    assert Params().overridden(["post.criterion=bhattacharyya"]).post.criterion == "bhattacharyya"


def test_the_threshold_is_that_of_the_criterion():
    assert PostParams(bhattacharyya=0.3, level=0.7).threshold == 0.7
    assert PostParams(10, "bhattacharyya", 0.3, 0.7).threshold == 0.3


def test_a_file_changes_only_what_it_names(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("[post]\nmin_size = 99\n", encoding="utf-8")
    params = Params.load(path)
    assert params.post == dataclasses.replace(PostParams(), min_size=99)
    assert params.colour == Params().colour
    assert resolve(path) == resolve(str(path)) == params
    assert resolve(params) is params
    assert resolve(None) == Params()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[post\n", "not valid TOML"),
        ("post = 3\n", "post must be a table of keys, got 3"),
        ("[post]\nlvl = 3.0\n", "unknown key post.lvl; the nearest known is post.level"),
        ("[colour]\nsigma2 = 0.0\n", "colour.sigma2 must be"),
    ],
)
def test_a_broken_file_is_named(tmp_path, text, message):
    path = tmp_path / "broken.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=message) as raised:
        Params.load(path)
    assert str(raised.value).startswith(str(path))


def test_a_missing_or_binary_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"no\.toml: cannot read the configuration \(No such"):
        Params.load(tmp_path / "no.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not valid TOML"):
        Params.load(tmp_path / "binary.toml")


def test_settings_survive_the_way_through_plain_tables():
    params = Params().overridden(["post.level=0.25", "colour.epsilon2=9"])
    assert Params().updated(params.to_dict()) == params


def test_what_is_no_settings_is_refused():
    with pytest.raises(ConfigError, match="expected tables of settings, got int"):
        Params().updated(3)
    with pytest.raises(ConfigError, match="got int"):
        Params().overridden([3])


def test_a_configuration_error_is_both_ours_and_a_value_error():
    assert issubclass(ConfigError, AaamsError)
    assert issubclass(ConfigError, ValueError)


def test_settings_cannot_be_changed_in_place():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Params().post.level = 3.0


def test_the_sets_that_come_along_are_found_by_name():
    assert set(shipped()) >= {"default", "realtime", "detail", "coarse"}
    assert Params.load("default") == Params()
    assert Params.load("realtime").stream.scale < 1
    assert resolve("detail") == Params.load(shipped()["detail"])


def test_a_name_that_is_no_set_lists_those_there_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"fast: no such configuration; .* coarse, default, "):
        Params.load("fast")
    (tmp_path / "fast").write_text("[post]\nlevel = 0.5\n", encoding="utf-8")
    assert Params.load("fast").post.level == 0.5
