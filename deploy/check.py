"""Checks the files for Kubernetes against the schemas that Kubernetes publishes, and those for KServe against its definitions, whose folder
is the argument (config/crd/full of KServe's repository; without it they are left out).
  pip install kubernetes-validate jsonschema pyyaml && python deploy/check.py [FOLDER]
"""
import pathlib
import sys

import jsonschema
import kubernetes_validate
import yaml

here = pathlib.Path(__file__).parent
for file in sorted((here / "kubernetes").glob("*.yaml")):
    resource = yaml.safe_load(file.read_text())
    if resource["kind"] != "Kustomization":
        kubernetes_validate.validate(resource, "1.33", strict=True)
        print("ok", file.name)

definitions = {}
if len(sys.argv) > 1:
    for file in pathlib.Path(sys.argv[1]).rglob("*.yaml"):
        for crd in yaml.safe_load_all(file.read_text()):
            if crd and crd.get("kind") == "CustomResourceDefinition" and "versions" in crd.get("spec", {}):
                for version in crd["spec"]["versions"]:
                    name = f"{crd['spec']['group']}/{version['name']}"
                    definitions[name, crd["spec"]["names"]["kind"]] = version["schema"]["openAPIV3Schema"]


def strict(schema):
    """The same, where fields that are not listed are errors."""
    if isinstance(schema, dict):
        if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
            schema.setdefault("additionalProperties", False)
        for value in schema.values():
            strict(value)
    return schema


for file in sorted((here / "kserve").glob("*.yaml")) if definitions else ():
    resource = yaml.safe_load(file.read_text())
    metadata = resource.pop("metadata")
    assert metadata["name"]
    schema = strict(definitions[resource["apiVersion"], resource["kind"]])
    jsonschema.validate(resource, schema)
    print("ok", file.name)
