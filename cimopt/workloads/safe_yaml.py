"""Reads YAML text safely: plain tags only, no repeated key, bounded size, and the line of every key.

A file from elsewhere may be broken or hostile: a few hundred bytes of aliases can stand for billions
of values, and a long row of brackets can exhaust the stack. Both are refused before anything is built.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from cimopt.errors import InputError

MAX_BYTES = 16_000_000
MAX_NODES = 1_000_000  # with every alias written out
MAX_DEPTH = 60


class Lines(dict):
    """A mapping that knows the line (from 1) of each of its keys, and its own."""

    line: int = 0
    at: dict


def line_of(mapping: object, key: object = None) -> int:
    """Line of a key, or of the mapping itself; 0 when unknown."""
    if not isinstance(mapping, Lines):
        return 0
    return getattr(mapping, "at", {}).get(key, mapping.line)


def read_text(path: Path, kind: str) -> str:
    """Text of a file of bounded size (a byte order mark is dropped); faults are `InputError`s."""
    try:
        size = path.stat().st_size
        if not path.is_file():  # a device or a pipe may never end
            raise InputError(f"{kind} '{path}' cannot be read: it is no regular file")
        if size > MAX_BYTES:
            raise InputError(f"{kind} '{path}' has {size:,} bytes; at most {MAX_BYTES:,} are read")
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"no {kind} '{path}' (relative paths start at {Path.cwd()})") from None
    except (OSError, ValueError) as error:
        # ValueError: undecodable text, or a path holding a null byte.
        raise InputError(f"{kind} '{path}' cannot be read: {error}") from error


def parse(text: str, where: str) -> object:
    """Plain Python values of one YAML document; mappings are `Lines`. `where` names it in errors."""
    import yaml

    _check_depth(text, where)
    try:
        loader = _loader()(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _expanded(node, {}, where)
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        # ValueError: PyYAML builds impossible dates and numbers with the standard library;
        # TypeError: a list as a key.
        raise InputError(f"{where} is not valid YAML: {' '.join(str(error).split())[:400]}") from None


def _check_depth(text: str, where: str) -> None:
    """Refuse deep nesting before the parser recurses into it.

    Indentation nests at most once per two characters, `- - -` and brackets once per character.
    """
    depth = deepest = 0
    for line in text.splitlines():
        stripped = line.lstrip(" -?\t")
        deepest = max(deepest, line[: len(line) - len(stripped)].count("-"), (len(line) - len(stripped)) // 2)
        for letter in stripped:
            depth += (letter in "[{") - (letter in "]}")
            deepest = max(deepest, depth)
        if deepest > MAX_DEPTH:
            raise InputError(f"{where} is not valid YAML for a workload: nested deeper than {MAX_DEPTH} levels")


def _expanded(node: object, known: dict[int, int | None], where: str) -> int:
    """Number of nodes with every alias written out; the limit and a node inside itself are errors."""
    import yaml

    if id(node) in known:
        size = known[id(node)]
        if size is None:
            raise InputError(f"{where}: a value contains itself (line {node.start_mark.line + 1})")
        return size
    if isinstance(node, yaml.ScalarNode):
        return 1 + len(node.value) // 64  # a long text, repeated, is as large as many values
    known[id(node)] = None
    pairs = node.value if isinstance(node, yaml.MappingNode) else [(child,) for child in node.value]
    size = 1 + sum(_expanded(child, known, where) for pair in pairs for child in pair)
    if size > MAX_NODES:
        raise InputError(f"{where}: more than {MAX_NODES:,} values once aliases are written out")
    known[id(node)] = size
    return size


@cache
def _loader() -> type:
    """PyYAML's safe loader (the C one where built, about ten times faster) refusing repeated keys."""
    import yaml

    class StrictLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        """Safe loader; a mapping with the same key twice is an error, not a silent overwrite."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
            keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            seen: set[str] = set()
            for key in keys:
                if key in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"key '{key}' is given twice", node.start_mark)
                seen.add(key)
            return super().construct_mapping(node, deep=deep)

        def construct_lines(self, node: yaml.MappingNode):
            data = Lines()
            yield data
            at = {k.value: k.start_mark.line + 1 for k, _ in node.value if isinstance(k, yaml.ScalarNode)}
            data.update(self.construct_mapping(node))
            data.line, data.at = node.start_mark.line + 1, at

    StrictLoader.add_constructor("tag:yaml.org,2002:map", StrictLoader.construct_lines)
    return StrictLoader
