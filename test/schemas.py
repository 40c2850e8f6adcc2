# SPDX-License-Identifier: BSD-3-Clause
"""Results against the schemas of docs/."""
import json
import pathlib
import unittest

try:
    import jsonschema
except ImportError:
    jsonschema = None

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "docs"


def faults(name, value, part=None):
    """Where a result differs from the schema of that name, or from one part of its $defs."""
    if jsonschema is None:
        raise unittest.SkipTest("no python3-jsonschema; scripts/setup installs it")
    schema = json.loads((FOLDER / f"{name}.schema.json").read_text(encoding="utf-8"))
    if part:
        schema = {"$schema": schema["$schema"], "$ref": f"#/$defs/{part}", "$defs": schema["$defs"]}
    return [error.message[:200] for error in jsonschema.Draft202012Validator(schema).iter_errors(value)]
