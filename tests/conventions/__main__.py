"""`python -m tests.conventions`: print every breach of the house rules and of the budget of words, then the sizes.

Exits with 1 if there is a breach.
"""

import sys
from pathlib import Path
from statistics import median

from tests.conventions.rules import RULES, findings
from tests.conventions.source import read
from tests.conventions.words import budget, counts, differences, word_findings

root = Path.cwd()
breaches = findings(root)
wordy = differences(counts(word_findings(root)), budget(root))
for breach in (*breaches, *wordy):
    print(breach)
lengths = sorted((module.text.count("\n"), module.path) for module in read(root))
print(
    f"{len(RULES)} house rules, {len(breaches)} breaches; {len(wordy)} counts of words differ; "
    f"{len(lengths)} files, {sum(n for n, _ in lengths)} lines, median {median(n for n, _ in lengths):.0f}, "
    f"longest {lengths[-1][0]} ({lengths[-1][1]})"
)
sys.exit(1 if breaches or wordy else 0)
