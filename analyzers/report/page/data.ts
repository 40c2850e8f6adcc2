// SPDX-License-Identifier: BSD-3-Clause
// The data of the page: the JSON of `polter replay --attribution --timeline` (docs/replay-json.md) of each run, with its advice
// (polter.advise/1), and of several runs their comparison (polter.compare/1), and
// latencies (polter.latency/1) and a prediction (polter.predict/1); as far as the page reads it. Of a run, `interference` is a run of polter.interference/1 and
// `variability` a polter.variability/1.

export interface Level {
  bucket_ns: number; buckets: number;
  mpi_ns: number[][]; waiting_ns: number[][]; without_mpi_ns: number[][]; without_waiting_ns: number[][]; delay_ns: number[][];
  noise: { source: number; ns: number[][] }[];
}
export interface CloseUp {
  begin_ns: number; end_ns: number; cut: boolean;
  calls: Record<"rank" | "enter_ns" | "leave_ns" | "waited_until_ns" | "enter_delay_ns" | "leave_delay_ns" | "without_waited_until_ns" | "place", number[]>;
  noise: Record<"rank" | "begin_ns" | "end_ns" | "source" | "culprit", number[]>;
  messages: Record<"from" | "to" | "sent_ns" | "sent_delay_ns" | "received_ns" | "received_delay_ns" | "bytes", number[]>;
}
export interface Delays {
  rank: number[]; enter_ns: number[]; leave_ns: number[]; growth_ns: number[]; place: number[]; first_step: number[]; steps: number[];
  complete: boolean[]; noise_ns: number[]; origin: number[];
  step: Record<"rank" | "at_ns" | "delay_ns" | "next", number[]>;
  origins: Record<"rank" | "at_ns" | "duration_ns" | "source" | "culprit", number[]>;
}
export interface Place { where: string; caller: string; call_site: string }
export interface Timeline {
  span_ns: number; rows: number; ranks_per_row: number; levels: Level[]; whole_run: boolean; close_ups: CloseUp[]; delays: Delays;
  critical_path: { bucket_ns: number; before: number[]; after: number[] };
  places: Place[]; culprits: string[]; sources: string[];
}

export interface Amount { value: number; interval: [number, number]; percent_of_run_time: number; percent_interval: [number, number]; conditional: boolean }
export interface Suggestion {
  kind: string; title: string; saves: Amount; stolen_ns: number; noise_events: number; ranks: number[]; evidence: string[]; overlaps: number[]; why_not?: string;
  actions: { how: string; commands: string[]; note: string }[];
}
export interface Advice {
  answer: string; suggestions: Suggestion[]; together: Amount | null; largest_not_suggested: Suggestion | null; conditional: boolean; candidates: number;
}
// Everything else is shown as it is.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type Result = Record<string, any> & { timeline?: Timeline; advice?: Advice };

export interface Row { name: string; a: number; b: number; difference: { value: number; interval: [number, number]; samples: [number, number] }; more_than_noise: boolean }
export interface Comparison {
  a: string; b: string; answer: string; run_time: Row; noise: Row | null; without_noise: Row | null;
  sources: Row[]; culprits: Row[]; ranks: Row[]; operations: Row[]; warnings: string[];
}
export interface Compared {
  sides: { name: string; traces: string[]; program: string; hosts: string; measured_by: string; ranks: number; conditional: boolean }[];
  comparisons: Comparison[];
}
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export interface Page { schema: string; runs: Result[]; comparison: Compared | null; latency: Record<string, any> | null; quality: Record<string, any> | null; prediction: Record<string, any> | null }

// Base64 of gzip in a script element that is not run.
export async function open(id: string): Promise<Page> {
  const element = document.getElementById(id) as HTMLElement;
  const raw = atob((element.textContent ?? "").trim());
  element.remove();  // its text would stay in memory
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; ++i) bytes[i] = raw.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}
