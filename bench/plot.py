"""Bar charts as SVG, drawn here: no library, readable on a light and on a dark page."""
from xml.sax.saxutils import escape

STYLE = """
  svg { font-family: system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
  .page { fill: #ffffff; } .ink { fill: #1f2328; } .soft { fill: #59636e; }
  .grid { stroke: #d1d9e0; stroke-width: 1; } .goal { stroke: #1f2328; stroke-width: 2; }
  .c-limit-epoll { fill: #b7bdc5; } .c-limit-uring { fill: #8b949e; } .c-sherd, .c-sherd-2 { fill: #0969da; }
  .c-valkey, .c-sherd-8 { fill: #bf8700; } .c-redis, .c-sherd-32 { fill: #b3436b; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } .ink { fill: #f0f6fc; } .soft { fill: #9198a1; }
    .grid { stroke: #30363d; } .goal { stroke: #f0f6fc; }
    .c-limit-epoll { fill: #59636e; } .c-limit-uring { fill: #7d8590; } .c-sherd, .c-sherd-2 { fill: #4493f8; }
    .c-valkey, .c-sherd-8 { fill: #d29922; } .c-redis, .c-sherd-32 { fill: #db6d94; }
  }
"""
TOP, PLOT_HEIGHT, BOTTOM = 78, 220, 44
LEFT, GAP, RIGHT = 56, 60, 24
GROUP_GAP = 22


def text(x, y, words, css="ink", size=12, anchor="middle", weight="normal"):
    return (f'<text class="{css}" x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{escape(words)}</text>')


def short(value):
    """A number in at most four characters or so."""
    if value >= 1_000_000:
        return f"{value / 1_000_000:.1f}M"
    if value >= 10_000:
        return f"{value / 1000:.0f}k"
    if value >= 1000:
        return f"{value / 1000:.1f}k"
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def tick_step(top):
    """A round step that divides the axis into three to six parts."""
    step = 10.0 ** -6
    while True:
        for factor in (1, 2, 5):
            if top / (step * factor) <= 5:
                return step * factor
        step *= 10


def bar_width(panel):
    return 17 if len(panel["series"]) > 3 else 34


def panel_width(panel):
    series = max(1, len(panel["series"]))
    return len(panel["groups"]) * (series * bar_width(panel) + GROUP_GAP) + GROUP_GAP


def draw_bar(at, width, value, top, css, words):
    height = PLOT_HEIGHT * value / top
    y, middle = TOP + PLOT_HEIGHT - height, at + width / 2
    return [f'<rect class="c-{css}" x="{at + 1}" y="{y:.1f}" width="{width - 2}" height="{height:.1f}" rx="2"><title>{escape(words)}</title></rect>',
            f'<g transform="rotate(-90 {middle + 3:.1f} {y - 4:.1f})">' + text(middle + 3, y - 4, short(value), "soft", 9, "start") + "</g>"]


def draw_axis(panel, x, top):
    parts, step = [], tick_step(top)
    ticks = [step * i for i in range(int(top / step) + 1)]
    for tick in ticks:
        y = TOP + PLOT_HEIGHT * (1 - tick / top)
        parts.append(f'<line class="grid" x1="{x}" x2="{x + panel_width(panel)}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(text(x - 6, y + 4, f"{tick:g}" if tick < 1000 else short(tick), "soft", 11, "end"))
    parts.append(text(x + panel_width(panel) / 2, TOP - 14, panel["title"], "ink", 13, weight="600"))
    return parts


def draw_panel(panel, x):
    """values[series][group] may be None. goals[group] draws a line across sherd's bar, or the whole group without one."""
    goals, width = panel.get("goals", {}), bar_width(panel)
    known = [v for row in panel["values"].values() for v in row.values() if v is not None] + list(goals.values())
    top = (max(known) if known else 1) * 1.12 or 1
    parts = draw_axis(panel, x, top)
    for g, group in enumerate(panel["groups"]):
        start = x + GROUP_GAP + g * (len(panel["series"]) * width + GROUP_GAP)
        end = start + len(panel["series"]) * width
        line = (start, end)
        for s, series in enumerate(panel["series"]):
            value, at = panel["values"].get(series, {}).get(group), start + s * width
            if value is None:
                parts.append(text(at + width / 2, TOP + PLOT_HEIGHT - 4, "–", "soft", 11))
                continue
            parts += draw_bar(at, width, value, top, series, f"{series}, {group}: {short(value)}")
            line = (at, at + width) if series == "sherd" else line
        if group in goals:
            y = TOP + PLOT_HEIGHT * (1 - goals[group] / top)
            parts.append(f'<line class="goal" x1="{line[0] - 4}" x2="{line[1] + 4}" y1="{y:.1f}" y2="{y:.1f}" stroke-dasharray="4 3"/>')
        parts.append(text((start + end) / 2, TOP + PLOT_HEIGHT + 18, group, "ink", 12))
    return parts


def draw_legend(series, y, has_goals):
    parts, x = [], LEFT
    for name in series:
        parts.append(f'<rect class="c-{name}" x="{x}" y="{y - 10}" width="12" height="12" rx="2"/>')
        parts.append(text(x + 17, y, name, "ink", 12, "start"))
        x += 34 + 7 * len(name)
    if has_goals:
        parts.append(f'<line class="goal" x1="{x}" x2="{x + 18}" y1="{y - 4}" y2="{y - 4}" stroke-dasharray="4 3"/>')
        parts.append(text(x + 24, y, "goal for sherd", "ink", 12, "start"))
    return parts


def bars(title, subtitle, panels):
    """panels: [{"title", "groups", "series", "values": {series: {group: number}}, "goals": {group: number}}]"""
    width = LEFT + sum(panel_width(p) for p in panels) + GAP * (len(panels) - 1) + RIGHT
    width = max(width, 560)
    height = TOP + PLOT_HEIGHT + BOTTOM + 10
    parts = [text(LEFT - 36, 24, title, "ink", 16, "start", "600"), text(LEFT - 36, 42, subtitle, "soft", 12, "start")]
    x = LEFT
    for panel in panels:
        parts += draw_panel(panel, x)
        x += panel_width(panel) + GAP
    parts += draw_legend(panels[0]["series"], height - 14, any(p.get("goals") for p in panels))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
            f'aria-label="{escape(title)}"><style>{STYLE}</style><rect class="page" width="{width}" height="{height}" rx="8"/>'
            + "\n".join(parts) + "</svg>\n")
