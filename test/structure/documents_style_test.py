#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Documents are short, name files that exist, and use the terms of the field.

A README, CONTRIBUTING.md and what stands beside them have at most 120 lines of at most 120 characters; a page of docs/, which is reference,
400 lines. What a program writes into a page, between `<!-- NAME: begin -->` and `<!-- NAME: end -->`, has other limits."""
import pathlib
import re
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = ("analyzers", "cli", "docs", "kmodule", "replay", "scripts", "test", "tracer")
LINES, REFERENCE_LINES, WIDTH = 120, 400, 120

# Words that only this project ever used, and what to write instead.
GLOSSARY = {
    "how manieth": "1-based index",
    "waiting part": "wait state",
    "who came last": "last arrival",
    "waits for the root": "1-to-N dependency (late broadcast)",
    "root for all": "N-to-1 dependency (early reduce)",
    "late posting": "late receiver",
    "channel holding": "unexpected-message queue, posted-receive queue",
    "the constraint that bound": "critical predecessor",
    "structure of a collective": "collective algorithm",
    "came through": "propagated",
    "overtaken": "absorbed",
    "given noise": "injected noise",
    "whom it strikes": "the rank that it hits",
    "noise strikes": "noise hits",
    "hand-over of locks": "lock grant order",
    "hand-overs of locks": "lock grant order",
    "shut out": "waited for the lock",
    "deliberate faults": "mutations (for the tests)",
    "deliberate errors": "mutations (for the tests)",
    "to be known": "warnings",
    "now more, now less": "vary",
    "who looks on": "observers",
    "whoever asked first": "first come, first served",
}

PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)*/?")
PLACEHOLDER = re.compile(r"[A-Z]{3,}")  # NAME, DIR
SOURCE = re.compile(r"\.(?:c|h|cpp|hpp|py|txt|md|cmake|json|sh)$")
ELSEWHERE = ("build", "share")  # what is built or installed
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def documents(root):
    found = [root / name for name in ("README.md", "CONTRIBUTING.md") if (root / name).exists()]
    for part in PARTS:
        found += sorted((root / part).rglob("*.md"))
    return found


def written(text):
    """(number, line) without what a program wrote."""
    generated = False
    for number, line in enumerate(text.splitlines(), 1):
        generated = generated and not re.fullmatch(r"<!-- \w+: end -->", line)
        if not generated:
            yield number, line
        generated = generated or re.fullmatch(r"<!-- \w+: begin -->", line) is not None


def prose(text):
    """Without blocks and spans of code, in one line: names in a program are what they are."""
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.DOTALL | re.MULTILINE)
    text = "\n".join(line for line in text.splitlines() if not line.startswith("    "))
    return " ".join(re.sub(r"`[^`]*`", "", text).split()).lower()


def code_spans(text):
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"`([^`\n]+)`", text)


def is_path(span):
    """Of the repository, by its looks; not what is built, installed or of the system, and no example."""
    if "/" not in span or not PATH.fullmatch(span) or PLACEHOLDER.search(re.sub(r"\b(README|CONTRIBUTING|LICENSE)\b", "", span)):
        return False
    first = span.split("/")[0]
    return first in (*PARTS, "..") or (first not in ELSEWHERE and SOURCE.search(span) is not None)


def exists(path, document, root):
    """From the document's folder, or from one above it; a program may be called without its `.cpp`, `.py`."""
    folder = document.parent
    while True:
        if (folder / path).exists() or list(folder.glob(path.rstrip("/") + ".*")):
            return True
        if folder == root:
            return False
        folder = folder.parent


def faults(document, root):
    """(kind, what) of one document."""
    text = document.read_text(encoding="utf-8")
    lines = list(written(text))
    limit = REFERENCE_LINES if document.parent == root / "docs" else LINES
    yield from (("lines", f"line {number} is one more than {limit}") for number, _ in lines[limit:])
    yield from (("width", f"line {number}: {len(line)} characters") for number, line in lines if len(line) > WIDTH)
    words = prose(text)
    yield from (("words", f"“{word}”: write “{better}”") for word, better in GLOSSARY.items() for _ in range(words.count(word)))
    for target in LINK.findall(text):
        path = target.split("#")[0]
        if path and "://" not in target and not (document.parent / path).exists():
            yield "links", f"({target}) does not exist"
    yield from (("files", f"`{span}` does not exist") for span in code_spans(text) if is_path(span) and not exists(span, document, root))


class Documents(unittest.TestCase):
    def test_documents(self):
        found = documents(ROOT)
        self.assertGreater(len(found), 8)
        for document in found:
            with self.subTest(document.relative_to(ROOT).as_posix()):
                self.assertEqual([], [f"{kind}: {what}" for kind, what in faults(document, ROOT)])

    def test_faults_are_found(self):
        """One document with each fault, and one without."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "docs").mkdir()
            (root / "replay").mkdir()
            (root / "replay/engine.cpp").touch()
            good = root / "replay/README.md"
            good.write_text(
                "# replay\n\n`engine.cpp` and `replay/engine.cpp`, [docs](../docs), [web](https://example.org), `/proc/stat`,\n"
                "`build/polter`, `share/doc/x.md`, `overtaken`, `a/b`.\n\n    how manieth\n" + "x" * WIDTH + "\n"
            )
            self.assertEqual(list(faults(good, root)), [])
            self.assertEqual(documents(root), [good])
            good.write_text("x\n" * LINES)
            self.assertEqual(list(faults(good, root)), [])
            page = root / "docs/page.md"
            page.write_text("x\n" * (REFERENCE_LINES - 2) + "<!-- list: begin -->\n" + "x\n" * 99 + "x" * 200 + "\n<!-- list: end -->\n")
            self.assertEqual(list(faults(page, root)), [])
            for kind, text in {
                "lines": "x\n" * (LINES + 1),
                "width": "é" * (WIDTH + 1),
                "words": "It is told how\nManieth it was.",
                "links": "[engine](engines.cpp)",
                "files": "see `replay/engines.cpp`",
            }.items():
                good.write_text(text)
                self.assertEqual([k for k, _ in faults(good, root)], [kind])
            for text in ("see `engine/engines.hpp`", "see `replay/engines`", "see `replay/rules/`"):
                good.write_text(text)
                self.assertEqual([k for k, _ in faults(good, root)], ["files"], text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
