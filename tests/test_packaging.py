"""Recipes of packages say what pyproject.toml says, and copy what there is."""

from __future__ import annotations

import re
import tomllib

import yaml
from support import ROOT

import aaams_stream

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONDA = {"opencv-python": "py-opencv"}  # what conda calls it


def test_the_conda_recipe_needs_what_the_project_needs():
    text = (ROOT / "packaging" / "conda" / "meta.yaml").read_text(encoding="utf-8")
    default = re.search(r'environ.get\("AAAMS_VERSION", "(.+?)"\)', text)
    assert default.group(1) == aaams_stream.__version__
    recipe = yaml.safe_load(re.sub(r"\{%.*?%\}", "", text).replace("{{", "").replace("}}", ""))
    needs = [need.replace(" ", "") for need in recipe["requirements"]["run"]]
    expected = [f"python{PROJECT['requires-python']}"]
    for need in PROJECT["dependencies"]:
        name = re.match(r"[\w-]+", need).group()
        expected.append(need.replace(name, CONDA.get(name, name), 1))
    assert needs == expected
    [script] = recipe["build"]["entry_points"]
    assert script == "aaams-stream = " + PROJECT["scripts"]["aaams-stream"]


def test_the_dockerfile_copies_what_a_build_needs():
    text = (ROOT / "packaging" / "Dockerfile").read_text(encoding="utf-8")
    copied = [name for line in re.findall(r"^COPY (.+) \S+$", text, re.M) for name in line.split()]
    assert copied
    assert all((ROOT / name).exists() for name in copied)
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]
    wanted = {
        "pyproject.toml",
        PROJECT["readme"],
        *PROJECT["license-files"],
        *build["build"]["targets"]["wheel"]["packages"],
        *build["build"]["targets"]["wheel"]["force-include"],
    }
    assert wanted <= set(copied)
