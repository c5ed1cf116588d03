"""`python -m tests.site FOLDER`: print what a built site would load from elsewhere; exit 1 if there is anything."""

import sys
from pathlib import Path

from tests.site.foreign import foreign

site = Path(sys.argv[1])
found = list(foreign(site))
for line in found:
    print(line)
print(f"{site}/index.html: {sum(1 for _ in site.rglob('*.html'))} pages, {len(found)} things from elsewhere")
sys.exit(1 if found else 0)
