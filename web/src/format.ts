// Numbers and times in words for people, as pure functions.

export function bytes(n: number): string {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) {
    n /= 1024;
    i++;
  }
  return `${i === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)} ${units[i]}`;
}

export const megabytes = (mb: number): string => bytes(mb * 1024 * 1024);

/** countdown writes a span of seconds with its two largest units: 7 h 59 min, 4 min 03 s, 12 s. */
export function countdown(seconds: number): string {
  const s = Math.max(0, Math.floor(seconds));
  const two = (n: number) => String(n).padStart(2, "0");
  if (s >= 86_400) return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
  if (s >= 3600) return `${Math.floor(s / 3600)} h ${two(Math.floor((s % 3600) / 60))} min`;
  if (s >= 60) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
  return `${s} s`;
}

/** ago says how long before now a moment was. */
export function ago(time: string, now: number): string {
  const s = Math.floor((now - Date.parse(time)) / 1000);
  if (!Number.isFinite(s)) return "at an unknown time";
  if (s < 10) return "just now";
  if (s < 60) return `${s} s ago`;
  if (s < 3600) return `${Math.floor(s / 60)} min ago`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ago`;
  return `${Math.floor(s / 86_400)} d ago`;
}

export const clock = (time: string): string => {
  const d = new Date(time);
  return Number.isNaN(d.getTime()) ? "–" : d.toLocaleTimeString("en-GB");
};

export const plural = (n: number, one: string, many = `${one}s`): string => `${n} ${n === 1 ? one : many}`;

/** amount says how far a step is: 12.0 MB of 80.0 MB, 3 of 7 packages. */
export function amount(done: number, total: number, unit: string | undefined): string {
  if (unit === "bytes") return total > 0 ? `${bytes(done)} of ${bytes(total)}` : bytes(done);
  const word = unit ?? "steps";
  return total > 0 ? `${done} of ${total} ${word}` : `${done} ${word}`;
}

export interface ImageRef {
  name: string;
  digest: string;
}

/** imageRef splits terminal@sha256:… into its name and digest. */
export function imageRef(ref: string): ImageRef {
  const at = ref.indexOf("@");
  return at < 0 ? { name: ref, digest: "" } : { name: ref.slice(0, at), digest: ref.slice(at + 1) };
}

/** shortDigest keeps what people compare by eye. */
export const shortDigest = (digest: string): string => digest.replace(/^sha256:/, "").slice(0, 12);

/** forWords says for how long: 0 is as long as the machine lives. */
export const forWords = (seconds: number): string => (seconds === 0 ? "while the machine lives" : `for ${span(seconds)}`);

/** span writes a span of seconds with one unit where that is exact: 10 min, 1 h; otherwise as countdown does. */
export function span(seconds: number): string {
  if (seconds > 0 && seconds % 86_400 === 0) return `${seconds / 86_400} d`;
  if (seconds > 0 && seconds % 3600 === 0) return `${seconds / 3600} h`;
  if (seconds > 0 && seconds < 3600 && seconds % 60 === 0) return `${seconds / 60} min`;
  return countdown(seconds);
}

/** ends says when something ends, in its largest unit, rounded up: ends in 9 min. */
export function ends(time: string, now: number): string {
  const s = Math.ceil((Date.parse(time) - now) / 1000);
  if (!(s > 0)) return "ending";
  if (s < 60) return `ends in ${s} s`;
  if (s < 5400) return `ends in ${Math.ceil(s / 60)} min`;
  if (s < 129_600) return `ends in ${Math.ceil(s / 3600)} h`;
  return `ends in ${Math.ceil(s / 86_400)} d`;
}

/** hour is the time of day to the minute: since 14:02. */
export const hour = (time: string): string => {
  const d = new Date(time);
  return Number.isNaN(d.getTime()) ? "–" : d.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
};

/** took says how long something was: in 0.3 s. What was over at once is not worth a word. */
export function took(from: string, to: string): string {
  const ms = Date.parse(to) - Date.parse(from);
  if (!(ms >= 100)) return "";
  return ms < 60_000 ? `in ${(ms / 1000).toFixed(ms < 9950 ? 1 : 0)} s` : `in ${countdown(ms / 1000)}`;
}
