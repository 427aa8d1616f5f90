"""Panels of lines over logarithmic axes, as SVG: what several ways cost, over the size of what they are given."""

import math

COLOURS = ["#1f6fb4", "#d98c00", "#c0392b", "#2f8f4e", "#7b4fa3", "#777777"]
WIDTH, HEIGHT, MARGIN, LEGEND = 330, 230, 56, 130
ACROSS = 3  # panels in a row, at most


def log_plot(panels):
    """panels: [(title, name of the x axis, {name of a line: {x: y}})]; what is not above 0 is left out.

    A panel's fourth part, (low, high, step), makes the y axis a linear one. A line "NAME, more" beside "NAME" is dashed in its colour.
    """
    step, row = WIDTH + LEGEND + MARGIN, HEIGHT + 2 * MARGIN
    across = math.ceil(len(panels) / math.ceil(len(panels) / ACROSS))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{MARGIN + step * across}" height="{row * math.ceil(len(panels) / across)}" '
           'font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="white"/>']
    for place, panel in enumerate(panels):
        out += [f'<g transform="translate(0 {row * (place // across)})">', *_panel(MARGIN + step * (place % across), *panel), "</g>"]
    return "\n".join(out) + "\n</svg>\n"


def text(x, y, anchor, what, colour="black"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{what}</text>'


def _panel(left, title, axis, lines, linear=None):
    points = [(x, y) for line in lines.values() for x, y in line.items() if y > 0]
    columns = sorted({x for x, _ in points})
    low = math.floor(math.log10(min(y for _, y in points)))
    high = max(math.ceil(math.log10(max(y for _, y in points))), low + 1)
    ticks = [10.0 ** power for power in range(low, high + 1)]
    height = math.log10
    if linear:
        low, high, step = linear
        ticks = [low + step * number for number in range(round((high - low) / step) + 1)]
        height = float
    span = math.log(columns[-1] / columns[0]) if len(columns) > 1 else 1
    across = lambda x: left + 12 + (WIDTH - 24) * math.log(x / columns[0]) / span
    up = lambda y: MARGIN + HEIGHT * (high - height(y)) / (high - low)
    out = [text(left, MARGIN - 14, "start", title),
           f'<rect x="{left}" y="{MARGIN}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="black"/>',
           text(left + WIDTH / 2, MARGIN + HEIGHT + 36, "middle", axis)]
    end = left - MARGIN  # of the last label: those that would overlap it are left out
    for x in columns:
        half = 3.5 * len(str(x)) + 2
        if across(x) - half > end:
            out.append(text(across(x), MARGIN + HEIGHT + 16, "middle", x))
            end = across(x) + half
    for tick in ticks:
        out.append(f'<path d="M{left} {up(tick):.1f}h{WIDTH}" stroke="#ddd"/>')
        out.append(text(left - 6, up(tick) + 4, "end", f"{tick:g}"))
    base = {name: short if (short := name.rsplit(", ", 1)[0]) in lines else name for name in lines}
    colours = list(dict.fromkeys(base.values()))
    for number, (name, line) in enumerate(lines.items()):
        shown = [(across(x), up(y)) for x, y in sorted(line.items()) if y > 0]
        if not shown:
            continue
        colour = COLOURS[colours.index(base[name]) % len(COLOURS)]
        dashes = "" if base[name] == name else ' stroke-dasharray="6 4"'
        out.append(f'<path d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in shown)}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in shown]
        out.append(text(left + WIDTH + 8, MARGIN + 14 + 17 * number, "start", name, colour))
    return out
