"""How Sphinx builds the documentation's site: `uv run --locked poe docs`.

Sphinx reads the repository itself. So each page is the file that a forge shows, and its links are the same in both.
"""

project = "Lockgate"
author = "Lockgate contributors"
root_doc = "README"
extensions = ["myst_parser", "tests.site.navigation", "tests.site.code_pages", "tests.site.transcript"]
include_patterns = ["*.md", "docs/**.md"]
# no pages are in these, and looking costs time
exclude_patterns = [".*", "bot", "channels", "lockgate", "mutants", "policy", "tests"]
nitpicky = True

# A heading has the anchor that forges give it.
myst_heading_anchors = 6
myst_heading_slug_func = "github"
myst_heading_anchors_html_ids = True

html_theme = "furo"
html_title = "Lockgate"
html_static_path = ["style.css"]
html_css_files = ["style.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
