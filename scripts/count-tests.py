# SPDX-License-Identifier: MIT
"""count-tests.py NAME JUNIT.xml LOG: prints each failed case, then one line that counts them.

Both meson and pytest write JUnit files. A run that wrote none counts as one failure."""

import sys
import xml.etree.ElementTree as ET


def main():
    name, junit, log = sys.argv[1:4]
    passed = failed = skipped = 0
    try:
        cases = list(ET.parse(junit).getroot().iter("testcase"))
    except (OSError, ET.ParseError) as e:
        print(f"--- {name}: no results ({e}); the end of {log}:")
        with open(log, errors="replace") as f:
            print("".join(f.readlines()[-40:]), end="")
        print(f"{name}: 0 passed, 1 failed, 0 skipped")
        return
    for case in cases:
        bad = case.find("failure")
        if bad is None:
            bad = case.find("error")
        if bad is not None:
            failed += 1
            print(f"--- {name}: {case.get('classname')} {case.get('name')} failed")
            for part in (bad, case.find("system-out"), case.find("system-err")):
                if part is not None and part.text:
                    print("\n".join(part.text.rstrip().splitlines()[-60:]))
        elif case.find("skipped") is not None:
            skipped += 1
            print(f"    skipped: {case.get('name')}: {case.find('skipped').get('message') or ''}")
        else:
            passed += 1
    print(f"{name}: {passed} passed, {failed} failed, {skipped} skipped")


main()
