# SPDX-License-Identifier: BSD-3-Clause
"""Results against the schemas of docs/."""
import json
import pathlib

try:
    import jsonschema
except ImportError:  # scripts/setup installs python3-jsonschema
    jsonschema = None

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "docs"


def faults(name, value, part=None):
    """Where a result differs from the schema of that name, or from one part of its $defs. Nothing is checked without python3-jsonschema."""
    if jsonschema is None:
        return []
    schema = json.loads((FOLDER / f"{name}.schema.json").read_text(encoding="utf-8"))
    if part:
        schema = {"$schema": schema["$schema"], "$ref": f"#/$defs/{part}", "$defs": schema["$defs"]}
    return [error.message[:200] for error in jsonschema.Draft202012Validator(schema).iter_errors(value)]
