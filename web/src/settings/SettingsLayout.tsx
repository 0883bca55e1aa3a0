import { useQuery } from "@tanstack/react-query";
import { Link, Outlet } from "@tanstack/react-router";
import { workspacesQuery } from "../api/queries";

const sections = [
  { to: "/settings/enclosures", label: "Enclosures" },
  { to: "/settings/server", label: "This server" },
  { to: "/settings/access", label: "Access" },
] as const;

export function SettingsLayout() {
  const workspaces = useQuery(workspacesQuery);
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
        {workspaces.data && workspaces.data.length > 0 && (
          <>
            <p className="settings-group">Workspaces</p>
            <ul className="plain">
              {workspaces.data.map((w) => (
                <li key={w.name}>
                  <Link to="/settings/workspaces/$workspace" params={{ workspace: w.name }}>
                    <span className="clip">{w.name}</span>
                  </Link>
                </li>
              ))}
            </ul>
          </>
        )}
      </nav>
      <div className="settings-body">
        <Outlet />
      </div>
    </div>
  );
}
