import { forWords } from "../format";

/** How long a host can be admitted, in seconds; 0 is as long as the machine lives. */
const choices = [0, 600, 3600];

interface Props {
  label: string;
  value: number;
  /** What was asked for, where somebody asked. */
  asked?: number;
  onChange: (seconds: number) => void;
}

export function DurationSelect({ label, value, asked, onChange }: Props) {
  const all = asked === undefined || choices.includes(asked) ? choices : [...choices, asked].sort((a, b) => a - b);
  return (
    <label className="inline-field">
      <span>{label}</span>
      <select className="select" value={value} onChange={(e) => onChange(Number(e.target.value))}>
        {all.map((s) => (
          <option key={s} value={s}>
            {forWords(s)}
            {asked !== undefined && asked === s ? ", as asked" : ""}
          </option>
        ))}
      </select>
    </label>
  );
}
