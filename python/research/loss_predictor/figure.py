"""The picture of the page: recall over false triggers a second."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 380, 300, 46, 34, 40
MOST = 8.0
# Readable on light and on dark pages.
COLOURS = {"cnn": "#3b82c4", "rtt": "#d97706"}
NAMES = {"cnn": "network", "rtt": "round-trip threshold"}
INK = "#808080"


def line(points: list[dict[str, float]], place: Callable[[float, float], tuple[float, float]]) -> str:
    """A predictor's curve, up to the axis' end."""
    shown = sorted((p["false_triggers_per_s"], p["recall"]) for p in points)
    within = [place(x, y) for x, y in shown if x <= MOST]
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in within)


def panel(title: str, found: dict[str, Any], left: float) -> list[str]:
    """One set of runs."""
    width, height = WIDTH - LEFT - 14, HEIGHT - TOP - BOTTOM

    def place(x: float, y: float) -> tuple[float, float]:
        return left + LEFT + x / MOST * width, TOP + (1 - y) * height

    parts = [f'<text x="{left + LEFT}" y="18" class="title">{title}</text>']
    for share in (0, 0.25, 0.5, 0.75, 1):
        (x, y), (end, _) = place(0, share), place(MOST, share)
        parts.append(f'<line x1="{x:.1f}" x2="{end:.1f}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{share:g}</text>')
    for rate in range(0, int(MOST) + 1, 2):
        x, y = place(rate, 0)
        parts.append(f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">{rate}</text>')
    x, y = place(MOST / 2, 0)
    parts.append(f'<text x="{x:.1f}" y="{y + 32:.1f}" text-anchor="middle">false triggers a second</text>')
    (x, low), (_, high) = place(2, 0), place(2, 1)
    parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}" class="limit"/>')
    for number, (name, colour) in enumerate(COLOURS.items()):
        points = line(found[name]["curve"], place)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        x, y = place(MOST, 0.16 - 0.08 * number)
        parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="end" style="fill:{colour}">{NAMES[name]}</text>'
        )
    return parts


def draw(results: dict[str, dict[str, Any]], path: Path) -> None:
    """A panel for each set of runs, side by side."""
    parts = []
    for number, (title, found) in enumerate(results.items()):
        parts += panel(f"recall, {title}", found, number * WIDTH)
    width = WIDTH * len(results)
    style = (
        f"text{{font:12px sans-serif;fill:{INK}}}.title{{font-weight:bold}}"
        f".grid{{stroke:{INK};stroke-opacity:.3}}.limit{{stroke:{INK};stroke-dasharray:4 3}}"
    )
    body = "\n".join(parts)
    text = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" role="img">'
    path.write_text(f"{text}\n<style>{style}</style>\n{body}\n</svg>\n")
