#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Sources are short, lie in small folders, and speak in the terms of the field.

A file has at most 500 lines; a folder at most 15 modules (files of one name count once), in test/ 22. Names, comments, messages and test names
use no word of WORDS. How to write it instead: documents_style_test.py, and the glossary there."""
import collections
import pathlib
import re
import unittest

from documents_style_test import GLOSSARY, ROOT

PARTS = ("analyzers", "cli", "kmodule", "replay", "scripts", "test", "tracer")
CODE = (".c", ".h", ".cpp", ".hpp", ".cc", ".F90", ".py", ".sh")
LINES, MODULES, TEST_MODULES = 500, 15, 22

# Beside the glossary of documents: in sources underscores count as spaces. A word may be what the language itself needs (Rust's `apart` is
# not among them); these never are.
WORDS = {
    r"(?<!lightning )\bstr(?:ikes?|uck|iking)\b": "hits, hit (noise)",
    r"\bhe?ld up\b|\bholds? up\b": "delayed, delays",
    r"\bdoubts?\b": "uncertainty",
    r"\bgiven (?:noise|clocks?|sources?)\b": "injected",
    r"\bhand ?-?overs?\b": "lock grant",
    r"\bstructure of (?:a|the) collective\b": "collective algorithm",
    r"\bshuts? (?:\w+ )out\b": "waits for the lock, excludes",
}
# Of the replay and its tests alone: an exporter does not see an account, and hands out pages.
REPLAY_WORDS = {
    r"\bunseen\b": "unrecorded",
    r"\bhand(?:ed|s|ing)? out\b": "assigned, reassigned (tasks)",
    r"\bovertaken\b": "absorbed",
}
KEYS = ('"overtaken_ns"', '"beyond_doubt"')  # of output and files that others read: they stay
OWN = ("test/structure/documents_style_test.py", "test/structure/sources_style_test.py")


def sources(root):
    for part in PARTS:
        for path in sorted((root / part).rglob("*")):
            if path.suffix in CODE and path.is_file() and "__pycache__" not in path.parts:
                yield path


def spoken(text):
    """Without line breaks inside comments, underscores as spaces."""
    text = re.sub(r"\n[ \t]*(?://|\*(?!/)|#)[ \t]?", " ", text)
    return re.sub(r"[ \t]+", " ", text.replace("_", " ")).lower()


def faults(path, text):
    lines = text.count("\n")
    if lines > LINES:
        yield f"{path}: {lines} lines, at most {LINES}: what is the second thing in it?"
    if path.as_posix() in OWN:
        return
    for key in KEYS:
        text = text.replace(key, "")
    words = spoken(text)
    patterns = {rf"\b{re.escape(word)}\b": better for word, better in GLOSSARY.items() if word != "overtaken"} | WORDS
    if "replay" in path.parts:
        patterns |= REPLAY_WORDS
    for pattern, better in patterns.items():
        for found in re.finditer(pattern, words):
            yield f"{path}: “…{words[max(0, found.start() - 30) : found.end() + 20].strip()}…”: write “{better}”".replace("\n", " ")


def crowded(paths):
    """Folders with too many modules; `paths` relative to the root."""
    modules = collections.defaultdict(set)
    for path in paths:
        modules[path.parent].add(path.name.split(".")[0])
    for folder, names in sorted(modules.items()):
        most = TEST_MODULES if folder.parts[0] == "test" else MODULES
        if len(names) > most:
            yield f"{folder}: {len(names)} modules, at most {most}: which of them are a stage of their own?"


class Sources(unittest.TestCase):
    maxDiff = None

    def test_sources(self):
        found = [path.relative_to(ROOT) for path in sources(ROOT)]
        self.assertGreater(len(found), 300)
        wrong = [fault for path in found for fault in faults(path, (ROOT / path).read_text(encoding="utf-8", errors="replace"))]
        self.assertEqual([], wrong, "\n" + "\n".join(wrong))
        self.assertEqual([], list(crowded(found)))

    def test_faults_are_found(self):
        path = pathlib.Path("replay/engine/engine.cpp")
        self.assertEqual([], list(faults(path, "// The delay of the rank that noise hits.\nint64_t own_delay;\n" * 250)))
        for text in (
            "x\n" * 501,
            "int64_t held_up = 0;\n",
            "// It struck before.\n",
            "// the waiting\n// part of it\n",
            'warn("nobody waited: shut out");\n',
            " * whoever\n * asked first\n",
            "bool given_noise;\n",
        ):
            self.assertTrue(list(faults(path, text)), text)
        folder = pathlib.Path("replay/rules")
        fifteen = [folder / f"r{i}.{suffix}" for i in range(MODULES) for suffix in ("cpp", "hpp")]
        self.assertEqual([], list(crowded(fifteen)))
        self.assertEqual(1, len(list(crowded([*fifteen, folder / "one_more.cpp"]))))


if __name__ == "__main__":
    unittest.main(verbosity=2)
