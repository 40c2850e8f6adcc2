// SPDX-License-Identifier: BSD-3-Clause
// The timeline: measured above approximated. Drawn on canvas from the level of detail whose buckets are about a pixel wide; inside
// a close-up every call, noise event and message. The page sums nothing: a hovered value is a value of the JSON.
import { CloseUp, Result, Timeline } from "./data";
import { count, el, name, time } from "./format";

const left = 74, top = 6, gap = 26;
const palette = ["--s0", "--s1", "--s2", "--s3", "--s4", "--s5", "--s6", "--s7"];

function style(variable: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
}

interface Hit { x: number; y: number; w: number; h: number; way?: number; text: string }

export class TimelineView {
  readonly root: HTMLElement;
  private readonly t: Timeline;
  private readonly canvas = el("canvas", { tabindex: "0", role: "img", "aria-describedby": "timeline-help timeline-status" }) as HTMLCanvasElement;
  private readonly status = el("p", { id: "timeline-status", class: "status", role: "status" });
  private readonly tip = el("div", { class: "tip", hidden: "" });
  private begin = 0;
  private end: number;
  private hits: Hit[] = [];
  private chosen = -1;
  private cursor = -1;
  private queued = false;
  private readonly wayOf = new Map<string, number>();
  private readonly names: Record<string, string>;

  constructor(result: Result) {
    this.t = result.timeline as Timeline;
    this.names = result.source_names ?? {};
    this.end = this.t.span_ns;
    this.canvas.setAttribute("aria-label", "Timeline of all ranks: the measured run above, the run without noise below");
    this.t.delays.rank.forEach((rank, i) => this.wayOf.set(`${rank}/${this.t.delays.enter_ns[i]}/${this.t.delays.leave_ns[i]}`, i));
    this.root = el("div", { class: "timeline" }, this.legend(), this.tools(), el("div", { class: "stage" }, this.canvas, this.tip), this.status);
    this.canvas.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
    this.canvas.addEventListener("keydown", (e) => this.key(e));
    this.canvas.addEventListener("pointerdown", (e) => this.press(e));
    this.canvas.addEventListener("pointermove", (e) => this.hover(e));
    this.canvas.addEventListener("pointerleave", () => (this.tip.hidden = true));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  sourceName(i: number): string { return name(this.names[this.t.sources[i]] ?? this.t.sources[i]); }
  colour(i: number): string { return style(palette[i % palette.length]); }

  private legend(): HTMLElement {
    const item = (swatch: string, text: string) => {
      const box = el("i", { class: "swatch", "aria-hidden": "true" });
      box.style.background = `var(${swatch})`;
      return el("li", {}, box, text);
    };
    return el("ul", { class: "legend" }, item("--mpi", "in MPI"), item("--wait", "wait state"),
      ...this.t.sources.map((_, i) => item(palette[i % palette.length], this.sourceName(i))), item("--path", "critical path"));
  }

  private tools(): HTMLElement {
    const button = (label: string, act: () => void) => {
      const b = el("button", { type: "button" }, label);
      b.addEventListener("click", act);
      return b;
    };
    return el("div", { class: "tools" }, button("Zoom in", () => this.zoom(0.5)), button("Zoom out", () => this.zoom(2)),
      button("Whole run", () => this.show(0, this.t.span_ns)), button("Next delay", () => this.next(1)), button("Previous delay", () => this.next(-1)),
      el("span", { id: "timeline-help" }, "Wheel or + − zooms, drag or ← → moves, n and p go through the delays, Enter follows one to its origin, 0 shows all."));
  }

  show(begin: number, end: number): void {
    const span = Math.min(Math.max(end - begin, 200), this.t.span_ns);
    this.begin = Math.max(0, Math.min(begin, this.t.span_ns - span));
    this.end = this.begin + span;
    this.draw();
  }
  view(): [number, number] { return [this.begin, this.end]; }
  zoom(by: number, at = 0.5): void {
    const span = this.end - this.begin, centre = this.begin + span * at;
    this.show(centre - span * by * at, centre + span * by * (1 - at));
  }

  private width(): number { return this.canvas.clientWidth - left - 8; }
  private wheel(e: WheelEvent): void {
    e.preventDefault();
    const at = (e.offsetX - left) / this.width();
    if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) this.move(e.deltaX / this.width());
    else this.zoom(Math.exp(e.deltaY / 400), Math.min(1, Math.max(0, at)));
  }
  private move(part: number): void {
    const by = (this.end - this.begin) * part;
    this.show(this.begin + by, this.end + by);
  }
  private key(e: KeyboardEvent): void {
    const act: Record<string, () => void> = {
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), ArrowLeft: () => this.move(-0.2), ArrowRight: () => this.move(0.2),
      Home: () => this.show(0, this.end - this.begin), End: () => this.show(this.t.span_ns - (this.end - this.begin), this.t.span_ns),
      "0": () => this.show(0, this.t.span_ns), n: () => this.next(1), p: () => this.next(-1), Enter: () => this.choose(Math.max(0, this.cursor)),
      Escape: () => this.choose(-1),
    };
    if (!act[e.key] || e.ctrlKey || e.metaKey) return;
    e.preventDefault();
    act[e.key]();
  }
  private press(e: PointerEvent): void {
    const from = e.offsetX, begin = this.begin, end = this.end;
    let moved = false;
    this.canvas.setPointerCapture(e.pointerId);
    const drag = (m: PointerEvent) => {
      if (Math.abs(m.offsetX - from) > 3) moved = true;
      const by = ((from - m.offsetX) / this.width()) * (end - begin);
      if (moved) this.show(begin + by, end + by);
    };
    this.canvas.addEventListener("pointermove", drag);
    this.canvas.addEventListener("pointerup", (u) => {
      this.canvas.removeEventListener("pointermove", drag);
      const hit = this.at(u.offsetX, u.offsetY);
      if (!moved && hit?.way !== undefined) this.choose(hit.way);
    }, { once: true });
  }
  private at(x: number, y: number): Hit | undefined {
    for (let i = this.hits.length; i-- > 0;) {
      const h = this.hits[i];
      if (x >= h.x - 2 && x <= h.x + h.w + 2 && y >= h.y && y <= h.y + h.h) return h;
    }
    return undefined;
  }
  private hover(e: PointerEvent): void {
    const hit = this.at(e.offsetX, e.offsetY);
    const text = hit?.text ?? this.bucketText(e.offsetX, e.offsetY);
    this.tip.hidden = !text;
    this.canvas.style.cursor = hit?.way !== undefined ? "pointer" : "grab";
    if (!text) return;
    this.tip.textContent = text;
    this.tip.style.left = `${Math.max(0, Math.min(e.offsetX + 14, this.canvas.clientWidth - this.tip.offsetWidth - 4))}px`;
    this.tip.style.top = `${e.offsetY + 16}px`;
  }

  private next(by: number): void {
    const n = this.t.delays.rank.length;
    if (n === 0) return;
    this.cursor = (this.cursor + by + n) % n;
    this.choose(this.cursor);
  }

  // Shows a delay with the way back to its origin.
  choose(way: number): void {
    const d = this.t.delays;
    this.chosen = way >= 0 && way < d.rank.length ? way : -1;
    if (this.chosen < 0) return this.draw();
    this.cursor = this.chosen;
    const origin = d.origin[way], steps = this.steps(way);
    const from = Math.min(d.enter_ns[way], ...steps.map((s) => d.step.at_ns[s]), origin >= 0 ? d.origins.at_ns[origin] : Infinity);
    const margin = (d.leave_ns[way] - from) * 0.15 + 100;
    this.show(from - margin, d.leave_ns[way] + margin);
  }
  private steps(way: number): number[] {
    const d = this.t.delays, list: number[] = [];
    for (let s = d.first_step[way], i = 0; i < d.steps[way] && s >= 0; ++i, s = d.step.next[s]) list.push(s);
    return list;
  }
  private wayText(): string {
    const d = this.t.delays, w = this.chosen, p = this.t.places[d.place[w]], o = d.origin[w];
    const head = `Delay of rank ${d.rank[w]} grew by ${time(d.growth_ns[w])} in ${name(p.where)}${p.call_site ? ` called from ${name(p.call_site)}` : ""}.`;
    if (o < 0) return `${head} No noise was found on the way back.`;
    return `${head} Origin: rank ${d.origins.rank[o]}, ${this.sourceName(d.origins.source[o])} by ${name(this.t.culprits[d.origins.culprit[o]])}, ` +
      `${time(d.origins.duration_ns[o])} at ${time(d.origins.at_ns[o])}; noise on the way: ${time(d.noise_ns[w])}, over ${count(d.steps[w])} events${d.complete[w] ? "" : " (it goes further back than shown)"}.`;
  }

  private closeUp(): CloseUp | undefined {
    const span = this.end - this.begin;
    const found = this.t.close_ups.find((c) => c.begin_ns <= this.begin + span * 0.05 && c.end_ns >= this.end - span * 0.05);
    // Calls narrower than a pixel are better seen as sums.
    return found && (span < found.end_ns - found.begin_ns || found.calls.rank.length / this.t.rows < this.width()) ? found : undefined;
  }
  private level() {
    const wanted = ((this.end - this.begin) / Math.max(1, this.width())) * 1.2;
    const levels = this.t.levels;
    let best = levels[0];
    for (const l of levels) if (l.bucket_ns <= Math.max(wanted, levels[0].bucket_ns)) best = l;
    return best;
  }
  private rowHeight(): number { return Math.max(300 / this.t.rows > 22 ? 22 : Math.max(300 / this.t.rows, 0.35), 0.35); }
  private panel(): number { return this.rowHeight() * this.t.rows; }
  // Both panels begin with the same point of the program: below, time is shifted by the least delay there.
  private shift(): number {
    if (this.begin <= 0) return 0;
    const finest = this.t.levels[0], i = Math.min(finest.buckets - 1, Math.floor(this.begin / finest.bucket_ns));
    return Math.min(...finest.delay_ns.map((row) => row[i]), this.begin);
  }
  private x(at: number, shift = 0): number { return left + ((at - this.begin + shift) / (this.end - this.begin)) * this.width(); }
  private y(rank: number, below: boolean): number {
    return top + (below ? this.panel() + gap : 0) + Math.floor(rank / this.t.ranks_per_row) * this.rowHeight();
  }

  draw(): void {
    if (this.queued) return;
    this.queued = true;
    requestAnimationFrame(() => {
      this.queued = false;
      this.paint();
    });
  }

  paint(): void {
    const height = top + 2 * this.panel() + gap + 22, scale = devicePixelRatio || 1;
    this.canvas.style.height = `${height}px`;
    const w = this.canvas.clientWidth;
    if (w === 0) return;
    if (this.canvas.width !== Math.round(w * scale) || this.canvas.height !== Math.round(height * scale)) {
      this.canvas.width = Math.round(w * scale);
      this.canvas.height = Math.round(height * scale);
    }
    const g = this.canvas.getContext("2d") as CanvasRenderingContext2D;
    g.setTransform(scale, 0, 0, scale, 0, 0);
    g.clearRect(0, 0, w, height);
    g.font = "12px system-ui, sans-serif";
    const colours = { mpi: style("--mpi"), wait: style("--wait"), text: style("--muted"), panel: style("--panel"), path: style("--path"), accent: style("--accent") };
    const sources = this.t.sources.map((_, i) => this.colour(i));
    this.hits = [];
    for (const below of [false, true]) {
      g.fillStyle = colours.panel;
      g.fillRect(left, this.y(0, below), this.width(), this.panel());
    }
    g.save();
    g.beginPath();
    g.rect(left, 0, this.width(), height);
    g.clip();
    const close = this.closeUp();
    if (close) this.paintCalls(g, close, colours, sources);
    else this.paintBuckets(g, colours, sources);
    this.paintPath(g, colours.path);
    if (this.chosen >= 0) this.paintWay(g, colours.accent);
    g.restore();
    this.paintAxes(g, colours.text, height);
    this.say(close);
  }

  private say(close: CloseUp | undefined): void {
    const range = `${time(this.begin)} to ${time(this.end)} of ${time(this.t.span_ns)}.`;
    const shown = close ? `Every call, noise event and message${close.cut ? "; some are missing, there are more than a page can hold" : ""}.`
      : `Aggregated: sums over ${time(this.level().bucket_ns)}${this.t.ranks_per_row > 1 ? ` and ${this.t.ranks_per_row} ranks` : ""}. ` +
        (this.t.whole_run ? "Zoom in to see single calls." : this.t.close_ups.length === 0 ? "No noise event cost anything, so there is no close-up of single calls." : `Single calls are there around the ${count(this.t.close_ups.length)} marked places with the costliest noise.`);
    this.status.textContent = `${this.chosen >= 0 ? `${this.wayText()} ` : ""}${range} ${shown}`;
  }

  private paintBuckets(g: CanvasRenderingContext2D, colours: Record<string, string>, sources: string[]): void {
    const l = this.level(), h = this.rowHeight();
    const shift = this.shift();
    for (const below of [false, true]) {
      const from = Math.max(0, Math.floor((this.begin - (below ? shift : 0)) / l.bucket_ns));
      const to = Math.min(l.buckets - 1, Math.ceil((this.end - (below ? shift : 0)) / l.bucket_ns));
      const mpi = below ? l.without_mpi_ns : l.mpi_ns, waiting = below ? l.without_waiting_ns : l.waiting_ns;
      const full = l.bucket_ns * this.t.ranks_per_row, w = (l.bucket_ns / (this.end - this.begin)) * this.width();
      const x0 = this.x(from * l.bucket_ns, below ? shift : 0), inset = h > 6 ? 1 : 0;
      const layer = (cells: number[], y: number, colour: string, part: number) => {
        g.fillStyle = colour;
        for (let i = from; i <= to; ++i) {
          const v = cells[i];
          if (!v) continue;
          g.globalAlpha = Math.min(1, (v / full) * part + 0.06 * Math.min(1, part - 0.99));
          g.fillRect(x0 + (i - from) * w, y + inset, w + 0.35, h - 2 * inset);
        }
      };
      for (let row = 0; row < this.t.rows; ++row) {
        const y = this.y(row * this.t.ranks_per_row, below);
        layer(mpi[row], y, colours.mpi, 1);
        layer(waiting[row], y, colours.wait, 1);
        if (!below) l.noise.forEach((n) => layer(n.ns[row], y, sources[n.source], 4));
      }
    }
    g.globalAlpha = 1;
    if (this.t.whole_run) return;
    g.fillStyle = colours.accent;
    for (const c of this.t.close_ups) g.fillRect(this.x(c.begin_ns) - 1, this.panel() + top + 2, Math.max(3, this.x(c.end_ns) - this.x(c.begin_ns)), 3);
  }

  private bucketText(x: number, y: number): string {
    if (this.closeUp() || x < left) return "";
    const below = y > top + this.panel() + gap, row = Math.floor((y - this.y(0, below)) / this.rowHeight());
    if (row < 0 || row >= this.t.rows) return "";
    const l = this.level(), at = this.begin + ((x - left) / this.width()) * (this.end - this.begin) - (below ? this.shift() : 0);
    const i = Math.floor(at / l.bucket_ns);
    if (i < 0 || i >= l.buckets) return "";
    const per = this.t.ranks_per_row, ranks = per > 1 ? `ranks ${row * per}–${row * per + per - 1}` : `rank ${row}`;
    const lines = [`${below ? "Without noise" : "Measured"}, ${ranks}, ${time(i * l.bucket_ns)} + ${time(l.bucket_ns)}`,
      `in MPI ${time((below ? l.without_mpi_ns : l.mpi_ns)[row][i])}, waiting ${time((below ? l.without_waiting_ns : l.waiting_ns)[row][i])}`];
    if (!below) {
      for (const n of l.noise) if (n.ns[row][i]) lines.push(`${this.sourceName(n.source)} ${time(n.ns[row][i])}`);
      lines.push(`delay ${time(l.delay_ns[row][i])}`);
    }
    return lines.join("\n");
  }

  private paintCalls(g: CanvasRenderingContext2D, c: CloseUp, colours: Record<string, string>, sources: string[]): void {
    const h = this.rowHeight(), shift = this.shift(), inset = h > 6 ? 2 : 0;
    const box = (rank: number, from: number, to: number, below: boolean, colour: string, part = 1): [number, number, number, number] | null => {
      const a = this.x(from, below ? shift : 0), b = this.x(to, below ? shift : 0);
      if (b < left || a > left + this.width()) return null;
      const height = (h - 2 * inset) * part, y = this.y(rank, below) + inset + (h - 2 * inset - height) / 2;
      g.fillStyle = colour;
      g.fillRect(a, y, Math.max(b - a, 0.6), height);
      return [a, y, Math.max(b - a, 0.6), height];
    };
    const k = c.calls;
    for (let i = 0; i < k.rank.length; ++i) {
      const rank = k.rank[i], enter = k.enter_ns[i], leave = k.leave_ns[i], p = this.t.places[k.place[i]];
      const b = box(rank, enter, leave, false, colours.mpi);
      const way = this.wayOf.get(`${rank}/${enter}/${leave}`), growth = k.leave_delay_ns[i] - k.enter_delay_ns[i];
      if (b) {
        box(rank, enter, k.waited_until_ns[i], false, colours.wait);
        if (way !== undefined && h > 3) {
          g.fillStyle = colours.accent;
          g.fillRect(b[0] + b[2] - 2, b[1], 2, b[3]);
        }
        this.hits.push({ x: b[0], y: b[1], w: b[2], h: b[3], way, text: `${name(p.where)}, rank ${rank}\n${p.call_site ? `called from ${name(p.call_site)}\n` : ""}at ${time(enter)}, took ${time(leave - enter)}, waited ${time(k.waited_until_ns[i] - enter)}\n` +
          `delay ${time(k.enter_delay_ns[i])} → ${time(k.leave_delay_ns[i])}${way !== undefined && growth > 0 ? "\nClick: follow the delay to its origin" : ""}` });
      }
      const b2 = box(rank, enter - k.enter_delay_ns[i], leave - k.leave_delay_ns[i], true, colours.mpi);
      if (!b2) continue;
      box(rank, enter - k.enter_delay_ns[i], k.without_waited_until_ns[i], true, colours.wait);
      this.hits.push({ x: b2[0], y: b2[1], w: b2[2], h: b2[3], text: `${name(p.where)}, rank ${rank}, without noise\nat ${time(enter - k.enter_delay_ns[i])}` });
    }
    const m = c.messages;
    const shown = m.from.length * (c.end_ns - c.begin_ns > 0 ? (this.end - this.begin) / (c.end_ns - c.begin_ns) : 1) < 3000;
    g.lineWidth = 0.8;
    g.strokeStyle = colours.text;
    g.globalAlpha = 0.7;
    if (shown) for (let i = 0; i < m.from.length; ++i)
      for (const below of [false, true]) {
        const a = this.x(m.sent_ns[i] - (below ? m.sent_delay_ns[i] : 0), below ? shift : 0), b = this.x(m.received_ns[i] - (below ? m.received_delay_ns[i] : 0), below ? shift : 0);
        if (b < left || a > left + this.width()) continue;
        g.beginPath();
        g.moveTo(a, this.y(m.from[i], below) + h / 2);
        g.lineTo(b, this.y(m.to[i], below) + h / 2);
        g.stroke();
      }
    g.globalAlpha = 1;
    const n = c.noise;
    for (let i = 0; i < n.rank.length; ++i) {
      const b = box(n.rank[i], n.begin_ns[i], n.end_ns[i], false, sources[n.source[i]], 0.62);
      if (b) this.hits.push({ x: b[0], y: b[1], w: b[2], h: b[3], text: `${this.sourceName(n.source[i])}: ${name(this.t.culprits[n.culprit[i]])}\nrank ${n.rank[i]}, ${time(n.end_ns[i] - n.begin_ns[i])} at ${time(n.begin_ns[i])}` });
    }
  }

  private paintPath(g: CanvasRenderingContext2D, colour: string): void {
    const p = this.t.critical_path, h = this.rowHeight();
    if ((this.end - this.begin) < 4 * p.bucket_ns) return;
    g.strokeStyle = colour;
    g.lineWidth = 1;
    g.globalAlpha = 0.6;
    for (const below of [false, true]) {
      const ranks = below ? p.after : p.before, shift = below ? this.shift() : 0;
      g.beginPath();
      let up = true;
      ranks.forEach((rank, i) => {
        const x = this.x(i * p.bucket_ns, shift), y = this.y(Math.max(0, rank), below) + h / 2, x2 = this.x((i + 1) * p.bucket_ns, shift);
        if (rank < 0 || x2 < left || x > left + this.width()) { up = true; return; }
        if (up) g.moveTo(x, y); else g.lineTo(x, y);
        g.lineTo(x2, y);
        up = false;
      });
      g.stroke();
    }
    g.globalAlpha = 1;
  }

  private paintWay(g: CanvasRenderingContext2D, colour: string): void {
    const d = this.t.delays, w = this.chosen, h = this.rowHeight(), o = d.origin[w];
    g.strokeStyle = colour;
    g.fillStyle = colour;
    g.lineWidth = 2.5;
    g.beginPath();
    g.moveTo(this.x(d.leave_ns[w]), this.y(d.rank[w], false) + h / 2);
    for (const s of this.steps(w)) g.lineTo(this.x(d.step.at_ns[s]), this.y(d.step.rank[s], false) + h / 2);
    g.stroke();
    g.beginPath();
    g.arc(this.x(d.leave_ns[w]), this.y(d.rank[w], false) + h / 2, 4, 0, 7);
    g.fill();
    if (o < 0) return;
    g.strokeRect(this.x(d.origins.at_ns[o]) - 2, this.y(d.origins.rank[o], false), Math.max(6, this.x(d.origins.at_ns[o] + d.origins.duration_ns[o]) - this.x(d.origins.at_ns[o]) + 4), Math.max(h, 4));
  }

  private paintAxes(g: CanvasRenderingContext2D, colour: string, height: number): void {
    g.fillStyle = colour;
    g.textAlign = "right";
    g.textBaseline = "middle";
    const h = this.rowHeight(), each = Math.max(1, Math.ceil(16 / h));
    for (const below of [false, true])
      for (let row = 0; row < this.t.rows; row += each) g.fillText(`rank ${row * this.t.ranks_per_row}`, left - 8, this.y(row * this.t.ranks_per_row, below) + Math.max(h, 12) / 2);
    g.textAlign = "left";
    const shift = this.shift();
    g.fillText(`Without noise${shift > 0 ? ` (moved right by ${time(shift)})` : ""}`, left, top + this.panel() + gap / 2 + 3);
    const span = this.end - this.begin, rough = span / Math.max(2, this.width() / 120), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough) ?? rough;
    g.textAlign = "center";
    for (let at = Math.ceil(this.begin / step) * step; at <= this.end; at += step) {
      const x = this.x(at);
      if (x > left + 20 && x < left + this.width() - 20) g.fillText(step < 1e3 ? `${count(Math.round(at))} ns` : tick(at, step), x, height - 9);
    }
  }
}

function tick(at: number, step: number): string {
  const [unit, text] = step >= 1e8 ? [1e9, "s"] : step >= 1e5 ? [1e6, "ms"] : [1e3, "µs"];
  return `${(at / (unit as number)).toFixed(Math.max(0, Math.ceil(-Math.log10(step / (unit as number)) - 1e-9)))} ${text}`;
}
