"""The types of the client libraries, made from the server's /openapi.json:  generate.py DOCUMENT --check|--write

    /openapi.json ─▶ models ─┬▶ python/src/tidegate/models.py
                             ├▶ typescript/src/models.ts
                             └▶ go/models.go                    (through gofmt)

Promise: the checked-in files are what this program writes; with --check it says which are not, and fails.
Why a program of ours: in TypeScript an amount must be a bigint, in Go a total must hold more than 64 bits, and the
document is OpenAPI 3.1 (docs/decisions/0017-clients.md).
"""

import dataclasses
import json
import pathlib
import subprocess
import sys
import textwrap

HERE = pathlib.Path(__file__).parent
COLUMNS = 116

# What clients send and get, with the names that clients give it. What these refer to comes along.
REQUESTS = {"OpenBody": "AccountRequest", "TransferBody": "TransferRequest", "HoldBody": "HoldRequest"}
ANSWERS = {
    "AccountBody": "Account",
    "BalanceAtBody": "BalanceAt",
    "OutcomeBody": "Outcome",
    "RowBody": "HistoryRow",
    "ChangeBody": "Change",
    "AuditBody": "Audit",
    "TokenBody": "Token",
    "TransferStateBody": "TransferState",
    "HoldStateBody": "HoldState",
    "AssetBody": "Asset",
}
# Names of what is referred to, where the server's own would mislead; others lose `Body`.
NAMES = {
    "KindWord": "AccountKind",
    "StatusWord": "AccountStatus",
    "HoldWord": "HoldStatus",
    "RowWord": "RowKind",
    "OutcomeWord": "OutcomeKind",
}
# Totals that the server keeps in 128 bits.
WIDE = {"credited", "debited", "sum", "in_transit", "issued"}


@dataclasses.dataclass
class Field:
    name: str
    type: str  # string, boolean, whole (64 bits), wide (more), small (fits 53 bits), map, or the name of a model
    many: bool
    required: bool
    text: str


@dataclasses.dataclass
class Model:
    name: str
    text: str
    fields: list[Field]
    words: list[str]  # of an enumeration
    asked: bool  # sent by clients


def models(document):
    """The models of both tables and all that they refer to, sorted by name."""
    schemas, found = document["components"]["schemas"], {}

    def visit(schema_name, asked=False):
        name = {**NAMES, **REQUESTS, **ANSWERS}.get(schema_name, schema_name.removesuffix("Body"))
        if name not in found:
            schema = schemas.get(schema_name) or sys.exit(f"the document has no schema {schema_name}: see generate.py")
            found[name] = model = Model(name, schema.get("description", ""), [], schema.get("enum", []), asked)
            needed = schema.get("required", [])
            for field, of in sorted(schema.get("properties", {}).items()):
                model.fields.append(read(field, of, field in needed))
            model.fields.sort(key=lambda field: (field.name != "id", not field.required))
        return name

    def read(name, schema, required):
        text, many = schema.get("description", ""), schema.get("type") == "array"
        inner = schema["items"] if many else schema
        if "$ref" in inner:
            return Field(name, visit(inner["$ref"].rpartition("/")[2]), many, required, text)
        kind = inner["type"]
        if kind == "integer":
            kind = "wide" if name in WIDE else "whole" if is_whole(name, inner) else "small"
        return Field(name, "map" if kind == "object" else kind, many, required, text)

    for name in REQUESTS:
        visit(name, asked=True)
    for name in ANSWERS:
        visit(name)
    return [found[name] for name in sorted(found)]


def is_whole(name, schema):
    """Whether an integer may pass 2^53. Times in milliseconds do not, for some hundred thousand years."""
    return schema.get("format") == "int64" and not name.endswith("_ms")


def lines(text, start, first=None):
    """A comment of whole lines."""
    text = " ".join(text.split())
    first = start if first is None else first
    return textwrap.wrap(text, COLUMNS, initial_indent=first, subsequent_indent=start, break_on_hyphens=False)


def python(all_models):
    types = {"string": "str", "boolean": "bool", "whole": "int", "wide": "int", "small": "int", "map": "dict[str, str]"}
    out = ['"""Made from the server\'s /openapi.json by clients/generate.py: do not edit."""', ""]
    out += ["from __future__ import annotations", "", "from dataclasses import dataclass, field"]
    out += ["from typing import Literal, Optional", "", "from .ids import new_id", ""]
    out += [f"__all__ = [{', '.join(repr(model.name) for model in all_models)}]".replace("'", '"')]
    out[-1:] = textwrap.wrap(out[-1], COLUMNS, subsequent_indent="    ")
    for model in all_models:
        if model.words:
            words = ", ".join(f'"{word}"' for word in model.words)
            out += ["", *lines(model.text, "# "), f"{model.name} = Literal[{words}]"]
    for model in all_models:
        if model.words:
            continue
        out += ["", "", "@dataclass(frozen=True, kw_only=True)", f"class {model.name}:"]
        out += lines(model.text + '"""', "    ", '    """')
        for field in model.fields:
            type = types.get(field.type, field.type)
            type = f"list[{type}]" if field.many else type
            default = ""
            if model.asked and field.name == "id" and model.name != "AccountRequest":
                default = " = field(default_factory=new_id)"
            elif not field.required:
                type, default = f"Optional[{type}]", " = None"
            out += ["", *lines(field.text, "    # "), f"    {field.name}: {type}{default}"]
    return "\n".join(out) + "\n"


def typescript(all_models):
    types = {"whole": "bigint", "wide": "bigint", "small": "number", "map": "Record<string, string>"}
    out = ["// Made from the server's /openapi.json by clients/generate.py: do not edit.", ""]
    by_name = {}
    for model in all_models:
        for field in model.fields:
            by_name.setdefault(field.name, set()).add(types.get(field.type, field.type))
    mixed = [name for name, kinds in by_name.items() if {"bigint", "number"} <= kinds]
    if mixed:
        sys.exit(f"{mixed}: whole in one schema and small in another; TypeScript decodes by name")
    names = sorted(name for name, kinds in by_name.items() if "bigint" in kinds)
    out += ["/** Integers of these names are decoded as bigint, whatever their size. */"]
    out += ["export const BIGINT_FIELDS: ReadonlySet<string> = new Set(["]
    out += [f'  "{name}",' for name in names] + ["]);"]
    for model in all_models:
        out += ["", *comment(model.text, "")]
        if model.words:
            out += [f"export type {model.name} = {' | '.join(json.dumps(word) for word in model.words)};"]
            continue
        out += [f"export interface {model.name} {{"]
        for field in model.fields:
            type = types.get(field.type, field.type) + ("[]" if field.many else "")
            out += [*comment(field.text, "  "), f"  {field.name}{'' if field.required else '?'}: {type};"]
        out += ["}"]
    return "\n".join(out) + "\n"


def comment(text, indent):
    wrapped = lines(text + " */", f"{indent} * ", f"{indent}/** ")
    return wrapped


def go(all_models):
    types = {"boolean": "bool", "whole": "int64", "wide": "big.Int", "small": "int64", "map": "map[string]string"}
    has_wide = any(field.type == "wide" for model in all_models for field in model.fields)
    out = ["// Made from the server's /openapi.json by clients/generate.py: DO NOT EDIT.", "", "package tidegate"]
    out += ["", 'import "math/big"'] if has_wide else []
    for model in all_models:
        out += ["", *lines(f"{model.name}: {model.text}", "// ")]
        if model.words:
            out += [f"type {model.name} string", "", f"// The values of {model.name}.", "const ("]
            out += [f'{model.name}{camel(word)} {model.name} = "{word}"' for word in model.words] + [")"]
            continue
        out += [f"type {model.name} struct {{"]
        for field in model.fields:
            type = types.get(field.type, field.type)
            # An absent number is not zero; an absent text is empty.
            pointer = "*" if not field.required and not field.many and field.type in ("whole", "small", "wide") else ""
            pointer = "" if field.name == "code" else pointer
            tag = field.name if field.required else f"{field.name},omitempty"
            text = field.text
            if model.asked and field.name == "id" and model.name != "AccountRequest":
                text += " Empty, a new one is made at each call: give one for what you may send again."
            name = f"{camel(field.name)} {'[]' if field.many else ''}{pointer}{type}"
            out += [*lines(text, "// "), f'{name} `json:"{tag}"`']
        out += ["}"]
    formatted = subprocess.run(["gofmt"], input="\n".join(out) + "\n", text=True, capture_output=True)
    return formatted.stdout if formatted.returncode == 0 else sys.exit(f"gofmt: {formatted.stderr}")


def camel(name):
    return "".join({"id": "ID", "ms": "MS"}.get(word, word.capitalize()) for word in name.split("_"))


def main():
    document = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    all_models = models(document)
    written = {
        HERE / "python/src/tidegate/models.py": python(all_models),
        HERE / "typescript/src/models.ts": typescript(all_models),
        HERE / "go/models.go": go(all_models),
    }
    if sys.argv[2:] == ["--check"]:
        old = [str(path) for path, text in written.items() if not path.exists() or path.read_text("utf-8") != text]
        if old:
            sys.exit(f"{', '.join(old)}: not what the server's document gives; run `make clients-generate`")
        print(f"the {len(all_models)} types of the client libraries are those of the server's document")
        return
    assert sys.argv[2:] == ["--write"], "generate.py DOCUMENT --check|--write"
    for path, text in written.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
