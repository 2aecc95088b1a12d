"""Whether the tests with a real server count as passed: none failed, none skipped, and at least as many as there are.

python3 .ci/llama_verdict.py JUNIT.xml
"""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree


def main(path: Path) -> int:
    cases = list(ElementTree.parse(path).iter("testcase"))
    skipped = [(case, why) for case in cases if (why := case.find("skipped")) is not None]
    for case, why in skipped:
        print(f"skipped: {case.get('classname')}::{case.get('name')}: {why.get('message')}")
    if not cases:
        print("no test needs a real server")
    print(f"{len(cases)} tests with a real server, {len(skipped)} skipped")
    return 1 if skipped or not cases else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
