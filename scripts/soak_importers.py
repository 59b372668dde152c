#!/usr/bin/env python3
"""Damages good files at random and imports them: nothing but clear errors, no hang, bounded memory.

    python scripts/soak_importers.py --minutes 10
    python scripts/soak_importers.py --minutes 1 --seed 7 --also FOLDER    further samples from a folder

A child process does the work, so that even a crash of a library is seen; the file that was being read is
kept. Exit code 1 when something was found.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import resource
import sys
import tempfile
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from soak_samples import samples  # noqa: E402

from cimopt.errors import CimoptError  # noqa: E402
from cimopt.workloads.files import read_any  # noqa: E402
from cimopt.workloads.importers import Options  # noqa: E402
from cimopt.workloads.totals import format_table  # noqa: E402
from cimopt.workloads.writer import to_yaml  # noqa: E402

MAX_SECONDS = 10.0  # for one small file
MAX_MEMORY = 1_500_000_000  # bytes, resident, of the whole process
TOKENS = [
    b"0", b"-1", b"99999999999999999999", b"1e999", b".nan", b"null", b"~", b"[", b"{", b"]", b"}", b"*a", b"&a ", b"<<: ",
    b"!!python/name:os.system", b": ", b"- ", b"\n", b",", b"\x00", b"\xff", b"\xef\xbb\xbf", b"'", b'"', b"1.5", b"true",
    b"instance", b"shape", b"equation", b"\r\n", b"#", b"|", b">", b"%", b"@", b"?", b"N", b"2147483648", b"4294967297",
]  # fmt: skip
SIZES = [0, 1, -1, 2, 3, 7, 2**31 - 1, 2**31, 2**62, -(2**63)]


def damaged(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """A few random edits of bytes."""
    data = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        at, length = rng.randrange(len(data) + 1), rng.choice([1, 1, 2, 8, 40])
        kind = rng.randrange(6)
        if kind == 0 and data:
            data[min(at, len(data) - 1)] = rng.randrange(256)
        elif kind == 1:
            del data[at : at + length]
        elif kind == 2:
            data[at:at] = rng.choice(TOKENS)
        elif kind == 3:
            data[at : at + length] = rng.choice(TOKENS)
        elif kind == 4:
            other = rng.choice(others)
            start = rng.randrange(len(other) + 1)
            data[at:at] = other[start : start + length]
        else:
            data[at:at] = bytes(data[at : at + length]) * rng.choice([1, 2, 50])
    return bytes(data)


def damaged_model(content: bytes, rng: random.Random) -> bytes:
    """Random edits of a model's fields, so that most results still are models."""
    import onnx

    model = onnx.load_model_from_string(content)
    graph = model.graph
    for _ in range(rng.choice([1, 1, 2, 4])):
        _edit_model(model, graph, rng)
    return model.SerializeToString()


def _edit_model(model, graph, rng: random.Random) -> None:
    node = rng.choice(graph.node) if graph.node else None
    kind = rng.randrange(9)
    if kind == 0 and graph.initializer:
        tensor = rng.choice(graph.initializer)
        _edit_list(tensor.dims, rng)
    elif kind == 1 and graph.input:
        shape = rng.choice(graph.input).type.tensor_type.shape
        if shape.dim:
            dim = rng.choice(shape.dim)
            dim.dim_value = rng.choice(SIZES)
    elif kind == 2 and node is not None and node.attribute:
        attribute = rng.choice(node.attribute)
        attribute.i = rng.choice(SIZES)
        _edit_list(attribute.ints, rng)
    elif kind == 3 and node is not None:
        node.op_type = rng.choice(
            [rng.choice(graph.node).op_type, "Resize", "Range", "Tile", "Expand", "Loop", "ConstantOfShape"]
        )
    elif kind == 4 and node is not None:
        names = [n for other in graph.node for n in (*other.input, *other.output)] + [""]
        if node.input:
            node.input[rng.randrange(len(node.input))] = rng.choice(names)
        else:
            node.input.append(rng.choice(names))
    elif kind == 5 and node is not None:
        graph.node.insert(rng.randrange(len(graph.node)), node)
    elif kind == 6 and node is not None:
        del graph.node[rng.randrange(len(graph.node))]
    elif kind == 7 and graph.initializer:
        tensor = rng.choice(graph.initializer)
        tensor.data_type = rng.randrange(-1, 25)
    elif kind == 8 and model.opset_import:
        rng.choice(model.opset_import).version = rng.choice([0, 1, 7, 13, 30, -1])


def _edit_list(numbers, rng: random.Random) -> None:
    if numbers and rng.random() < 0.7:
        numbers[rng.randrange(len(numbers))] = rng.choice(SIZES)
    elif numbers and rng.random() < 0.5:
        numbers.pop()
    else:
        numbers.append(rng.choice(SIZES))


def one_case(path: Path, rng: random.Random) -> None:
    """Import one file as the command does; anything but our own errors goes up."""
    padding = rng.choice([None, "same", "valid", "explicit"]) if path.suffix == ".csv" else None
    allow = path.suffix == ".onnx" and rng.random() < 0.3
    try:
        found = read_any(str(path), Options(padding=padding, allow_unsupported=allow))
        format_table(found.workload)
        to_yaml(found.workload)
    except CimoptError as error:
        if len(str(error)) > 5000 or not str(error):
            raise AssertionError(f"an error of {len(str(error))} characters") from error


def work(folder: Path, seed: int, seconds: float, also: str, beat) -> None:
    """The child's loop; `beat` counts cases, the current file stays in `folder`."""
    resource.setrlimit(resource.RLIMIT_AS, (8 * MAX_MEMORY, 8 * MAX_MEMORY))
    rng = random.Random(seed)
    pool = samples() + _more(also)
    contents = [content for _, content in pool]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        name, content = rng.choice(pool)
        structural = name.endswith(".onnx") and rng.random() < 0.7
        path = folder / name
        path.write_bytes(damaged_model(content, rng) if structural else damaged(content, contents, rng))
        beat.value += 1
        start = time.monotonic()
        try:
            one_case(path, rng)
        except BaseException:
            traceback.print_exc()
            os._exit(3)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if time.monotonic() - start > MAX_SECONDS or memory > MAX_MEMORY:
            sys.stderr.write(f"{path}: {time.monotonic() - start:.1f} s, {memory:,} bytes\n")
            os._exit(4)
        path.unlink()


def _more(folder: str) -> list[tuple[str, bytes]]:
    if not folder:
        return []
    files = [p for p in sorted(Path(folder).rglob("*")) if p.suffix in (".yaml", ".yml", ".csv", ".onnx")]
    return [(p.name, p.read_bytes()) for p in files]


def soak(seconds: float, seed: int, also: str = "") -> tuple[int, str]:
    """(cases done, what was found: "" for nothing)."""
    folder = Path(tempfile.mkdtemp(prefix="soak_importers_"))
    beat = multiprocessing.Value("q", 0)
    child = multiprocessing.Process(target=work, args=(folder, seed, seconds, also, beat))
    child.start()
    last, since = -1, time.monotonic()
    while child.is_alive():
        child.join(0.5)
        if beat.value != last:
            last, since = beat.value, time.monotonic()
        elif time.monotonic() - since > 3 * MAX_SECONDS:
            child.kill()
            return beat.value, f"no end after {3 * MAX_SECONDS:.0f} s; the file is in {folder}"
    if child.exitcode:
        return beat.value, f"the reader ended with {child.exitcode} (see above); the file is in {folder}"
    folder.rmdir()
    return beat.value, ""


def main() -> int:
    parser = argparse.ArgumentParser(description="Import damaged files and look for anything but clear errors.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--also", default="", help="a folder with further samples")
    options = parser.parse_args()
    cases, found = soak(60 * options.minutes, options.seed, options.also)
    print(f"{cases:,} damaged files imported: {found or 'nothing but clear errors'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
