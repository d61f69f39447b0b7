"""Writes ../schemas.txt: what ONNX's operators take and give, as the onnx package says, and as onnxruntime says of
com.microsoft and of what ONNX had on trial.

    python schemas.py > ../schemas.txt          (onnx 1.23.2, onnxruntime 1.32.0)

Each may live in an environment of its own: PYTHON_ORT names the interpreter that has onnxruntime.
"""

import json
import os
import subprocess
import sys

TENSORS = [
    "float", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16", "double", "uint32", "uint64",
    "complex64", "complex128", "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "uint4", "int4",
    "float4e2m1", "float8e8m0", "uint2", "int2",
]
ATTRIBUTES = {
    "FLOAT": "float", "INT": "int", "STRING": "string", "TENSOR": "tensor", "GRAPH": "graph", "SPARSE_TENSOR": "sparse",
    "TYPE_PROTO": "type", "FLOATS": "floats", "INTS": "ints", "STRINGS": "strings", "TENSORS": "tensors", "GRAPHS": "graphs",
}

# What ONNX had on trial up to opset 9, onnxruntime runs, and the onnx package has forgotten.
ON_TRIAL = [(name, 1) for name in ("Affine", "Crop", "DynamicSlice", "ImageScaler", "MeanVarianceNormalization", "ParametricSoftplus", "Scale", "ScaledTanh",
                                   "ThresholdedRelu")]
ON_TRIAL += [(name, 10) for name in ("Affine", "Crop", "DynamicSlice", "ImageScaler", "ParametricSoftplus", "Scale", "ScaledTanh")]


def type_name(t):
    """tensor(float) → float, seq(tensor(float)) → seq(float), map(int64,tensor(float)) → map(int64,float)"""
    t = t.strip()
    if t in TENSORS:
        return t
    outer, inner = t.split("(", 1)
    inner = inner[:-1]
    if outer == "tensor":
        return inner if inner in TENSORS else None
    if outer == "map":
        key, value = inner.split(",", 1)
        value = type_name(value)
        return value and f"map({key.strip()},{value})"
    if outer in ("seq", "optional"):
        inner = type_name(inner)
        return inner and f"{outer}({inner})"
    return None  # sparse tensors and opaque values are no operands here


def enum_name(v):
    return getattr(v, "name", None) or str(v).split(".")[-1]


def describe(s):
    def formals(list_):
        return [[f.name, getattr(f, "type_str", None) or f.typeStr, enum_name(f.option),
                 bool(getattr(f, "is_homogeneous", getattr(f, "isHomogeneous", True)))] for f in list_]

    return {
        "domain": s.domain or "ai.onnx", "name": s.name, "since": s.since_version, "deprecated": bool(s.deprecated),
        "inputs": formals(s.inputs), "outputs": formals(s.outputs),
        "least": s.min_input, "outs": s.min_output,
        "types": {c.type_param_str: list(c.allowed_type_strs) for c in s.type_constraints},
        "attributes": {a.name: [enum_name(a.type), bool(a.required)] for a in s.attributes.values()},
    }


def contrib():
    from onnxruntime.capi import onnxruntime_pybind11_state as p
    return [describe(s) for s in p.get_all_operator_schema() if s.domain in ("com.microsoft", "com.microsoft.nchwc") or s.domain == "" and (s.name, s.since_version) in ON_TRIAL]


def standard():
    import onnx.defs
    return [describe(s) for s in onnx.defs.get_all_schemas_with_history()]


def formal(f, sets):
    name, t, option, homogeneous = f
    if t not in sets:
        t = type_name(t)
    mark = {"Single": "", "Optional": "?", "Variadic": "*" if homogeneous else "**"}[option]
    return f"{name}{mark}:{t}"


def main():
    if sys.argv[1:] == ["contrib"]:
        json.dump(contrib(), sys.stdout)
        return
    schemas = standard() + json.loads(subprocess.check_output([os.environ.get("PYTHON_ORT", sys.executable), __file__, "contrib"]))
    schemas = [s for s in schemas if all(any(map(type_name, allowed)) for allowed in s["types"].values())]
    schemas.sort(key=lambda s: (s["domain"], s["name"], s["since"]))
    newest = {(s["domain"], s["name"]): s["since"] for s in schemas}
    sets, lines = {}, []
    for s in schemas:
        head = f'{s["domain"]} {s["name"]} {s["since"]}'
        if s["deprecated"] and s["since"] == newest[s["domain"], s["name"]]:
            lines.append(head + " deprecated")
            continue
        types = []
        for var, allowed in sorted(s["types"].items()):
            known = sorted({t for t in map(type_name, allowed) if t}, key=lambda t: (TENSORS.index(t) if t in TENSORS else len(TENSORS), t))
            types.append(f'{var}={sets.setdefault(" ".join(known), len(sets) + 1)}')
        lines.append(" | ".join([
            head,
            " ".join([str(s["least"])] + [formal(f, s["types"]) for f in s["inputs"]]),
            " ".join([str(s["outs"])] + [formal(f, s["types"]) for f in s["outputs"]]),
            " ".join(types),
            " ".join(f"{name}:{ATTRIBUTES[kind]}{'!' if required else ''}" for name, (kind, required) in sorted(s["attributes"].items())),
        ]).rstrip())
    print("# Written by _gen/schemas.py. The first part numbers sets of types. Then a line a version of an operator: domain, name, since |")
    print("# operands that must be there, then name:type of each, ? optional, * any number of one type, ** of any types |")
    print("# the same of results | the set that each type variable ranges over | attributes, ! required.")
    for known, number in sets.items():
        print(f"{number} = {known}")
    print("\n".join(lines))


main()
