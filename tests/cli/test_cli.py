"""The command line as a person meets it: what it writes, prints and refuses."""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import subprocess
import sys
import time

import cv2
import numpy as np
import pytest
from support import synthetic

from aaams_stream import __version__, files, jit, kernels, segment_image
from aaams_stream.cli import ROOMS, main, options
from aaams_stream.run.warmup import RECIPES
from aaams_stream.source.demo import POSTER, demo_frame


@pytest.fixture
def photo(tmp_path):
    """Write a small scene as a PNG and return its path."""
    path = tmp_path / "photo.png"
    cv2.imwrite(str(path), cv2.cvtColor(synthetic.discs(48, 72).rgb, cv2.COLOR_RGB2BGR))
    return path


def run(*words):
    return main([str(word) for word in words])


def test_labels_are_written_as_png_and_npy(photo, tmp_path, capsys):
    expected = segment_image(files.read_image(photo)).labels
    assert run("image", photo, "-o", tmp_path / "a.png") == 0
    assert run("image", photo, "-o", tmp_path / "a.npy") == 0
    found = cv2.imread(str(tmp_path / "a.png"), cv2.IMREAD_UNCHANGED)
    assert found.dtype == np.uint16
    np.testing.assert_array_equal(found, expected)
    stored = np.load(tmp_path / "a.npy")
    assert stored.dtype == np.uint32
    np.testing.assert_array_equal(stored, expected)
    out, err = capsys.readouterr()
    assert "a.png: 4 segments, " in out
    assert err == ""


def test_the_demo_needs_nothing_at_hand(tmp_path, capsys):
    labels, overlay = tmp_path / "labels.png", tmp_path / "overlay.png"
    assert run("image", "demo", "-o", labels, "--overlay", overlay) == 0
    assert files.read_image(labels).shape == (240, 320)
    drawn = files.read_image(overlay)
    assert drawn.shape == (240, 320, 3)
    assert 0 < (drawn != demo_frame(POSTER).rgb).any(axis=2).mean() < 0.5


def test_json_is_all_that_stands_on_stdout(photo, tmp_path, capsys):
    assert run("image", photo, "-o", tmp_path / "a.png", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert set(report) == {"labels", "iterations", "seconds"}
    assert report["labels"] == 4
    assert report["iterations"] >= 1
    assert report["seconds"] > 0


def test_quiet_prints_nothing(photo, tmp_path, capfd, monkeypatch):
    jit.compile_ahead()
    monkeypatch.setattr(jit, "is_compiled", lambda kernel: False)
    assert run("image", photo, "-o", tmp_path / "a.png", "--quiet") == 0
    assert capfd.readouterr() == ("", "")


def test_the_first_run_says_why_it_takes_long(photo, tmp_path, capsys, monkeypatch):
    jit.compile_ahead()
    monkeypatch.setattr(jit, "is_compiled", lambda kernel: False)
    assert run("image", photo, "-o", tmp_path / "a.png", "--json") == 0
    out, err = capsys.readouterr()
    assert err == "compiling kernels, once, about a minute …\n"
    assert json.loads(out)["labels"] == 4


def test_a_number_of_segments_can_be_asked_for(photo, tmp_path, capsys):
    assert run("image", photo, "-o", tmp_path / "a.npy", "--segments", 2, "--json") == 0
    assert json.loads(capsys.readouterr().out)["labels"] == 2
    assert np.load(tmp_path / "a.npy").max() == 1


def test_settings_come_from_a_file_and_single_ones_override_it(photo, tmp_path, capsys):
    config = tmp_path / "mine.toml"
    config.write_text("[post]\nlevel = 1000.0\n", encoding="utf-8")
    out = tmp_path / "a.npy"
    assert run("image", photo, "-o", out, "--config", config, "--json") == 0
    assert json.loads(capsys.readouterr().out)["labels"] == 1
    words = ["--config", config, "--set", "post.min_size=20", "--set", "post.level=1"]
    assert run("image", photo, "-o", out, *words, "--json") == 0
    assert json.loads(capsys.readouterr().out)["labels"] == 4


def test_a_plot_comes_with_its_history(photo, tmp_path):
    pytest.importorskip("matplotlib")
    plot = tmp_path / "modes.png"
    assert run("image", photo, "-o", tmp_path / "a.png", "--plot", plot, "--quiet") == 0
    assert files.read_image(plot).shape[0] > 100
    assert files.read_image(tmp_path / "modes-history.png").shape[0] > 100


@pytest.mark.parametrize(
    ("shape", "dtype"), [((1, 1), np.uint8), ((1, 30, 3), np.uint8), ((9, 7, 4), np.uint16)]
)
def test_unusual_images_are_valid(tmp_path, shape, dtype):
    cv2.imwrite(str(tmp_path / "a.png"), np.full(shape, 99, dtype))
    out, overlay = tmp_path / "l.png", tmp_path / "o.png"
    assert run("image", tmp_path / "a.png", "-o", out, "--overlay", overlay, "--quiet") == 0
    assert files.read_image(out).shape == shape[:2]
    assert files.read_image(overlay).shape == (*shape[:2], 3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none.png", "-o", "a.png"], "none.png: no such file"),
        ([".", "-o", "a.png"], "is a folder, expected one image file"),
        (["torn.png", "-o", "a.png"], "torn.png: the image is truncated"),
        (["text.jpg", "-o", "a.png"], "text.jpg: cannot decode the image"),
        (["clip.mp4", "-o", "a.png"], "clip.mp4: is a video, expected one image"),
        (["photo.png"], "the following arguments are required: -o/--output"),
        (["photo.png", "-o", "text.jpg/a.png"], "text.jpg/a.png: text.jpg is not a folder"),
        (["photo.png", "-o", "a.gif"], "the output must end in .png or .npy, got .gif"),
        (["photo.png", "-o", "a"], "got no suffix"),
        (["photo.png", "-o", "photo.png"], "photo.png: is the input; choose another"),
        (["photo.png", "-o", "a.png", "--overlay", "./a.png"], "a.png: is the file of the labels"),
        (["photo.png", "-o", "a.png", "--overlay", "b.xyz"], "b.xyz: the output must end in"),
        (["photo.png", "-o", "a.png", "--plot", "b.xyz"], "b.xyz: the output must end in"),
        (["photo.png", "-o", "a.png", "--segments", "0"], "--segments must be >= 1, got 0"),
        (["photo.png", "-o", "a.png", "--segments", "x"], "invalid int value: 'x'"),
        (["photo.png", "-o", "a.png", "--set", "colour.sigma2=0"], "colour.sigma2 must be in"),
        (["photo.png", "-o", "a.png", "--set", "space.epsilon2=-1"], "space.epsilon2 must be"),
        (["photo.png", "-o", "a.png", "--set", "post.lvl=1"], "the nearest known is post.level"),
        (["photo.png", "-o", "a.png", "--set", "level"], "expected table.key=value, got 'level'"),
        (["photo.png", "-o", "a.png", "--config", "no.toml"], "no.toml: cannot read"),
        (["photo.png", "-o", "a.png", "--bogus"], "unrecognized arguments: --bogus"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_two(photo, words, message, monkeypatch, capfd):
    folder = photo.parent
    monkeypatch.chdir(folder)
    (folder / "torn.png").write_bytes(photo.read_bytes()[:300])
    (folder / "text.jpg").write_text("no picture", encoding="utf-8")
    (folder / "clip.mp4").write_bytes(b"\0\0\0\x18ftypmp42")
    before = sorted(folder.iterdir())
    try:
        code = run("image", *words)
    except SystemExit as stop:  # argparse leaves this way
        code = stop.code
    out, err = capfd.readouterr()
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err
    assert sorted(folder.iterdir()) == before


def test_missing_folders_are_made(photo, tmp_path):
    out, overlay = tmp_path / "a" / "b" / "l.png", tmp_path / "c" / "o.png"
    assert run("image", photo, "-o", out, "--overlay", overlay, "--quiet") == 0
    assert out.is_file()
    assert overlay.is_file()


def test_more_labels_than_a_png_holds_name_the_other_format(photo, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(files, "MOST_PNG_LABELS", 3)
    assert run("image", photo, "-o", tmp_path / "a.png", "--overlay", tmp_path / "o.png") == 2
    assert "holds 3 labels, got 4; write a.npy instead" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["photo.png"]


def test_an_interruption_leaves_nothing_behind(photo, tmp_path, monkeypatch, capsys):
    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("aaams_stream.core.image.segment_image", interrupt)
    assert run("image", photo, "-o", tmp_path / "a.png") == 130
    assert capsys.readouterr().err == "interrupted\n"
    assert [path.name for path in tmp_path.iterdir()] == ["photo.png"]


def test_a_bug_keeps_its_traceback(photo, tmp_path, monkeypatch):
    monkeypatch.setattr("aaams_stream.core.image.segment_image", lambda *a, **k: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run("image", photo, "-o", tmp_path / "a.png")


def test_missing_matplotlib_names_the_extra_and_nothing_is_written(photo, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    folder = photo.parent
    assert run("image", photo, "-o", folder / "a.png", "--plot", folder / "p.png") == 2
    assert 'pip install "aaams-stream[plot]"' in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["photo.png"]


def test_help_is_quick():
    """The best of three, since machines are busy."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "aaams_stream", "--help"], capture_output=True, check=True
        )
        seconds.append(time.perf_counter() - start)
    assert b"image" in done.stdout
    assert min(seconds) < 0.3 * 2  # twice the aim, for slow machines


def test_the_version_is_that_of_the_package(capsys):
    with pytest.raises(SystemExit) as stop:
        run("--version")
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"aaams-stream {__version__}\n"


def test_no_command_is_a_mistake_too(capsys):
    with pytest.raises(SystemExit) as stop:
        run()
    assert stop.value.code == 2
    assert capsys.readouterr().err.startswith("error: the following arguments are required")


def test_every_room_has_commands():
    for room in ROOMS:
        assert callable(importlib.import_module(f"aaams_stream.cli.{room}").add_commands)


def entry_points(file):
    """Return the kernels that Python calls: those that no other kernel of the file calls."""
    found = {kernel.py_func.__name__: kernel for kernel in jit.kernels_of(file)}
    called = {name for k in found.values() for name in k.py_func.__code__.co_names}
    return {name: k for name, k in found.items() if name not in called}


def test_warming_up_compiles_every_kernel_that_is_called():
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


def test_settings_are_read_once_for_all_commands():
    parser = argparse.ArgumentParser()
    options.add_settings(parser)
    args = parser.parse_args(["--set", "post.level=0.5"])
    assert options.read_settings(args).post.level == 0.5
