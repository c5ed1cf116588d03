"""`python -m tests.conventions`: print every breach of the house rules, then the sizes; exit 1 if there is a breach."""

import sys
from pathlib import Path
from statistics import median

from tests.conventions.rules import RULES, findings
from tests.conventions.source import read

root = Path.cwd()
breaches = findings(root)
for breach in breaches:
    print(breach)
lengths = sorted((module.text.count("\n"), module.path) for module in read(root))
print(
    f"{len(RULES)} house rules, {len(breaches)} breaches; {len(lengths)} files, {sum(n for n, _ in lengths)} lines, "
    f"median {median(n for n, _ in lengths):.0f}, longest {lengths[-1][0]} ({lengths[-1][1]})"
)
sys.exit(1 if breaches else 0)
