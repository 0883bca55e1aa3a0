import { createRootRoute, createRoute, createRouter, redirect } from "@tanstack/react-router";
import { ApprovalsPage } from "./approvals/ApprovalsPage";
import { HomePage } from "./shell/HomePage";
import { NotFound } from "./shell/NotFound";
import { Shell } from "./shell/Shell";
import { AccessPage } from "./settings/AccessPage";
import { EnclosuresPage } from "./settings/EnclosuresPage";
import { ServerPage } from "./settings/ServerPage";
import { SettingsLayout } from "./settings/SettingsLayout";
import { WorkspacePage } from "./settings/WorkspacePage";
import { SpacePage } from "./space/SpacePage";
import { isTab, type TabName } from "./space/tabs";

const root = createRootRoute({ component: Shell, notFoundComponent: NotFound });

const home = createRoute({ getParentRoute: () => root, path: "/", component: HomePage });

export type PanelName = "egress" | "audit" | "details";

const panels = ["egress", "audit", "details", "none"] as const;

export interface SpaceSearch {
  tab?: TabName;
  panel?: PanelName | "none";
}

const space = createRoute({
  getParentRoute: () => root,
  path: "/w/$workspace/$space",
  // Whatever an address says, only what the page knows gets through.
  validateSearch: (search: Record<string, unknown>): SpaceSearch => {
    const out: SpaceSearch = {};
    if (isTab(search["tab"])) out.tab = search["tab"];
    const panel = panels.find((p) => p === search["panel"]);
    if (panel) out.panel = panel;
    return out;
  },
  component: SpacePage,
});

const approvals = createRoute({ getParentRoute: () => root, path: "/approvals", component: ApprovalsPage });

const settings = createRoute({ getParentRoute: () => root, path: "/settings", component: SettingsLayout });
const settingsIndex = createRoute({
  getParentRoute: () => settings,
  path: "/",
  beforeLoad: () => {
    throw redirect({ to: "/settings/enclosures" });
  },
});
const enclosures = createRoute({ getParentRoute: () => settings, path: "/enclosures", component: EnclosuresPage });
const server = createRoute({ getParentRoute: () => settings, path: "/server", component: ServerPage });
const access = createRoute({ getParentRoute: () => settings, path: "/access", component: AccessPage });

const workspace = createRoute({ getParentRoute: () => settings, path: "/workspaces/$workspace", component: WorkspacePage });

export const router = createRouter({
  routeTree: root.addChildren([home, space, approvals, settings.addChildren([settingsIndex, enclosures, server, access, workspace])]),
  defaultPreload: false,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
