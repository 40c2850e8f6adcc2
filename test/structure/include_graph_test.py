#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Folders are stages: no circle of includes between them, and nobody includes another stage's internal header.

A stage is a folder of replay/, tracer/, kmodule/ or analyzers/ with all below it; cli/ is one."""
import collections
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = ("replay", "tracer", "kmodule", "analyzers", "cli")
INCLUDE = re.compile(r'^\s*#\s*include "([^"]+)"', re.MULTILINE)


def stage(path):
    """Of a path relative to the root. The files of a part itself, beside its folders, are a stage too."""
    return "/".join(path.parts[:-1][:2])


def included(name, of, files, by_name):
    """The file that `of` means by `name`; none for what is generated or comes from elsewhere."""
    for candidate in (of.parent / name, pathlib.Path(name)):
        path = pathlib.Path(*resolved(candidate))
        if path in files:
            return path
    same = [path for path in by_name[pathlib.Path(name).name] if path.as_posix().endswith("/" + name)]
    return same[0] if len(same) == 1 else None


def resolved(path):
    parts = []
    for part in path.parts:
        parts = parts[:-1] if part == ".." else [*parts, part]
    return parts


def edges(sources):
    """(including file, included file) between stages; `sources`: text by path."""
    by_name = collections.defaultdict(list)
    for path in sources:
        by_name[path.name].append(path)
    for path, text in sources.items():
        for name in INCLUDE.findall(text):
            target = included(name, path, sources, by_name)
            if target and stage(target) != stage(path):
                yield path, target


def circle(graph):
    """The stages of one circle, in order; empty where there is none."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done:
            return []
        path.append(node)
        for following in sorted(graph.get(node, ())):
            if found := visit(following):
                return found
        path.pop()
        done.add(node)
        return []

    for node in sorted(graph):
        if found := visit(node):
            return found
    return []


def graph_of(pairs):
    graph = collections.defaultdict(set)
    for source, target in pairs:
        graph[stage(source)].add(stage(target))
    return graph


class Includes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.sources = {
            path.relative_to(ROOT): path.read_text(errors="replace")
            for part in PARTS
            for path in (ROOT / part).rglob("*")
            if path.suffix in (".c", ".h", ".cpp", ".hpp") and path.is_file()
        }
        cls.edges = list(edges(cls.sources))

    def test_no_circle(self):
        found = circle(graph_of(self.edges))
        steps = [f"{a} includes {b}" for a, b in self.edges if (stage(a), stage(b)) in zip(found, found[1:])]
        self.assertFalse(found, " -> ".join(found) + "\n" + "\n".join(steps))

    def test_internal_headers_stay_inside(self):
        outside = [f"{a} includes {b}" for a, b in self.edges if b.stem == "internal"]
        self.assertFalse(outside, outside)

    def test_it_sees_includes(self):
        """That the graph is not empty because nothing was resolved."""
        graph = graph_of(self.edges)
        self.assertIn("replay/engine", graph["replay/rules"])
        self.assertIn("kmodule", graph["tracer"] | graph["tracer/write"])

    def test_a_circle_is_found(self):
        sources = {
            pathlib.Path("replay/a/one.cpp"): '#include "replay/b/two.hpp"\n',
            pathlib.Path("replay/b/two.hpp"): '#include "../c/three.hpp"\n',
            pathlib.Path("replay/c/three.hpp"): '#include "one.hpp"\n',
            pathlib.Path("replay/a/one.hpp"): "",
        }
        self.assertFalse(circle(graph_of(edges({k: v for k, v in sources.items() if k.name != "three.hpp"}))))
        sources[pathlib.Path("replay/c/three.hpp")] = '#include "replay/a/one.hpp"\n'
        self.assertEqual(circle(graph_of(edges(sources))), ["replay/a", "replay/b", "replay/c", "replay/a"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
