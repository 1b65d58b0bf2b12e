"""How Sphinx builds the site: `sphinx-build -W -n docs build/site`, without a network.

Pages under `generated/` are written at the start of a build by the modules of `generate/`: they
read settings, tables and commands off the package itself, so that they cannot drift from it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent))
os.environ.setdefault("MPLBACKEND", "Agg")  # pictures are saved, never shown

from docutils.nodes import SkipNode  # noqa: E402
from latex2mathml.converter import convert  # noqa: E402

from aaams_stream import __version__  # noqa: E402

project = "aaams_stream"
author = "The aaams_stream authors"
copyright = author
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["generate", "gallery", "tutorial_*.png"]
suppress_warnings = ["config.cache"]  # sphinx-gallery's settings hold objects; nothing is lost

# Where a name of another library is written in a signature it stays text: links to their sites
# would need the network. So do types of our own rooms that are not public. What the text of a page
# refers to must be there.
nitpick_ignore_regex = [
    (r"py:.*", r"(?!aaams_stream).*"),
    (r"py:class", r"aaams_stream\.\w+\.\w+.*"),
]

myst_enable_extensions = ["colon_fence", "dollarmath", "attrs_inline"]
myst_heading_anchors = 3

default_role = "code"  # `name` in a docstring
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"
napoleon_google_docstring = True
napoleon_use_ivar = True
napoleon_numpy_docstring = False

html_theme = "pydata_sphinx_theme"
html_title = f"aaams_stream {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
# pages that have no neighbours: nothing to navigate among beside them
html_sidebars = {name: [] for name in ("index", "start", "concepts", "tutorial")}
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system has it
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": True,
    "header_links_before_dropdown": 6,
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "generated/gallery",
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 1000,
    "remove_config_comments": True,
    "write_computation_times": False,
    "show_signature": False,
    "first_notebook_cell": None,
    "default_thumb_file": str(HERE / "levels.png"),
}


html_math_renderer = "mathml"  # which browsers read by themselves: no script from elsewhere


def _inline_math(writer: Any, node: Any) -> None:
    writer.body.append(convert(node.astext()))
    raise SkipNode


def _display_math(writer: Any, node: Any) -> None:
    writer.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise SkipNode


def _write_pages(app: Any) -> None:
    from generate import write_pages

    write_pages(Path(app.srcdir) / "generated")


def setup(app: Any) -> None:
    """Have the generated pages written before Sphinx looks for pages; draw formulas as MathML."""
    app.add_html_math_renderer("mathml", (_inline_math, None), (_display_math, None))
    app.connect("builder-inited", _write_pages, priority=100)
