const paths = {
  terminal: "m4 5 4 4-4 4M9.5 13.5h5",
  browser: "M2.5 4.5a1 1 0 0 1 1-1h11a1 1 0 0 1 1 1v9a1 1 0 0 1-1 1h-11a1 1 0 0 1-1-1zM2.5 7h13M4.8 5.3h.01M6.8 5.3h.01",
  desktop: "M2.5 4a1 1 0 0 1 1-1h11a1 1 0 0 1 1 1v7a1 1 0 0 1-1 1h-11a1 1 0 0 1-1-1zM9 12v3M6 15h6",
  phone: "M5.5 3a1 1 0 0 1 1-1h5a1 1 0 0 1 1 1v12a1 1 0 0 1-1 1h-5a1 1 0 0 1-1-1zM8.3 13.7h1.4",
  plus: "M9 4v10M4 9h10",
  trash: "M3.5 5h11M7 5V3.5h4V5M5 5l.6 9.5h6.8L13 5M7.6 7.5v4.5M10.4 7.5v4.5",
  settings: "M9 11.2a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4M9 2.2v1.6M9 14.2v1.6M2.2 9h1.6M14.2 9h1.6M4.2 4.2l1.1 1.1M12.7 12.7l1.1 1.1M13.8 4.2l-1.1 1.1M5.3 12.7l-1.1 1.1",
  chevron: "m6.5 4.5 4.5 4.5-4.5 4.5",
  close: "m4.5 4.5 9 9M13.5 4.5l-9 9",
  menu: "M3 5h12M3 9h12M3 13h12",
  sun: "M9 12.2a3.2 3.2 0 1 0 0-6.4 3.2 3.2 0 0 0 0 6.4M9 1.8v1.4M9 14.8v1.4M1.8 9h1.4M14.8 9h1.4M3.9 3.9l1 1M13.1 13.1l1 1M14.1 3.9l-1 1M4.9 13.1l-1 1",
  moon: "M15 10.6A6.3 6.3 0 0 1 7.4 3 6.3 6.3 0 1 0 15 10.6",
  auto: "M9 2.5a6.5 6.5 0 1 0 0 13zM9 2.5a6.5 6.5 0 0 1 0 13",
  copy: "M6.5 6.5h8v8h-8zM11.5 6.5v-3h-8v8h3",
  paste: "M6.5 3.5h-2v11h9v-11h-2M6.5 2.5h5v2.5h-5z",
  check: "m3.8 9.5 3.4 3.4 7-7.6",
  alert: "M9 6.2v3.8M9 12.4v.01M9 2.4 16 14.6H2z",
  panel: "M2.5 4a1 1 0 0 1 1-1h11a1 1 0 0 1 1 1v10a1 1 0 0 1-1 1h-11a1 1 0 0 1-1-1zM11 3v12",
  refresh: "M14.5 9A5.5 5.5 0 1 1 12.7 5M14.7 2.6v3.1h-3.1",
  power: "M9 2.5v6M5.3 4.9a5.5 5.5 0 1 0 7.4 0",
  pause: "M6.5 4.5v9M11.5 4.5v9",
  play: "M6 4.2 13.6 9 6 13.8z",
  gate: "M9 2.2 14.5 4v4.6c0 3.4-2.3 6-5.5 7.2-3.2-1.2-5.5-3.8-5.5-7.2V4z",
  signout: "M11 5.5V3.2H3.5v11.6H11v-2.3M7.5 9h8M12.8 6.2 15.5 9l-2.7 2.8",
  key: "M6.2 12.5a3.2 3.2 0 1 0 0-6.4 3.2 3.2 0 0 0 0 6.4M9.2 8.5l5.8-5.3M12.8 5.2l1.8 1.9",
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg className="icon" width={size} height={size} viewBox="0 0 18 18" fill="none" stroke="currentColor" strokeWidth="1.5" strokeLinecap="round" strokeLinejoin="round" aria-hidden="true" focusable="false">
      <path d={paths[name]} />
    </svg>
  );
}
