"""Bar charts of what a benchmark found, as SVG beside its JSON: one bar for each name, with its figure."""

from collections.abc import Mapping
from typing import Final
from xml.sax import saxutils

from bench import results

LABEL_WIDTH, BAR_WIDTH, FIGURE_WIDTH = 300, 360, 90
BAR_HEIGHT, ROW_HEIGHT, HEAD_HEIGHT = 16, 24, 34
COLOURS: Final = ("#4878a8", "#b8bcc4")  # Ours, and others.
OURS: Final = "Berth"


def bars(title: str, unit: str, figures: Mapping[str, float]) -> str:
    """Return a chart; the longest bar is the largest figure."""
    most = max([*figures.values(), 0.0]) or 1.0
    rows = [_row(at, name, value, value / most) for at, (name, value) in enumerate(figures.items())]
    width, height = LABEL_WIDTH + BAR_WIDTH + FIGURE_WIDTH, HEAD_HEIGHT + ROW_HEIGHT * len(rows)
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    font = 'font-family="sans-serif" font-size="13"'
    head = _text(0, HEAD_HEIGHT - 14, f"{title} ({unit})", weight="bold")
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>', head, *rows, "</svg>\n"])


def _row(at: int, name: str, value: float, part: float) -> str:
    top = HEAD_HEIGHT + at * ROW_HEIGHT
    length, colour = round(part * BAR_WIDTH, 1), COLOURS[OURS not in name]
    return "\n".join(
        [
            _text(0, top + BAR_HEIGHT - 3, name),
            f'<rect x="{LABEL_WIDTH}" y="{top}" width="{length}" height="{BAR_HEIGHT}" fill="{colour}"/>',
            _text(LABEL_WIDTH + length + 6, top + BAR_HEIGHT - 3, f"{value:.3g}"),
        ]
    )


def _text(x: float, y: float, words: str, *, weight: str = "normal") -> str:
    return f'<text x="{x:g}" y="{y:g}" font-weight="{weight}">{saxutils.escape(words)}</text>'


def write(name: str, title: str, unit: str, figures: Mapping[str, float]) -> None:
    """Write a chart beside the results."""
    results.write_text(name, bars(title, unit, figures))
