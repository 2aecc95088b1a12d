"""Tables as GitHub reads them; whatever would be markup in a cell is escaped."""

from __future__ import annotations

import re
from typing import Final

from zcopy.render import Look
from zcopy.render.cells import cell_text, head_text, own_text
from zcopy.table import NUMERIC, Report, Table

_MARKUP: Final = re.compile(r"[\\`*\[\]<|~]|(?<!\w)_|_(?!\w)|&(?=#?\w+;)")


def render(report: Report, look: Look) -> str:
    return "\n".join(_table(table, look.ascii) for table in report.tables)


def escape(text: str) -> str:
    """`text` so that Markdown shows it as it is."""
    return _MARKUP.sub(lambda match: f"\\{match[0]}", text)


def _prose(text: str) -> str:
    """A paragraph of its own, which must not become a list, a heading or a quotation."""
    escaped = escape(text)
    return f"\\{escaped}" if escaped.startswith((">", "#", "+", "-")) else escaped


def _table(table: Table, ascii: bool) -> str:
    head = [escape(head_text(column, " ", ascii)) for column in table.columns]
    rule = ["---:" if column.kind in NUMERIC else "---" for column in table.columns]
    body = [
        [escape(cell_text(row.get(column.key), column, ascii)) for column in table.columns]
        for row in table.rows
    ]
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, rule, *body)]
    title = [f"**{escape(own_text(table.title, ascii))}**"] if table.title else []
    after = [_prose(own_text(text, ascii)) for text in (table.caption, *table.notes) if text]
    return "\n\n".join([*title, "\n".join(lines), *after]) + "\n"
