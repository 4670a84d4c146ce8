"""The settings of the documentation site; `make docs` builds it into docs/_build/html without a network."""

import os
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

with (HERE.parent / "pyproject.toml").open("rb") as file:
    ABOUT = tomllib.load(file)["project"]

project = ABOUT["name"]
release = version = ABOUT["version"]
author = "the gsat developers"
copyright = f"2026, {author}"  # the name that Sphinx gives it

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_nb",
    "sphinxcontrib.bibtex",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinxext.opengraph",
    "mathml",
    "plain_docstrings",
]
exclude_patterns = ["_build", "_ext", "**/.ipynb_checkpoints"]

# Markdown. Links such as choose.md#budget go to headings, as they do where the pages are read as files.
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "amsmath"]
myst_heading_anchors = 4

# Tutorials are executed in every build; one that fails, or takes too long, fails the build.
nb_execution_mode = "force"
nb_execution_timeout = 180
nb_execution_raise_on_error = True
nb_merge_streams = True
os.environ["PYTHONWARNINGS"] = "ignore:IProgress not found"  # tqdm would like widgets, which a page has not

# The API reference.
autosummary_generate = False  # the pages in api/ are written by hand, one for each room
autodoc_typehints = "none"  # numpydoc's sections have them in words
autodoc_member_order = "bysource"
autoclass_content = "class"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
default_role = "literal"
add_module_names = False

bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "unsrt"

# Formulas become MathML, which browsers draw by themselves: nothing is fetched from a network.
html_math_renderer = "mathml"

html_theme = "sphinx_book_theme"
html_title = "gsat"
html_context = {"default_mode": "auto"}  # light or dark, as the reader has it
html_static_path = ["_static"]
html_css_files = ["gsat.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_search_summary = False  # browsers let no page on a disk read the others
html_theme_options = {
    "use_download_button": False,
    "use_fullscreen_button": False,
    "navbar_persistent": [],
    "show_toc_level": 2,
    "home_page_in_toc": True,
    "show_navbar_depth": 1,
    "collapse_navbar": True,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

ogp_site_name = "gsat"
ogp_site_url = ""
ogp_social_cards = {"enable": False}
ogp_enable_meta_description = True
