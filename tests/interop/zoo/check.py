"""Checks recorded messages of a server against the official schema of their revision: check.py SCHEMAS LOG… Prints the
messages that are not of the form of the schema, and how many were checked; exits with 1 if there are any of the first."""

import json
import pathlib
import sys

from jsonschema import validators

VERSION = "io.modelcontextprotocol/protocolVersion"


class Schema:
    """The definitions of a revision."""

    def __init__(self, folder, revision):
        self.root = json.loads(pathlib.Path(folder, f"{revision}.json").read_text())
        self.place = "$defs" if "$defs" in self.root else "definitions"
        self.definitions = self.root[self.place]
        self.validators = {}

    def of_method(self, method):
        """The name of the request or notification of a method."""
        for name, definition in self.definitions.items():
            if definition.get("properties", {}).get("method", {}).get("const") == method:
                return name
        return None

    def result_of(self, method, result):
        if result.get("resultType") == "input_required":
            return "InputRequiredResult"
        request = self.of_method(method)
        name = request.removesuffix("Request") + "Result" if request else ""
        return name if name in self.definitions else "Result"

    def errors(self, name, value):
        if name not in self.validators:
            document = {"$schema": self.root["$schema"], self.place: self.definitions, "$ref": f"#/{self.place}/{name}"}
            self.validators[name] = validators.validator_for(document)(document)
        return [f"{name}: {error.message[:300]} at {list(error.absolute_path)}" for error in self.validators[name].iter_errors(value)]


def check(schemas, log):
    """The errors in a log, and the number of messages that were checked."""
    asked, revision, errors, count = {}, None, [], 0
    # The revision of a session is known with the answer to `initialize`.
    for line in log.read_bytes().splitlines():
        mark, message = line[:1], json.loads(line[1:])
        if mark == b"<":
            if "method" in message and "id" in message:
                version = (message.get("params") or {}).get("_meta", {}).get(VERSION)
                asked[json.dumps(message["id"])] = (message["method"], version)
            continue
        method, version = asked.get(json.dumps(message.get("id")), (None, None)) if "method" not in message else (None, None)
        if method == "initialize" and "result" in message:
            revision = message["result"]["protocolVersion"]
        version = version or revision
        if version is None or not pathlib.Path(schemas, f"{version}.json").exists():
            # The probe of a client that speaks another revision.
            continue
        schema = check.schemas.setdefault(version, Schema(schemas, version))
        count += 1
        errors += schema.errors("JSONRPCMessage", message)
        if "result" in message:
            errors += schema.errors(schema.result_of(method, message["result"]), message["result"])
        elif "method" in message and (name := schema.of_method(message["method"])):
            errors += schema.errors(name, message)
    return errors, count


check.schemas = {}

if __name__ == "__main__":
    folder, *logs = sys.argv[1:]
    failed = False
    for path in map(pathlib.Path, logs):
        errors, count = check(folder, path)
        failed |= bool(errors) or count == 0
        for error in errors[:10]:
            print(f"{path.stem}: {error}")
        if count == 0:
            print(f"{path.stem}: nothing was recorded")
    sys.exit(failed)
