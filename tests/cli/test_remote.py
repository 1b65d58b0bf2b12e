"""Commands with addresses, as a user gives them."""

from __future__ import annotations

import json

import obstore
import pytest
from obstore.store import from_url
from support.buckets import objects
from support.clips import write_clip
from support.commands import run
from support.volumes import files

from aaams_stream.source.demo import demo_frame

pytestmark = pytest.mark.campaign

COUNT = 9


@pytest.fixture
def film(bucket, tmp_path):
    """Put some frames of the demo into the bucket; return their address."""
    path = write_clip(tmp_path / "film.mkv", [demo_frame(t).rgb for t in range(COUNT)], rate=24)
    obstore.put(from_url(bucket), "film.mkv", path.read_bytes())
    return f"{bucket}/film.mkv"


def told(capsys):
    return json.loads(capsys.readouterr().out)


def test_a_film_in_a_bucket_becomes_a_volume_there_that_all_commands_take(
    film, bucket, tmp_path, capsys
):
    volume = f"{bucket}/film.zarr"
    assert run("segment", film, "-o", volume, "--with-video", "--json") == 0
    summary = told(capsys)
    assert summary["store"] == volume
    assert summary["frames"] == COUNT
    assert run("segment", film, "-o", tmp_path / "film.zarr", "--with-video", "--json") == 0
    assert told(capsys)["size"] == summary["size"]
    assert objects(volume) == files(tmp_path / "film.zarr")
    assert run("segment", film, "-o", volume, "--with-video", "--resume", "--quiet") == 0

    assert run("info", volume, "--json") == 0
    facts = told(capsys)
    assert facts["volume"] == volume
    assert facts["bytes"] == summary["size"]
    assert facts["source"] == film
    assert run("check", volume, "--quiet") == 0
    assert run("render", volume, "-o", tmp_path / "film.mp4", "--quiet") == 0
    assert run("render", volume, "-o", tmp_path / "b.mp4", "--source", film, "--quiet") == 0
    assert run("export", volume, "--to", "csv", "-o", tmp_path / "tables", "--quiet") == 0
    assert run("objects", volume, "--quiet") == 0
    assert run("levels", volume, "--materialise", "5", "--quiet") == 0
    assert run("follow", volume, "--click", "160,120", "-o", tmp_path / "seen", "--quiet") == 0
    assert run("pack", volume, f"{bucket}/packed.zarr", "--quiet") == 0
    assert run("check", f"{bucket}/packed.zarr", "--quiet") == 0


def test_a_volume_begun_from_a_copy_here_goes_on_with_the_film_in_a_bucket(film, tmp_path):
    assert run("segment", tmp_path / "film.mkv", "-o", tmp_path / "a.zarr", "--quiet") == 0
    assert run("segment", film, "-o", tmp_path / "a.zarr", "--resume", "--quiet") == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["segment", "demo", "-o", "https://example.org/a.zarr"], "the web is only read"),
        (["segment", "demo", "-o", "ftp://example.org/a.zarr"], "nothing is known of such"),
        (["segment", "demo", "-o", "s3://films"], "a whole bucket is no volume"),
        (["segment", "s3://films/none.mp4", "-o", "a.zarr"], "there is no such file"),
        (["segment", "s3://films", "-o", "a.zarr"], "expected the address of a file"),
        (["check", "--repair", "s3://films/none.zarr"], "no such volume"),
        (["batch", "a", "-o", "s3://films/all"], "is an address"),
        (["image", "s3://films/a.png", "-o", "a.npy"], "is an address"),
        (["render", "s3://films/none.zarr", "-o", "a.mp4"], "no such volume"),
        (["pack", "s3://films/none.zarr", "a.zarr"], "no such volume"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(words, message, bucket, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    write_clip(tmp_path / "a/a.mkv", [demo_frame(0).rgb])
    assert run(*words) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ")
    assert message in error
    assert {entry.name for entry in tmp_path.iterdir()} == {"a"}


def test_a_volume_in_a_bucket_is_not_repaired_there(film, bucket, capsys):
    volume = f"{bucket}/film.zarr"
    assert run("segment", film, "-o", volume, "--duration", "0.1", "--quiet") == 0
    obstore.delete(from_url(volume), "time/c/0")
    assert run("check", volume, "--repair", "--quiet") == 2
    assert "is mended only as a folder here" in capsys.readouterr().err
