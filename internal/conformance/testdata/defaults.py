"""Writes the values that attributes have where a node leaves them out, as the onnx package and onnxruntime declare them.

    python defaults.py > defaults.txt          (onnx 1.23.2, onnxruntime 1.32.0)
"""

import json

import onnx
from onnx import helper
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema


def text(value):
    if isinstance(value, bytes):
        value = value.decode()
    if isinstance(value, list):
        return "[" + ",".join(map(text, value)) + "]"
    return json.dumps(value)


def lines():
    schemas = onnx.defs.get_all_schemas_with_history()
    schemas += [s for s in get_all_operator_schema() if s.domain.startswith("com.microsoft")]
    for s in schemas:
        found = []
        for a in s.attributes.values():
            value = a.default_value if hasattr(a, "default_value") else onnx.AttributeProto.FromString(a._default_value)
            if value.type:
                found.append(f"{a.name}={text(helper.get_attribute_value(value))}")
        if found and not s.deprecated:
            yield " ".join([s.domain or "ai.onnx", s.name, f"{s.since_version:02}"] + sorted(found))


print("# Written by defaults.py: domain, operator, version since which its attributes have these defaults.")
print("\n".join(sorted(set(lines()))))
