// SPDX-License-Identifier: BSD-3-Clause
// The timeline: measured above approximated. Drawn from the level of detail whose buckets are about a pixel wide; inside a close-up every
// call, noise event and message. The page sums nothing: a hovered value is a value of the JSON.
import { CloseUp, Delays, Result, Timeline } from "./data";
import { count, el, name, sourceColour, style, time } from "./format";
import { bands, Colours, Index, indexOf, levelFor, paintBands, paintCloseUp, Panel, rowSpan, xOf } from "./paint";
import { colour, Raster } from "./raster";

const left = 74, top = 6, gap = 26, axis = 22, tallest = 320, rowMost = 44;
const mostMessages = 2000;

interface Hit { text: string; way?: number }

export class TimelineView {
  readonly root: HTMLElement;
  private readonly t: Timeline;
  private readonly canvas = el("canvas", { tabindex: "0", role: "img", "aria-describedby": "timeline-help timeline-status" }) as HTMLCanvasElement;
  private readonly status = el("p", { id: "timeline-status", class: "status", role: "status" });
  private readonly tip = el("div", { class: "tip", hidden: "" });
  private begin = 0;
  private end: number;
  private firstRow = 0;
  private rowCount: number;
  private chosen = -1;
  private cursor = -1;
  private queued = false;
  private raster?: Raster;
  private colours?: Colours;
  private readonly cells = new Map<string, Uint32Array>();
  private readonly indices = new Map<CloseUp, Index>();
  private readonly shown: boolean[];
  private path = true;
  private messages = true;
  private readonly wayOf = new Map<string, number>();
  private readonly names: Record<string, string>;
  private readonly panels: boolean[];  // is it the one of the run without noise?

  constructor(result: Result) {
    this.t = result.timeline as Timeline;
    this.names = result.source_names ?? {};
    // Where the noise is unknown, so is the run without it.
    this.panels = result.noise_not_measured ? [false] : [false, true];
    this.end = this.t.span_ns;
    this.rowCount = this.t.rows;
    this.shown = this.t.sources.map((source) => !source.startsWith("os-service:"));
    this.canvas.setAttribute("aria-label", `Timeline of all ranks: the measured run${this.panels.length > 1 ? " above, the run without noise below" : ""}`);
    this.t.delays.rank.forEach((rank, i) => this.wayOf.set(`${rank}/${this.t.delays.enter_ns[i]}/${this.t.delays.leave_ns[i]}`, i));
    this.root = el("div", { class: "timeline" }, this.legend(), this.tools(), el("div", { class: "stage" }, this.canvas, this.tip), this.status);
    this.canvas.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
    this.canvas.addEventListener("keydown", (e) => this.key(e));
    this.canvas.addEventListener("pointerdown", (e) => this.press(e));
    this.canvas.addEventListener("pointermove", (e) => this.hover(e));
    this.canvas.addEventListener("pointerleave", () => (this.tip.hidden = true));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolour());
  }

  sourceName(i: number): string { return name(this.names[this.t.sources[i]] ?? this.t.sources[i]); }
  view(): [number, number] { return [this.begin, this.end]; }
  ranks(): [number, number] { return [this.firstRow * this.t.ranks_per_row, (this.firstRow + this.rowCount) * this.t.ranks_per_row]; }
  recolour(): void {
    this.colours = undefined;
    this.cells.clear();
    this.draw();
  }

  private legend(): HTMLElement {
    const swatch = (variable: string) => {
      const box = el("i", { class: "swatch", "aria-hidden": "true" });
      box.style.background = `var(${variable})`;
      return box;
    };
    const key = (variable: string, text: string, shown: boolean, toggle: () => boolean) => {
      const button = el("button", { type: "button", class: "key", "aria-pressed": String(shown) }, swatch(variable), text);
      button.addEventListener("click", () => {
        button.setAttribute("aria-pressed", String(toggle()));
        this.recolour();
      });
      return el("li", {}, button);
    };
    return el("ul", { class: "legend", "aria-label": "What is drawn" }, el("li", {}, swatch("--mpi"), "in MPI"), el("li", {}, swatch("--wait"), "wait state"),
      ...this.t.sources.map((source, i) => key(sourceColour(source, i), this.sourceName(i), this.shown[i], () => (this.shown[i] = !this.shown[i]))),
      key("--path", "critical path", this.path, () => (this.path = !this.path)), key("--muted", "messages", this.messages, () => (this.messages = !this.messages)));
  }

  private tools(): HTMLElement {
    const button = (label: string, act: () => void) => {
      const b = el("button", { type: "button" }, label);
      b.addEventListener("click", act);
      return b;
    };
    const rows = this.t.rows > 8 ? [button("Fewer ranks", () => this.zoomRows(0.5)), button("More ranks", () => this.zoomRows(2))] : [];
    return el("div", { class: "tools" }, button("Zoom in", () => this.zoom(0.5)), button("Zoom out", () => this.zoom(2)), ...rows,
      button("Whole run", () => this.all()), ...(this.t.delays.rank.length ? [button("Next delay", () => this.next(1)), button("Previous delay", () => this.next(-1))] : []),
      el("span", { id: "timeline-help" }, "Wheel or + − zooms, drag or ← → moves, Shift with wheel or ↑ ↓ selects ranks, n and p go through the delays, Enter follows one to its origin, 0 shows all."));
  }

  show(begin: number, end: number): void {
    const span = Math.min(Math.max(end - begin, 200), this.t.span_ns);
    this.begin = Math.max(0, Math.min(begin, this.t.span_ns - span));
    this.end = this.begin + span;
    this.draw();
  }
  private all(): void {
    this.showRows(0, this.t.rows);
    this.show(0, this.t.span_ns);
  }
  zoom(by: number, at = 0.5): void {
    const span = this.end - this.begin, centre = this.begin + span * at;
    this.show(centre - span * by * at, centre + span * by * (1 - at));
  }
  private showRows(first: number, rows: number): void {
    this.rowCount = Math.min(this.t.rows, Math.max(1, Math.round(rows)));
    this.firstRow = Math.max(0, Math.min(this.t.rows - this.rowCount, Math.round(first)));
    this.draw();
  }
  zoomRows(by: number, at = 0.5): void {
    const rows = Math.max(Math.min(4, this.t.rows), this.rowCount * by);
    this.showRows(this.firstRow + (this.rowCount - rows) * at, rows);
  }

  private width(): number { return this.canvas.clientWidth - left - 8; }
  private wheel(e: WheelEvent): void {
    e.preventDefault();
    const part = (at: number) => Math.min(1, Math.max(0, at)), turned = e.deltaY || e.deltaX;
    const y = (e.offsetY - top) % (this.panel() + gap);
    if (e.shiftKey) this.zoomRows(Math.exp(turned / 300), part(y / this.panel()));
    else if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) this.move(e.deltaX / this.width());
    else this.zoom(Math.exp(e.deltaY / 400), part((e.offsetX - left) / this.width()));
  }
  private move(part: number): void {
    const by = (this.end - this.begin) * part;
    this.show(this.begin + by, this.end + by);
  }
  private moveRows(part: number): void { this.showRows(this.firstRow + Math.sign(part) * Math.max(1, Math.round(this.rowCount * Math.abs(part))), this.rowCount); }
  private key(e: KeyboardEvent): void {
    const act: Record<string, () => void> = {
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), ArrowLeft: () => this.move(-0.2), ArrowRight: () => this.move(0.2),
      ArrowUp: () => (e.shiftKey ? this.zoomRows(0.5) : this.moveRows(-0.25)), ArrowDown: () => (e.shiftKey ? this.zoomRows(2) : this.moveRows(0.25)),
      Home: () => this.show(0, this.end - this.begin), End: () => this.show(this.t.span_ns - (this.end - this.begin), this.t.span_ns),
      "0": () => this.all(), n: () => this.next(1), p: () => this.next(-1), Enter: () => this.choose(Math.max(0, this.cursor)),
      Escape: () => this.choose(-1),
    };
    if (!act[e.key] || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    act[e.key]();
  }
  private press(e: PointerEvent): void {
    const from = e.offsetX, fromY = e.offsetY, begin = this.begin, end = this.end, firstRow = this.firstRow;
    let moved = false;
    this.canvas.setPointerCapture(e.pointerId);
    const drag = (m: PointerEvent) => {
      if (Math.abs(m.offsetX - from) > 3) moved = true;
      if (!moved) return;
      const by = ((from - m.offsetX) / this.width()) * (end - begin);
      this.show(begin + by, end + by);
      if (this.rowCount < this.t.rows) this.showRows(firstRow + ((fromY - m.offsetY) / this.panel()) * this.rowCount, this.rowCount);
    };
    const done = new AbortController();
    this.canvas.addEventListener("pointermove", drag, { signal: done.signal });
    this.canvas.addEventListener("pointercancel", () => done.abort(), { signal: done.signal });
    this.canvas.addEventListener("pointerup", (u) => {
      done.abort();
      const way = moved ? undefined : this.at(u.offsetX, u.offsetY)?.way;
      if (way !== undefined) this.choose(way);
    }, { signal: done.signal });
  }
  private hover(e: PointerEvent): void {
    const hit = this.at(e.offsetX, e.offsetY);
    this.tip.hidden = !hit;
    this.canvas.style.cursor = hit?.way !== undefined ? "pointer" : "grab";
    if (!hit) return;
    this.tip.textContent = hit.text;
    this.tip.style.left = `${Math.max(0, Math.min(e.offsetX + 14, this.canvas.clientWidth - this.tip.offsetWidth - 4))}px`;
    this.tip.style.top = `${e.offsetY + 16}px`;
  }

  private next(by: number): void {
    const n = this.t.delays.rank.length;
    if (n > 0) this.choose((this.cursor + by + n) % n);
  }

  // Shows a delay with the way back to its origin, and the ranks that it passes.
  choose(way: number): void {
    const d = this.t.delays;
    this.chosen = way >= 0 && way < d.rank.length ? way : -1;
    if (this.chosen < 0) return this.draw();
    this.cursor = this.chosen;
    const origin = d.origin[way], steps = this.steps(way);
    const from = Math.min(d.enter_ns[way], ...(origin >= 0 ? [d.origins.at_ns[origin]] : steps.map((s) => d.step.at_ns[s]))), to = d.leave_ns[way];
    const margin = (to - from) * 0.15 + 100, close = this.t.close_ups.find((c) => c.begin_ns <= from && c.end_ns >= to);
    this.show(Math.max(from - margin, close?.begin_ns ?? 0), Math.min(to + margin, close?.end_ns ?? Infinity));
    const passed = [d.rank[way], ...steps.map((s) => d.step.rank[s]), ...(origin >= 0 ? [d.origins.rank[origin]] : [])].map((r) => Math.floor(r / this.t.ranks_per_row));
    const least = Math.min(...passed), rows = Math.max(...passed) - least + 1;
    if (this.t.rows > tallest / 8) this.showRows(least - Math.max(3, rows * 0.1), rows + 2 * Math.max(3, rows * 0.1));
  }
  private steps(way: number): number[] {
    const d = this.t.delays, list: number[] = [];
    for (let s = d.first_step[way], i = 0; i < d.steps[way] && s >= 0; ++i, s = d.step.next[s]) list.push(s);
    return list;
  }
  origin(way: number): string {
    const d = this.t.delays, o = d.origin[way];
    return o < 0 ? "" : `rank ${d.origins.rank[o]}, ${this.sourceName(d.origins.source[o])} by ${name(this.t.culprits[d.origins.culprit[o]])}, ${time(d.origins.duration_ns[o])} at ${time(d.origins.at_ns[o])}`;
  }
  private wayText(): string {
    const d: Delays = this.t.delays, w = this.chosen, p = this.t.places[d.place[w]];
    const head = `Delay of rank ${d.rank[w]} grew by ${time(d.growth_ns[w])} in ${name(p.where)}${p.call_site ? ` called from ${name(p.call_site)}` : ""}.`;
    if (d.origin[w] < 0) return `${head} No noise was found on the way back.`;
    return `${head} Origin: ${this.origin(w)}; noise on the way: ${time(d.noise_ns[w])}, over ${count(d.steps[w])} events${d.complete[w] ? "" : " (it goes further back than shown)"}.`;
  }

  private closeUp(): CloseUp | undefined {
    const span = this.end - this.begin;
    const found = this.t.close_ups.find((c) => c.begin_ns <= this.begin + span * 0.05 && c.end_ns >= this.end - span * 0.05);
    // Calls narrower than a pixel are better seen as sums.
    return found && (span < found.end_ns - found.begin_ns || found.calls.rank.length / this.t.rows < this.width()) ? found : undefined;
  }
  private index(one: CloseUp): Index {
    let index = this.indices.get(one);
    if (!index) this.indices.set(one, (index = indexOf(one, this.wayOf)));
    return index;
  }
  private level() { return levelFor(this.t, (this.end - this.begin) / Math.max(1, this.width())); }
  private panel(): number { return Math.min(tallest, this.t.rows * rowMost); }
  // Both panels begin with the same point of the program: below, time is shifted by the least delay there.
  private shift(): number {
    if (this.begin <= 0) return 0;
    const finest = this.t.levels[0], i = Math.min(finest.buckets - 1, Math.floor(this.begin / finest.bucket_ns));
    let least = this.begin;
    for (const row of finest.delay_ns) if (row[i] < least) least = row[i];
    return least;
  }
  // In device pixels where `scale` is that of the screen, in CSS pixels where it is 1.
  private panelOf(below: boolean, shift: number, scale: number): Panel {
    return { below, x: Math.round(left * scale), y: Math.round((top + (below ? this.panel() + gap : 0)) * scale), width: Math.round(this.width() * scale), height: Math.round(this.panel() * scale),
      begin: this.begin - (below ? shift : 0), end: this.end - (below ? shift : 0), firstRow: this.firstRow, rowCount: this.rowCount, scale };
  }
  private row(rank: number): number { return Math.floor(rank / this.t.ranks_per_row); }

  draw(): void {
    if (this.queued) return;
    this.queued = true;
    requestAnimationFrame(() => {
      this.queued = false;
      this.paint();
    });
  }

  paint(): void {
    const height = top + this.panels.length * (this.panel() + gap) - gap + axis, scale = devicePixelRatio || 1, width = this.canvas.clientWidth;
    this.canvas.style.height = `${height}px`;
    if (this.width() < 20) return;
    const w = Math.round(width * scale), h = Math.round(height * scale);
    if (this.canvas.width !== w || this.canvas.height !== h) {
      this.canvas.width = w;
      this.canvas.height = h;
      this.raster = undefined;
    }
    const g = this.canvas.getContext("2d") as CanvasRenderingContext2D;
    const raster = (this.raster ??= new Raster(w, h));
    const c = (this.colours ??= { mpi: colour(style("--mpi")), wait: colour(style("--wait")), panel: colour(style("--panel")), way: colour(style("--way")),
      sources: this.t.sources.map((source, i) => colour(style(sourceColour(source, i)))), shown: this.shown });
    const close = this.closeUp(), shift = this.shift();
    raster.clear();
    for (const below of this.panels) {
      const panel = this.panelOf(below, shift, scale);
      raster.from = panel.x;
      raster.to = panel.x + panel.width;
      const until = close ? this.closeUntil(close, panel) : panel.x;
      if (until < panel.x + panel.width) this.paintSums(raster, panel, c);
      if (!close) continue;
      raster.to = Math.round(until);
      raster.rect(panel.x, panel.y, until, panel.y + panel.height, c.panel);
      paintCloseUp(raster, this.t, close, this.index(close), panel, c);
    }
    raster.show(g);
    g.setTransform(scale, 0, 0, scale, 0, 0);
    g.font = "12px system-ui, sans-serif";
    for (const below of this.panels) {
      const panel = this.panelOf(below, shift, 1);
      g.save();
      g.beginPath();
      g.rect(panel.x, panel.y - 4, panel.width, panel.height + 8);
      g.clip();
      if (close && this.messages) this.paintMessages(g, close, panel);
      if (!close && !below) this.markCloseUps(g, panel);
      if (this.path) this.paintPath(g, panel);
      if (!below && this.chosen >= 0) this.paintWay(g, panel);
      g.restore();
    }
    this.paintAxes(g, height, shift);
    this.say(close);
  }

  // As far as a close-up has the calls of all ranks, in pixels.
  private closeUntil(close: CloseUp, panel: Panel): number {
    const end = panel.x + panel.width;
    return !panel.below || this.t.whole_run ? end : Math.max(panel.x, Math.min(end, xOf(panel, this.index(close).belowEnd)));
  }
  private paintSums(raster: Raster, panel: Panel, c: Colours): void {
    const level = this.level(), number = Math.min(panel.height, this.rowCount);
    const key = `${level.bucket_ns}/${panel.below}/${this.firstRow}/${this.rowCount}/${number}`;
    let cells = this.cells.get(key);
    if (!cells) {
      if (this.cells.size > 12) this.cells.clear();
      this.cells.set(key, (cells = bands(this.t, level, panel, number, c)));
    }
    paintBands(raster, cells, number, level, panel, c.panel);
  }

  private say(close: CloseUp | undefined): void {
    const [from, to] = this.ranks(), rows = this.rowCount < this.t.rows ? ` Ranks ${from} to ${to - 1}.` : "";
    const range = `${time(this.begin)} to ${time(this.end)} of ${time(this.t.span_ns)}.${rows}`;
    const below = close ? this.panelOf(true, this.shift(), 1) : undefined;
    const shown = close ? `Every call, noise event and message${close.cut ? "; some are missing, there are more than a page can hold" : ""}${this.closeUntil(close, below!) < below!.x + below!.width ? `; without noise from ${time(this.index(close).belowEnd)} on sums over ${time(this.level().bucket_ns)}` : ""}.`
      : `Aggregated: sums over ${time(this.level().bucket_ns)}${this.t.ranks_per_row > 1 ? ` and ${this.t.ranks_per_row} ranks` : ""}${this.rowCount > this.panel() ? "; ranks share lines of pixels, where the greatest noise of a rank is seen" : ""}. ` +
        (this.t.whole_run ? "Zoom in to see single calls." : this.t.close_ups.length === 0 ? (this.panels.length > 1 ? "No noise event cost anything, so there is no close-up of single calls." : "Close-ups of single calls are made around noise events, and none were measured.") : `Single calls are there around the ${count(this.t.close_ups.length)} marked places with the costliest noise.`);
    this.status.textContent = `${this.chosen >= 0 ? `${this.wayText()} ` : ""}${range} ${shown}`;
  }

  private markCloseUps(g: CanvasRenderingContext2D, panel: Panel): void {
    if (this.t.whole_run) return;
    g.fillStyle = style("--accent");
    for (const c of this.t.close_ups) g.fillRect(xOf(panel, c.begin_ns) - 1, panel.y + panel.height + 1, Math.max(3, xOf(panel, c.end_ns) - xOf(panel, c.begin_ns)), 3);
  }

  private paintMessages(g: CanvasRenderingContext2D, one: CloseUp, panel: Panel): void {
    const m = one.messages, lines: [number, number, number, number][] = [];
    const middle = (rank: number) => {
      const [a, b] = rowSpan(panel, this.row(rank));
      return (a + b) / 2;
    };
    const seen = (rank: number) => this.row(rank) >= this.firstRow && this.row(rank) < this.firstRow + this.rowCount;
    for (let i = 0; i < m.from.length; ++i) {
      const sent = m.sent_ns[i] - (panel.below ? m.sent_delay_ns[i] : 0), received = m.received_ns[i] - (panel.below ? m.received_delay_ns[i] : 0);
      if (received < panel.begin || sent > panel.end || !(seen(m.from[i]) || seen(m.to[i]))) continue;
      if (lines.length === mostMessages) return;
      lines.push([xOf(panel, sent), middle(m.from[i]), xOf(panel, received), middle(m.to[i])]);
    }
    g.lineWidth = 0.8;
    g.strokeStyle = style("--muted");
    g.globalAlpha = 0.7;
    g.beginPath();
    for (const [x0, y0, x1, y1] of lines) {
      g.moveTo(x0, y0);
      g.lineTo(x1, y1);
    }
    g.stroke();
    g.globalAlpha = 1;
  }

  private paintPath(g: CanvasRenderingContext2D, panel: Panel): void {
    const p = this.t.critical_path;
    if (this.end - this.begin < 4 * p.bucket_ns) return;
    g.strokeStyle = style("--path");
    g.lineWidth = 1;
    g.globalAlpha = this.t.rows > 100 ? 0.45 : 0.6;
    g.beginPath();
    let up = true;
    (panel.below ? p.after : p.before).forEach((rank, i) => {
      const x = xOf(panel, i * p.bucket_ns), x2 = xOf(panel, (i + 1) * p.bucket_ns);
      if (rank < 0 || x2 < panel.x || x > panel.x + panel.width) { up = true; return; }
      const [a, b] = rowSpan(panel, this.row(rank)), y = (a + b) / 2;
      if (up) g.moveTo(x, y); else g.lineTo(x, y);
      g.lineTo(x2, y);
      up = false;
    });
    g.stroke();
    g.globalAlpha = 1;
  }

  private paintWay(g: CanvasRenderingContext2D, panel: Panel): void {
    const d = this.t.delays, w = this.chosen, o = d.origin[w];
    const point = (at: number, rank: number): [number, number] => {
      const [a, b] = rowSpan(panel, this.row(rank));
      return [xOf(panel, at), (a + b) / 2];
    };
    // With a rim of the background, to be seen on any noise.
    for (const [colour, wider] of [[style("--bg"), 3], [style("--way"), 0]] as [string, number][]) {
      g.strokeStyle = g.fillStyle = colour;
      g.lineWidth = 2.5 + wider;
      g.beginPath();
      g.moveTo(...point(d.leave_ns[w], d.rank[w]));
      for (const s of this.steps(w)) g.lineTo(...point(d.step.at_ns[s], d.step.rank[s]));
      g.stroke();
      g.beginPath();
      g.arc(...point(d.leave_ns[w], d.rank[w]), 4 + wider / 2, 0, 7);
      g.fill();
      if (o < 0) continue;
      const [a, b] = rowSpan(panel, this.row(d.origins.rank[o])), x = xOf(panel, d.origins.at_ns[o]);
      g.strokeRect(x - 2, a, Math.max(6, xOf(panel, d.origins.at_ns[o] + d.origins.duration_ns[o]) - x + 4), Math.max(b - a, 4));
    }
  }

  private paintAxes(g: CanvasRenderingContext2D, height: number, shift: number): void {
    g.fillStyle = style("--muted");
    g.textAlign = "right";
    g.textBaseline = "middle";
    const thick = this.panel() / this.rowCount, each = Math.max(1, Math.ceil(16 / thick));
    for (const below of this.panels) {
      const panel = this.panelOf(below, shift, 1);
      for (let row = this.firstRow; row < this.firstRow + this.rowCount; row += each) g.fillText(`rank ${row * this.t.ranks_per_row}`, left - 8, panel.y + (row - this.firstRow) * thick + Math.max(thick, 12) / 2);
    }
    g.textAlign = "left";
    if (this.panels.length > 1) g.fillText(`Without noise${shift > 0 ? ` (moved right by ${time(shift)})` : ""}`, left, top + this.panel() + gap / 2 + 3);
    const span = this.end - this.begin, rough = span / Math.max(2, this.width() / 120), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough) ?? rough;
    g.textAlign = "center";
    for (let at = Math.ceil(this.begin / step) * step; at <= this.end; at += step) {
      const x = left + ((at - this.begin) / span) * this.width();
      if (x > left + 20 && x < left + this.width() - 20) g.fillText(step < 1e3 ? `${count(Math.round(at))} ns` : tick(at, step), x, height - 9);
    }
  }

  // What lies at a point of the canvas, and where a delay lies, both in CSS pixels.
  at(x: number, y: number): Hit | undefined {
    const shift = this.shift();
    for (const below of this.panels) {
      const panel = this.panelOf(below, shift, 1);
      if (y < panel.y || y >= panel.y + panel.height || x < panel.x || x > panel.x + panel.width) continue;
      const row = this.firstRow + Math.floor(((y - panel.y) / panel.height) * this.rowCount), close = this.closeUp();
      const near = ((panel.end - panel.begin) / panel.width) * 2, at = panel.begin + ((x - panel.x) / panel.width) * (panel.end - panel.begin);
      return close && x < this.closeUntil(close, panel) ? this.itemAt(close, row, at, near, below) : this.bucketAt(row, at, below);
    }
    return undefined;
  }
  placeOf(way: number): { x: number; y: number } {
    const d = this.t.delays, panel = this.panelOf(false, this.shift(), 1), [a, b] = rowSpan(panel, this.row(d.rank[way]));
    return { x: xOf(panel, d.leave_ns[way] - Math.min(d.leave_ns[way] - d.enter_ns[way], (this.end - this.begin) / panel.width) / 2), y: (a + b) / 2 };
  }

  private itemAt(one: CloseUp, row: number, at: number, near: number, below: boolean): Hit | undefined {
    const index = this.index(one), k = one.calls, n = one.noise, per = this.t.ranks_per_row;
    for (let rank = row * per; rank < (row + 1) * per; ++rank) {
      const [from, to] = (!below && index.noise.get(rank)) || [0, 0];
      for (let i = to; i-- > from;)
        if (at >= n.begin_ns[i] - near && at <= n.end_ns[i] + near && this.shown[n.source[i]])
          return { text: `${this.sourceName(n.source[i])}: ${name(this.t.culprits[n.culprit[i]])}\nrank ${rank}, ${time(n.end_ns[i] - n.begin_ns[i])} at ${time(n.begin_ns[i])}`, way: this.wayAt(index, k, rank, at, near) };
      const [first, last] = index.calls.get(rank) ?? [0, 0];
      for (let i = last; i-- > first;) {
        const enter = k.enter_ns[i] - (below ? k.enter_delay_ns[i] : 0), leave = k.leave_ns[i] - (below ? k.leave_delay_ns[i] : 0);
        if (at < enter - near || at > leave + near) continue;
        const p = this.t.places[k.place[i]];
        if (below) return { text: `${name(p.where)}, rank ${rank}, without noise\nat ${time(enter)}` };
        const way = index.way[i] >= 0 ? index.way[i] : undefined;
        return { way, text: `${name(p.where)}, rank ${rank}\n${p.call_site ? `called from ${name(p.call_site)}\n` : ""}at ${time(enter)}, took ${time(leave - enter)}, waited ${time(k.waited_until_ns[i] - enter)}\n` +
          `delay ${time(k.enter_delay_ns[i])} → ${time(k.leave_delay_ns[i])}${way !== undefined ? "\nClick: follow the delay to its origin" : ""}` };
      }
    }
    return undefined;
  }
  private wayAt(index: Index, k: CloseUp["calls"], rank: number, at: number, near: number): number | undefined {
    const [from, to] = index.calls.get(rank) ?? [0, 0];
    for (let i = to; i-- > from;) if (at >= k.enter_ns[i] - near && at <= k.leave_ns[i] + near && index.way[i] >= 0) return index.way[i];
    return undefined;
  }

  private bucketAt(row: number, at: number, below: boolean): Hit | undefined {
    const l = this.level(), i = Math.floor(at / l.bucket_ns);
    if (i < 0 || i >= l.buckets || row >= this.t.rows) return undefined;
    const per = this.t.ranks_per_row, ranks = per > 1 ? `ranks ${row * per}–${row * per + per - 1}` : `rank ${row}`;
    const lines = [`${below ? "Without noise" : "Measured"}, ${ranks}, ${time(i * l.bucket_ns)} + ${time(l.bucket_ns)}`,
      `in MPI ${time((below ? l.without_mpi_ns : l.mpi_ns)[row][i])}, waiting ${time((below ? l.without_waiting_ns : l.waiting_ns)[row][i])}`];
    if (!below) {
      for (const n of l.noise) if (n.ns[row][i]) lines.push(`${this.sourceName(n.source)} ${time(n.ns[row][i])}`);
      lines.push(`delay ${time(l.delay_ns[row][i])}`);
    }
    return { text: lines.join("\n"), way: below ? undefined : this.wayIn(row, i * l.bucket_ns, (i + 1) * l.bucket_ns) };
  }
  // The delay that grew most within a bucket, of those that can be followed.
  private wayIn(row: number, begin: number, end: number): number | undefined {
    const d = this.t.delays;
    const found = d.rank.findIndex((rank, i) => this.row(rank) === row && d.leave_ns[i] >= begin && d.leave_ns[i] < end);
    return found < 0 ? undefined : found;
  }
}

function tick(at: number, step: number): string {
  const [unit, text] = step >= 1e8 ? [1e9, "s"] : step >= 1e5 ? [1e6, "ms"] : [1e3, "µs"];
  return `${(at / (unit as number)).toFixed(Math.max(0, Math.ceil(-Math.log10(step / (unit as number)) - 1e-9)))} ${text}`;
}
