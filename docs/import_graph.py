"""Draw which module imports which: `python docs/import_graph.py` writes docs/images/imports.svg.

A package such as `_data` is one box. Rows are the layers of pyproject.toml, so lines run downwards
from a module to what it imports. A faint line is implied by others: what it leads to can be reached
by a longer way. Dashed lines are imports inside a function, or for type checkers only. Left out are
lines to the last row, since nearly every module imports from there, and the boxes of HIDDEN.

    python docs/import_graph.py [PROJECT [PICTURE]]     draw another project with the same layout
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "imports.svg"

HIDDEN = {"__main__", "_public"}  # the first runs the command line, the second lists public names

Edges = set[tuple[str, str]]
Point = tuple[float, float]

# All in the units of the drawing.
WIDTH = 960
ROW = 62
BOX = 26
LETTER = 7.9
SHIFT = 45
SWING = 34

STYLE = """
  svg { color: #1f2937; --page: #ffffff; --plain: #f8fafc; --core: #dbeafe; --line: #475569; }
  @media (prefers-color-scheme: dark) {
    svg { color: #e5e7eb; --page: #14181e; --plain: #1e293b; --core: #1e3a5f; --line: #94a3b8; }
  }
  text { fill: currentColor; font: 13px ui-monospace, monospace; text-anchor: middle; }
  rect { fill: var(--plain); stroke: var(--line); }
  rect.page { fill: var(--page); stroke: none; }
  rect.core { fill: var(--core); }
  path { fill: none; stroke: var(--line); }
  .strong { stroke-width: 1.5; }
  .faint { stroke-width: 0.7; opacity: 0.35; }
  .late { stroke-width: 1; stroke: #c2410c; stroke-dasharray: 4 4; opacity: 0.8; }
"""


# What the code says


def layers(project: Path) -> list[list[str]]:
    """The rows of the import contract, from the top."""
    settings = tomllib.loads((project / "pyproject.toml").read_text())
    for contract in settings["tool"]["importlinter"]["contracts"]:
        if contract["name"] == "layers":
            return [re.split(r" [|:] ", row) for row in contract["layers"]]
    raise SystemExit("pyproject.toml has no import contract of the name layers.")


def imports(node: ast.AST, folder: tuple[str, ...], late: bool) -> Iterator[tuple[str, bool]]:
    """The boxes that a piece of code imports from, and whether it does so late.

    `folder` is that of the file, inside the package. Late means inside a function or for types.
    """
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom) and child.level:
            # One dot is the folder of the file, two are the one above it.
            above = folder[: len(folder) + 1 - child.level]
            if above:
                yield above[0], late
            elif child.module:
                yield child.module.split(".")[0], late
            else:
                for alias in child.names:
                    yield alias.name, late
        in_function = isinstance(child, ast.FunctionDef)
        for_types = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
        yield from imports(child, folder, late or in_function or for_types)


def edges(package: Path) -> tuple[Edges, Edges]:
    """Pairs of boxes where the first imports from the second: when it is loaded, and only later."""
    early: Edges = set()
    late: Edges = set()
    for file in sorted(package.rglob("*.py")):
        place = file.relative_to(package).with_suffix("")
        importer = place.parts[0]
        tree = ast.parse(file.read_text())
        for imported, is_late in imports(tree, place.parent.parts, late=False):
            pair = (importer, imported)
            if is_late:
                late.add(pair)
            else:
                early.add(pair)
    return early, late - early


def between(arrows: Edges, sources: set[str], targets: set[str]) -> Edges:
    """Those arrows that join a source to another box, which is a target."""
    return {(a, b) for a, b in arrows if a != b and a in sources and b in targets}


def reachable(start: str, arrows: Edges) -> set[str]:
    """The boxes that one leads to, over any number of arrows."""
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        box = waiting.pop()
        following = {target for source, target in arrows if source == box}
        waiting.extend(following - reached)
        reached |= following
    return reached


def implied(arrows: Edges) -> Edges:
    """The arrows whose end can be reached by a longer way."""
    longer = set()
    for arrow in arrows:
        source, target = arrow
        if target in reachable(source, arrows - {arrow}):
            longer.add(arrow)
    return longer


# Where it is drawn


def spots(row: list[str]) -> dict[str, float]:
    """Places along a row, the same distance apart."""
    distance = WIDTH / (len(row) + 1)
    return {name: distance * number for number, name in enumerate(row, 1)}


def ordered(rows: list[list[str]], arrows: Edges) -> list[list[str]]:
    """The rows with their boxes in an order that makes arrows short."""
    rows = [list(row) for row in rows]
    across: dict[str, float] = {}
    for row in rows:
        across |= spots(row)

    def pull(name: str) -> tuple[float, str]:
        """The mean place of what a box is joined to; boxes at the same place go by their names."""
        joined = [across[b] for a, b in arrows if a == name]
        joined += [across[a] for a, b in arrows if b == name]
        mean = sum(joined) / len(joined) if joined else WIDTH / 2
        return mean, name

    # Each row follows its neighbours, which then follow it; a few rounds settle.
    for _ in range(12):
        for row in rows:
            row.sort(key=pull)
            across |= spots(row)
    return rows


def layout(rows: list[list[str]], arrows: Edges) -> dict[str, Point]:
    """The middle of each box."""
    places = {}
    for number, row in enumerate(ordered(rows, arrows)):
        # Every other row steps aside, so that lines which pass a row do not run behind its box.
        shift = SHIFT if number % 2 == 0 else -SHIFT
        if number == len(rows) - 1:
            shift = 0
        for name, across in spots(row).items():
            places[name] = (round(across + shift, 1), ROW * (number + 0.5))
    return places


# The drawing


def line(kind: str, start: Point, end: Point) -> str:
    """A curve from one box to another; the more rows it passes, the further it swings out."""
    x1, y1 = start
    x2, y2 = end
    rows = abs(y2 - y1) / ROW
    towards = 1 if y2 >= y1 else -1
    y1 += towards * BOX / 2
    if rows == 0:  # neighbours in a row: a bow under it
        y2 = y1
        swing = 0.0
        bend = ROW / 3
    else:
        y2 -= towards * BOX / 2
        side = 1 if x1 + x2 >= WIDTH else -1
        swing = side * min(SWING * (rows - 1), WIDTH / 3)  # none leaves the page
        bend = towards * ROW * rows / 3
    first = f"{x1 + swing:.1f} {y1 + bend:.1f}"
    second = f"{x2 + swing:.1f} {y2 - bend if rows else y2 + bend:.1f}"
    return f'<path class="{kind}" d="M{x1} {y1} C{first} {second} {x2} {y2}"/>'


def box(kind: str, name: str, middle: Point) -> str:
    """A module or a package."""
    x, y = middle
    width = len(name) * LETTER + 16
    corner = f'x="{x - width / 2:.1f}" y="{y - BOX / 2}"'
    size = f'width="{width:.1f}" height="{BOX}" rx="5"'
    return f'<rect class="{kind}" {corner} {size}/><text x="{x}" y="{y + 4.5}">{name}</text>'


def picture(project: Path = ROOT) -> str:
    """The drawing, as the text of an SVG file."""
    rows = [[name for name in row if name not in HIDDEN] for row in layers(project)]
    rows = [row for row in rows if row]
    boxes = {name for row in rows for name in row}
    above = boxes - set(rows[-1])
    early, late = edges(project / "src" / "twosample")
    read_first = next(name for name in boxes if name.strip("_") == "two_sample")
    core = {read_first} | reachable(read_first, between(early, boxes, boxes))
    early = between(early, boxes, above)
    late = between(late, boxes, above)
    faint = implied(early)
    places = layout(rows, early)

    height = ROW * len(rows)
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        "<title>Who imports whom in twosample</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="page" width="{WIDTH}" height="{height}"/>',
    ]
    # Boxes come last: lines run behind them.
    for kind, arrows in (("faint", faint), ("late", late), ("strong", early - faint)):
        drawn += [line(kind, places[a], places[b]) for a, b in sorted(arrows)]
    for name in sorted(boxes):
        kind = "core" if name in core else "other"
        drawn.append(box(kind, name, places[name]))
    drawn.append("</svg>\n")
    return "\n".join(drawn)


if __name__ == "__main__":
    project = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    target = Path(sys.argv[2]) if len(sys.argv) > 2 else PICTURE
    target.write_text(picture(project))
