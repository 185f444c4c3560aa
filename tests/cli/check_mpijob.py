"""Whether a manifest on stdin is an MPIJob by the schema in mpijob_schema.yaml: types, required fields, enums, patterns,
and no field that the schema does not know, as an API server with strict validation reads it. Prints the manifest as
JSON. Used by test_export_jobs.sh; exit status 77 without PyYAML.

usage: check_mpijob.py <MANIFEST
"""
import json
import os
import re
import sys

try:
    import yaml
except ImportError:
    print("skipped: python3-yaml is not installed", file=sys.stderr)
    sys.exit(77)

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int}
SIZES = {"int32": 2**31, "int64": 2**63}


def problems(value, schema, place):
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        kind = "integer" if isinstance(value, int) else "string"
    if kind and (not isinstance(value, TYPES[kind]) or (kind == "integer" and isinstance(value, bool))):
        yield f"{place}: expected {kind}, got {value!r}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place}: {value!r} is none of {schema['enum']}"
    if "pattern" in schema and isinstance(value, str) and not re.search(schema["pattern"], value):
        yield f"{place}: {value!r} does not match {schema['pattern']}"
    if kind == "integer" and "format" in schema and not -SIZES[schema["format"]] <= value < SIZES[schema["format"]]:
        yield f"{place}: {value} is no {schema['format']}"
    if kind == "array":
        for i, item in enumerate(value):
            yield from problems(item, schema["items"], f"{place}[{i}]")
    if kind == "object":
        for key in schema.get("required", []):
            if key not in value:
                yield f"{place}: {key} is missing"
        fields, others = schema.get("properties"), schema.get("additionalProperties")
        for key, item in value.items():
            if fields and key in fields:
                yield from problems(item, fields[key], f"{place}.{key}")
            elif others:
                yield from problems(item, others, f"{place}.{key}")
            elif fields is not None:
                yield f"{place}: unknown field {key!r}"


with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "mpijob_schema.yaml"), encoding="utf-8") as file:
    SCHEMA = yaml.safe_load(file)
manifest = yaml.safe_load(sys.stdin)
found = list(problems(manifest, SCHEMA, "manifest"))
if (manifest["apiVersion"], manifest["kind"]) != ("kubeflow.org/v2beta1", "MPIJob"):
    found.append("manifest: another kind or version")
for problem in found:
    print(problem, file=sys.stderr)
print(json.dumps(manifest))
sys.exit(1 if found else 0)
