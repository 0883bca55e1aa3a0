import { useQuery } from "@tanstack/react-query";
import { Outlet, useRouterState } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { feed } from "../api/client";
import { Problem } from "../api/http";
import { serverQuery } from "../api/queries";
import { Loading } from "../ui/Notes";
import { IconButton } from "../ui/Button";
import { ApprovalStack } from "../approvals/ApprovalStack";
import { ConnectionBanner } from "./ConnectionBanner";
import { cycleRegions } from "./regions";
import { Sidebar } from "./Sidebar";
import { SignIn } from "./SignIn";
import { Toasts } from "./toasts";
import { Unreached } from "./Unreached";

/** The frame around every page: who is there decides whether it shows the application or the way in. */
export function Shell() {
  const server = useQuery(serverQuery);
  const signedOut = server.error instanceof Problem && server.error.code === "unauthenticated";
  if (signedOut) return <SignIn />;
  if (server.data) return <Application />;
  if (server.error) return <Unreached error={server.error} onRetry={() => void server.refetch()} />;
  return (
    <main className="centre">
      <Loading what="Connecting to the server" />
    </main>
  );
}

function Application() {
  const [menu, setMenu] = useState(false);
  const path = useRouterState({ select: (s) => s.location.href });
  // Going somewhere closes the drawer that the sidebar is on narrow screens.
  const [shownAt, setShownAt] = useState(path);
  if (shownAt !== path) {
    setShownAt(path);
    setMenu(false);
  }
  useEffect(() => feed.start(), []);
  useEffect(() => {
    const onKey = (e: KeyboardEvent) => {
      if (e.key === "F6") {
        e.preventDefault();
        cycleRegions(e.shiftKey);
      } else if (e.key === "Escape") setMenu(false);
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
  return (
    <div className="app" data-menu={menu || undefined}>
      <a className="skip" href="#main" onClick={(e) => {
        e.preventDefault();
        document.getElementById("main")?.focus();
      }}>
        Skip to content
      </a>
      <div className="topbar">
        <IconButton icon="menu" label={menu ? "Close the menu" : "Open the menu"} aria-expanded={menu} aria-controls="sidebar" onClick={() => setMenu(!menu)} />
        <span className="brand">Rigs</span>
      </div>
      <Sidebar />
      <div className="scrim" onClick={() => setMenu(false)} aria-hidden="true" />
      <div className="content">
        <ConnectionBanner />
        <main id="main" tabIndex={-1} data-region="content">
          <Outlet />
        </main>
      </div>
      <ApprovalStack />
      <Toasts />
    </div>
  );
}
