// SPDX-License-Identifier: BSD-3-Clause
// Paints one panel of the timeline into a raster: sums from a level of detail, or every call and noise event of a close-up.
import { CloseUp, Level, Timeline } from "./data";
import { Colour, mix, Raster } from "./raster";

export interface Colours { mpi: Colour; wait: Colour; panel: Colour; way: Colour; sources: Colour[]; shown: boolean[] }

// What is seen of the timeline, in device pixels.
export interface Panel {
  below: boolean;  // the run without noise
  x: number; y: number; width: number; height: number;
  begin: number; end: number;  // ns; of the run without noise: its own time
  firstRow: number; rowCount: number;
  scale: number;  // device pixels for each CSS pixel
}

// A row's top and bottom within the panel; rows thick enough stand apart.
export function rowSpan(panel: Panel, row: number): [number, number] {
  const height = panel.height / panel.rowCount, top = panel.y + (row - panel.firstRow) * height;
  const apart = height > 6 * panel.scale ? panel.scale : 0;
  return [top + apart, top + height - apart];
}
export function xOf(panel: Panel, at: number): number { return panel.x + ((at - panel.begin) / (panel.end - panel.begin)) * panel.width; }

// The finest level whose buckets are at least a pixel wide, so that none is left out.
export function levelFor(t: Timeline, nsPerPixel: number): Level {
  return t.levels.find((l) => l.bucket_ns >= nsPerPixel) ?? t.levels[t.levels.length - 1];
}

// Colours of a level's cells. Rows that share a band of pixels: the mean of MPI and wait states, the greatest of the noise, so that no
// event of a single rank vanishes among a thousand.
export function bands(t: Timeline, level: Level, panel: Panel, count: number, c: Colours): Uint32Array {
  const out = new Uint32Array(count * level.buckets), full = level.bucket_ns * t.ranks_per_row;
  const mpi = panel.below ? level.without_mpi_ns : level.mpi_ns, waiting = panel.below ? level.without_waiting_ns : level.waiting_ns;
  const noise = panel.below ? [] : level.noise.filter((n) => c.shown[n.source]);
  for (let band = 0; band < count; ++band) {
    const from = panel.firstRow + Math.floor((band * panel.rowCount) / count);
    const to = Math.max(from + 1, panel.firstRow + Math.floor(((band + 1) * panel.rowCount) / count)), whole = full * (to - from);
    for (let i = 0; i < level.buckets; ++i) {
      let inMpi = 0, waits = 0;
      for (let row = from; row < to; ++row) { inMpi += mpi[row][i]; waits += waiting[row][i]; }
      let cell = c.panel;
      if (inMpi > 0) cell = mix(cell, c.mpi, Math.min(1, inMpi / whole));
      if (waits > 0) cell = mix(cell, c.wait, Math.min(1, waits / whole));
      for (const n of noise) {
        let most = 0;
        for (let row = from; row < to; ++row) if (n.ns[row][i] > most) most = n.ns[row][i];
        // On a scale of roots: an event that takes a hundredth of a bucket is seen.
        if (most > 0) cell = mix(cell, c.sources[n.source], Math.min(1, 1.2 * Math.sqrt(most / full)));
      }
      out[band * level.buckets + i] = cell;
    }
  }
  return out;
}

export function paintBands(raster: Raster, cells: Uint32Array, count: number, level: Level, panel: Panel, background: Colour): void {
  const columns = new Int32Array(panel.width);
  for (let x = 0; x < panel.width; ++x) {
    const i = Math.floor((panel.begin + ((x + 0.5) / panel.width) * (panel.end - panel.begin)) / level.bucket_ns);
    columns[x] = i >= 0 && i < level.buckets ? i : -1;
  }
  const apart = panel.height / panel.rowCount > 6 * panel.scale ? Math.round(panel.scale) : 0;
  const { pixels, width } = raster;
  for (let band = 0; band < count; ++band) {
    const top = panel.y + Math.round((band * panel.height) / count) + apart, bottom = panel.y + Math.round(((band + 1) * panel.height) / count) - apart;
    const line = top * width + panel.x, from = band * level.buckets;
    for (let x = 0; x < panel.width; ++x) pixels[line + x] = columns[x] < 0 ? background : cells[from + columns[x]];
    for (let y = top + 1; y < bottom; ++y) pixels.copyWithin(y * width + panel.x, line, line + panel.width);
  }
}

// Where each rank's calls and noise begin in the columns, which are sorted by rank and time, and which calls are delays to follow. Without
// noise the same calls take less time: behind `belowEnd` some rank's next call is no longer among them.
export interface Index { calls: Map<number, [number, number]>; noise: Map<number, [number, number]>; way: Int32Array; belowEnd: number }

function ranges(ranks: number[]): Map<number, [number, number]> {
  const found = new Map<number, [number, number]>();
  for (let i = 0, from = 0; i < ranks.length; ++i)
    if (i + 1 === ranks.length || ranks[i + 1] !== ranks[i]) {
      found.set(ranks[i], [from, i + 1]);
      from = i + 1;
    }
  return found;
}

export function indexOf(one: CloseUp, wayOf: Map<string, number>): Index {
  const k = one.calls, way = new Int32Array(k.rank.length).fill(-1);
  for (let i = 0; i < way.length; ++i) way[i] = wayOf.get(`${k.rank[i]}/${k.enter_ns[i]}/${k.leave_ns[i]}`) ?? -1;
  const calls = ranges(k.rank);
  let belowEnd = Infinity;
  for (const [, to] of calls.values()) belowEnd = Math.min(belowEnd, k.leave_ns[to - 1] - k.leave_delay_ns[to - 1]);
  return { calls, noise: ranges(one.noise.rank), way, belowEnd };
}

export function paintCloseUp(raster: Raster, t: Timeline, one: CloseUp, index: Index, panel: Panel, c: Colours): void {
  const k = one.calls, n = one.noise, per = t.ranks_per_row;
  const firstRank = panel.firstRow * per, lastRank = (panel.firstRow + panel.rowCount) * per;
  for (let rank = firstRank; rank < lastRank; ++rank) {
    const [from, to] = index.calls.get(rank) ?? [0, 0], [top, bottom] = rowSpan(panel, Math.floor(rank / per));
    for (let i = from; i < to; ++i) {
      const enter = k.enter_ns[i] - (panel.below ? k.enter_delay_ns[i] : 0), leave = k.leave_ns[i] - (panel.below ? k.leave_delay_ns[i] : 0);
      if (leave < panel.begin || enter > panel.end) continue;
      const waited = panel.below ? k.without_waited_until_ns[i] : k.waited_until_ns[i], x0 = xOf(panel, enter), x1 = xOf(panel, leave);
      raster.rect(x0, top, x1, bottom, c.mpi);
      if (waited > enter) raster.rect(x0, top, xOf(panel, waited), bottom, c.wait);
      if (!panel.below && index.way[i] >= 0 && bottom - top > 4) raster.rect(x1 - 2 * panel.scale, top, x1, bottom, c.way);
    }
  }
  if (panel.below) return;
  for (let rank = firstRank; rank < lastRank; ++rank) {
    const [from, to] = index.noise.get(rank) ?? [0, 0], [top, bottom] = rowSpan(panel, Math.floor(rank / per)), inset = bottom - top > 6 ? (bottom - top) * 0.19 : 0;
    for (let i = from; i < to; ++i)
      if (n.end_ns[i] >= panel.begin && n.begin_ns[i] <= panel.end && c.shown[n.source[i]])
        raster.rect(xOf(panel, n.begin_ns[i]), top + inset, xOf(panel, n.end_ns[i]), bottom - inset, c.sources[n.source[i]]);
  }
}
