import { Link, Outlet } from "@tanstack/react-router";

const sections = [
  { to: "/settings/enclosures", label: "Enclosures" },
  { to: "/settings/server", label: "This server" },
  { to: "/settings/access", label: "Access" },
] as const;

export function SettingsLayout() {
  return (
    <div className="settings">
      <nav className="settings-nav" aria-label="Settings">
        <h1>Settings</h1>
        <p className="settings-group">Server</p>
        <ul className="plain">
          {sections.map((s) => (
            <li key={s.to}>
              <Link to={s.to}>{s.label}</Link>
            </li>
          ))}
        </ul>
      </nav>
      <div className="settings-body">
        <Outlet />
      </div>
    </div>
  );
}
