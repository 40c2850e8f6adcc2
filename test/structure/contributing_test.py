#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The walks of CONTRIBUTING.md can be walked: what they name is in the sources, the tests that they run exist, the micro trace that they
quote is the one in the repository."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = {".c", ".cpp", ".h", ".hpp", ".py", ".txt", ".cmake"}
PARTS = ("analyzers", "cli", "kmodule", "replay", "scripts", "test", "tracer")
IDENTIFIER = re.compile(r"[A-Za-z_]{2}\w*")
TO_CHOOSE = {"NAME"}  # what the reader puts a name of their own for
BLOCK = re.compile(r"^~~~\n(.*?)^~~~", re.DOTALL | re.MULTILINE)


def words_of_sources():
    words = set()
    for part in PARTS:
        for path in (ROOT / part).rglob("*"):
            if path.suffix in SOURCES and path.is_file() and "contributing_test" not in path.name:
                words.update(re.findall(r"\w+", path.read_text(encoding="utf-8", errors="replace")))
    return words


def identifiers(text):
    """Names in spans of code that stand alone, or are called; no paths, options or commands."""
    for span in re.findall(r"`([^`\n]+)`", BLOCK.sub("", text)):
        name = re.sub(r"\(.*\)$", "", span).rstrip("…")
        for part in re.split(r"::", name):
            if IDENTIFIER.fullmatch(part) and not TO_CHOOSE & set(part.split("_")) and not span.endswith("…"):
                yield part


def test_names():
    """The patterns of all tests that the build declares, as regular expressions: what CMake fills in may be anything."""
    for path in (ROOT / "test").rglob("CMakeLists.txt"):
        text = path.read_text(encoding="utf-8")
        for names in re.findall(r"foreach\(\w+ ([^)]*)\)", text):
            yield from names.split()
        for name in re.findall(r"(?:add_test\(NAME|\w*test\()\s*\"?([\w${}-]+)", text):
            yield re.sub(r"\$\{\w+\}", "VARIABLE", name)


def runs(text):
    """What `ctest -R` is called with."""
    for pattern in re.findall(r"ctest (?:--test-dir build )?-R \"?([\w|-]+)", text):
        yield from pattern.split("|")


def quoted_traces(text):
    for name, block in re.findall(r"`(test/replay/micro/\w+\.txt)`:\n\n~~~\n(.*?)^~~~", text, re.DOTALL | re.MULTILINE):
        yield name, [line for line in block.splitlines() if not line.endswith("…")]


def faults(text, words, tests):
    yield from (f"“{name}” is in no source" for name in identifiers(text) if name not in words)
    for pattern in runs(text):
        if not any(pattern in name or ("VARIABLE" in name and name.split("VARIABLE")[0].startswith(pattern)) for name in tests):
            yield f"no test is called “{pattern}”"
    for name, lines in quoted_traces(text):
        there = (ROOT / name).read_text(encoding="utf-8").splitlines()
        yield from (f"{name} has no line “{line}”" for line in lines if line not in there)


class Contributing(unittest.TestCase):
    def setUp(self):
        self.words, self.tests = words_of_sources(), list(test_names())

    def test_contributing(self):
        text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
        self.assertGreater(len(set(identifiers(text))), 15)
        self.assertGreater(len(list(runs(text))), 2)
        self.assertEqual(1, len(list(quoted_traces(text))))
        self.assertEqual([], list(faults(text, self.words, self.tests)))

    def test_faults_are_found(self):
        trace = "`test/replay/micro/late_sender.txt`:\n\n~~~\nranks 2\n0 100 send 1 7 {}\n~~~\n"
        self.assertEqual([], list(faults("`publish_operations` `NAME` `ctest -R style` " + trace.format(8), self.words, self.tests)))
        wrong = {
            "names": "`" + "publish_" + "nothing_of_this_name`",
            "tests": "ctest -R " + "no_such_test",
            "trace": trace.format(9),
        }
        for kind, text in wrong.items():
            self.assertEqual(1, len(list(faults(text, self.words, self.tests))), kind)


if __name__ == "__main__":
    unittest.main(verbosity=2)
