"""`report.html`: one page, no outside files, that a colleague can open from an e-mail."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cimopt.report.tables import heading, number

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#1b1b1b}
table{border-collapse:collapse;margin:.5rem 0 1.5rem;font-variant-numeric:tabular-nums}
th,td{border:1px solid #ccc;padding:.25rem .6rem;text-align:right}th{background:#f3f5f7}
td:first-child,th:first-child{text-align:left}img{max-width:100%;border:1px solid #ddd}
.state{font-weight:600}code{background:#f3f5f7;padding:0 .3rem}
"""


def write_report(path: Path, result: Mapping[str, Any], plots: Sequence[Path], command: str) -> None:
    """The page for one run, from its `result.json` content."""
    parts = [f"<h1>{_text(result['title'])}</h1>", _facts(result), _designs(result), *map(_picture, plots)]
    parts.append(f"<h2>Run it again</h2><p><code>{_text(command)}</code></p>")
    body = "\n".join(parts)
    page = f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{_text(result['title'])}</title><style>{STYLE}</style><body>{body}</body></html>"
    path.write_text(page)


def _facts(result: Mapping[str, Any]) -> str:
    seconds = result["seconds"]
    rows = [
        ("status", result["status"]),
        ("designs evaluated", f"{result['n_evaluated']} of {result['space_size']:,} in the space"),
        ("feasible / failed", f"{result['n_feasible']} / {result['n_failed']}"),
        ("seed", result["seed"]),
        ("seconds", ", ".join(f"{k} {number(v)}" for k, v in seconds.items())),
        ("versions", ", ".join(f"{k} {v}" for k, v in result["versions"].items())),
    ]
    if result.get("binding_constraint"):
        rows.insert(1, ("binding constraint", result["binding_constraint"]))
    return _table(["", ""], rows)


def _designs(result: Mapping[str, Any]) -> str:
    top = result["top"]
    if not top:
        return "<p>No design was evaluated.</p>"
    score = [f"score ({top[0]['score_unit']})", *[number(one["score"]) for one in top]]
    values = [[heading(name), *[number(one["design"][name]) for one in top]] for name in top[0]["design"]]
    shown = _table(["", *[f"#{k}" for k in range(1, len(top) + 1)]], [score, *values])
    best = top[0]
    metrics = sorted({m for values in best["metrics"].values() for m in values})
    per = [
        [w, number(best["scores_per_workload"].get(w)), *[number(v.get(m)) for m in metrics]]
        for w, v in best["metrics"].items()
    ]
    limits = [
        [k, number(c["amount"]), number(c.get("value")), number(c.get("limit")), c.get("unit", "")]
        for k, c in best["constraints"].items()
    ]
    return (
        f"<h2>Best designs</h2>{shown}<h2>The best one, per workload</h2>{_table(['workload', 'score', *metrics], per)}"
        f"<h2>Its constraints</h2>{_table(['constraint', 'amount over the limit (relative)', 'value', 'limit', 'unit'], limits)}"
    )


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    head = "".join(f"<th>{_text(c)}</th>" for c in columns)
    body = "".join("<tr>" + "".join(f"<td>{_text(v)}</td>" for v in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _picture(path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    return f"<h2>{_text(path.stem.replace('_', ' '))}</h2><img alt='{_text(path.stem)}' src='data:image/png;base64,{data}'>"


def _text(value: Any) -> str:
    return html.escape(str(value))
