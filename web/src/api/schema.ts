// Generated from client/openapi.json by "npm run generate"; do not edit.

export interface paths {
    "/v1/approvals": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Questions to people, the newest first */
        get: operations["listApprovals"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/approvals/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A question to people; with wait=answer, when it was answered, has expired or was canceled */
        get: operations["getApproval"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/approvals/{id}/approve": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Say yes; for people. The answer comes when what was asked is done */
        post: operations["approve"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/approvals/{id}/deny": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Say no; for people */
        post: operations["refuse"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/audit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Rows of the server's own audit log, oldest first; for its admins */
        get: operations["getServerAudit"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/audit/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The server's own whole audit log as JSON Lines */
        get: operations["exportServerAudit"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/audit/verify": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Check the server's own audit log */
        get: operations["verifyServerAudit"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/doctor": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What this host can boot, from trying */
        get: operations["getDoctor"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Events of rigs as they happen, beginning with one for every live rig */
        get: operations["watchEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/images": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Image definitions, and what was built from them */
        get: operations["listImages"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/images/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Remove what was built of an image */
        delete: operations["removeImage"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/images/{name}/build": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Build an image */
        post: operations["buildImage"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/rigs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List rigs */
        get: operations["listRigs"];
        put?: never;
        /** Begin a rig (201), or return the one that the space has (200) */
        post: operations["openRig"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/rigs/{rig}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A rig; with wait=ready, when it is not provisioning any more */
        get: operations["getRig"];
        put?: never;
        post?: never;
        /** Close a rig; the answer comes when its machine is gone */
        delete: operations["closeRig"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/rigs/{rig}/act": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Do one action on a rig: a verb of its surface, with what that takes */
        post: operations["act"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/rigs/{rig}/audit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Rows of a rig's audit log, oldest first; also of a closed rig */
        get: operations["getAudit"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/rigs/{rig}/audit/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A rig's whole audit log as JSON Lines */
        get: operations["exportAudit"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/rigs/{rig}/audit/verify": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Check a rig's audit log: whether a row was changed, taken out or put in */
        get: operations["verifyAudit"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/rigs/{rig}/egress": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The patterns that a rig's gate admits, and when they end */
        get: operations["getEgress"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/rigs/{rig}/egress/allow": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Admit a pattern, for a time or as long as the rig lives */
        post: operations["allowEgress"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/rigs/{rig}/egress/ask": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Ask a person to admit a pattern; it is admitted when one approves */
        post: operations["askEgress"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/rigs/{rig}/egress/deny": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Remove a pattern and close what only it admitted */
        post: operations["denyEgress"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/rigs/{rig}/egress/log": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What the gate decided; also of a closed rig */
        get: operations["getEgressLog"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/rigs/{rig}/exec": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Run a command with its streams connected (upgrade) */
        get: operations["execStream"];
        put?: never;
        /** Run a command to its end and return its output */
        post: operations["execCollect"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/rigs/{rig}/files": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The file or tree at path, as a tar stream with names relative to its parent */
        get: operations["readFiles"];
        /** Extract a tar stream into directory path */
        put: operations["writeFiles"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/rigs/{rig}/give": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Give control of a rig back */
        post: operations["giveControl"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/rigs/{rig}/park": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Stop a rig's processors; its memory stays */
        post: operations["parkRig"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/rigs/{rig}/stat": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Describe a file in a rig */
        get: operations["statFile"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/rigs/{rig}/take": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Take control of a rig: nobody else's actions change anything in it then */
        post: operations["takeControl"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/rigs/{rig}/terminal": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Attach to a terminal session (upgrade) */
        get: operations["terminalStream"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/rigs/{rig}/wake": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Let a parked rig go on */
        post: operations["wakeRig"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/server": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What the server is, and who the caller is */
        get: operations["getServer"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/shed": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** A conversation with all images but the newest replaced by their descriptions */
        post: operations["shedImages"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/signin-links": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** A one-time address that signs a browser in as the caller */
        post: operations["createSigninLink"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/signout": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** End the browser's session */
        post: operations["signOut"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/templates": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Frozen machines that rigs are cloned from */
        get: operations["listTemplates"];
        put?: never;
        /** Make a template, unless it is there */
        post: operations["makeTemplate"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/templates/{key}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Remove a template; rigs that were cloned from it go on */
        delete: operations["removeTemplate"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tokens": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List tokens */
        get: operations["listTokens"];
        put?: never;
        /** Make a token; its secret is shown this once */
        post: operations["createToken"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tokens/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Revoke a token, and the sessions that came from it */
        delete: operations["revokeToken"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/workspaces": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List workspaces */
        get: operations["listWorkspaces"];
        put?: never;
        /** Make a workspace */
        post: operations["createWorkspace"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/workspaces/{workspace}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Close a workspace's rigs and forget it */
        delete: operations["deleteWorkspace"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/workspaces/{workspace}/egress": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What a workspace changes in the default egress lists, and what results */
        get: operations["getWorkspaceEgress"];
        /** Replace what a workspace changes in the default egress lists; it counts for rigs opened from then on */
        put: operations["putWorkspaceEgress"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/workspaces/{workspace}/members": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Who has a role of their own in a workspace */
        get: operations["listMembers"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/workspaces/{workspace}/members/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Give a principal a role; who has one somewhere has none elsewhere */
        put: operations["putMember"];
        post?: never;
        /** Take a principal's role away */
        delete: operations["deleteMember"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/workspaces/{workspace}/rules": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A workspace's guardrails, oldest first */
        get: operations["listRules"];
        put?: never;
        /** Add a guardrail for agents */
        post: operations["addRule"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/workspaces/{workspace}/rules/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Remove a guardrail */
        delete: operations["deleteRule"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/workspaces/{workspace}/spaces": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List a workspace's spaces */
        get: operations["listSpaces"];
        put?: never;
        /** Make a space */
        post: operations["createSpace"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/workspaces/{workspace}/spaces/{space}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Close a space's rigs and forget it */
        delete: operations["deleteSpace"];
        options?: never;
        head?: never;
        /** Change how a space is worked in */
        patch: operations["changeSpace"];
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        ActResult: {
            /** @description Of list_dir */
            dir?: components["schemas"]["Listing"];
            exec?: components["schemas"]["ExecResult"];
            /** @description Of read_file */
            file?: components["schemas"]["FileText"];
            screen?: components["schemas"]["Screen"];
            verb: string;
            /** @description Of write_file */
            written?: components["schemas"]["FileInfo"];
        };
        Approval: {
            /** Format: date-time */
            answeredAt?: string;
            answeredBy?: string;
            /** @description Who asks */
            by: components["schemas"]["Principal"];
            /** @enum {string} */
            class: "enclosureControl" | "networkEgress" | "processSpawn" | "secretAccess";
            /** Format: date-time */
            createdAt: string;
            /**
             * Format: date-time
             * @description When no answer counts as denied
             */
            expiresAt: string;
            id: string;
            /** @enum {string} */
            kind: "egress" | "action";
            /** @description In the answerer's words */
            note?: string;
            /** @description Egress pattern, in canonical spelling */
            pattern?: string;
            /** @description In the asker's words */
            reason?: string;
            rigId?: string;
            space: string;
            /** @enum {string} */
            state: "pending" | "approved" | "denied" | "expired" | "canceled";
            /** @description What the action would do, in a line */
            summary?: string;
            /**
             * Format: int64
             * @description How long the pattern is asked to be admitted; 0: as long as the rig lives
             */
            ttlSeconds?: number;
            /** @description The action, for kind action */
            verb?: string;
            workspace: string;
        };
        ApprovalAnswer: {
            note?: string;
            /** @description When approving egress: the pattern to admit instead */
            pattern?: string;
            /**
             * @description Write a rule with this answer for the rest of the space, the agent or the workspace (kind action)
             * @enum {string}
             */
            remember?: "space" | "agent" | "workspace";
            /**
             * Format: int64
             * @description When approving egress: for how long instead of what was asked; 0: as long as the rig lives
             */
            ttlSeconds?: number;
        };
        Approvals: {
            approvals: components["schemas"]["Approval"][] | null;
        };
        AuditLog: {
            /** @description There are more rows after these */
            more?: boolean;
            rows: components["schemas"]["AuditRow"][] | null;
        };
        AuditRow: {
            /** @description Verb, such as exec, terminal.input, take, egress.allow */
            action: string;
            class?: string;
            detail?: {
                [key: string]: string;
            };
            /** @description Hex SHA-256 of the row and the hash of the row before it */
            hash: string;
            /** @enum {string} */
            kind: "person" | "agent" | "system";
            /** @description allowed; a code such as denied or controlHeld; of an end: done or a code */
            outcome: string;
            principal: string;
            /**
             * Format: int64
             * @description Of an end: number of the row of the action's beginning
             */
            ref?: number;
            rigId?: string;
            /**
             * Format: int64
             * @description 1, 2, 3 … within the log
             */
            seq: number;
            /** Format: date-time */
            time: string;
        };
        AuditVerified: {
            /**
             * Format: int64
             * @description Number of the first row that is not as it was written, or is missing
             */
            badSeq?: number;
            detail?: string;
            /** @description Its hash */
            lastHash?: string;
            /**
             * Format: int64
             * @description Number of the last row
             */
            lastSeq?: number;
            ok: boolean;
            /**
             * Format: int64
             * @description How many were checked
             */
            rows: number;
        };
        BuildImage: {
            /** @description Build even if the definition has not changed */
            noCache?: boolean;
        };
        Check: {
            detail?: string;
            fix?: string;
            name: string;
            ok: boolean;
        };
        Control: {
            holder: components["schemas"]["Principal"];
            /** Format: date-time */
            since: string;
        };
        CreatedToken: {
            /** Format: date-time */
            createdAt: string;
            /** Format: date-time */
            expiresAt?: string;
            id: string;
            /** @enum {string} */
            kind: "person" | "agent";
            /**
             * Format: date-time
             * @description To the minute
             */
            lastUsedAt?: string;
            name: string;
            /** @description What its principal may do, and where */
            roles: components["schemas"]["Grant"][] | null;
            token: string;
        };
        Cursor: {
            /** Format: int64 */
            col: number;
            hidden?: boolean;
            /** Format: int64 */
            row: number;
        };
        Doctor: {
            checks: components["schemas"]["Check"][] | null;
            host: components["schemas"]["Host"];
            surfaces: components["schemas"]["Surface"][] | null;
        };
        EgressAsk: {
            /** @description Egress pattern such as example.com */
            pattern: string;
            /** @description What it is needed for, for the person who answers */
            reason: string;
            /**
             * Format: int64
             * @description No answer after this long counts as denied; 0: 300
             */
            timeoutSeconds?: number;
            /**
             * Format: int64
             * @description For how long; 0: as long as the rig lives
             */
            ttlSeconds?: number;
        };
        EgressChange: {
            pattern: string;
            /**
             * Format: int64
             * @description When admitting: for how long; 0: as long as the rig lives
             */
            ttlSeconds?: number;
        };
        EgressEntry: {
            /**
             * Format: date-time
             * @description When it ends and its connections are closed; absent: with the rig
             */
            expiresAt?: string;
            pattern: string;
        };
        EgressEvent: {
            /** @description Address the guest or the gate dialled */
            address?: string;
            /**
             * Format: int64
             * @description To the guest, at a connection's end
             */
            bytesIn?: number;
            /**
             * Format: int64
             * @description From the guest, at a connection's end
             */
            bytesOut?: number;
            /**
             * Format: int64
             * @description How many like it this line stands for, when more than one
             */
            count?: number;
            /** @description Name the guest asked for, in canonical form */
            host?: string;
            /** Format: int64 */
            port?: number;
            /** @description tcp, udp, icmp, ipv6, dns or other */
            protocol: string;
            reason: string;
            /**
             * Format: double
             * @description Duration, at a connection's end
             */
            seconds?: number;
            /** Format: int64 */
            seq: number;
            /** Format: date-time */
            time: string;
            /**
             * @description What the gate decided
             * @enum {string}
             */
            verdict: "allow" | "deny";
        };
        EgressLog: {
            events: components["schemas"]["EgressEvent"][] | null;
            /** Format: int64 */
            lost?: number;
        };
        EgressRules: {
            entries: components["schemas"]["EgressEntry"][] | null;
            patterns: string[] | null;
        };
        Entry: {
            /** Format: int32 */
            mode: number;
            /** Format: date-time */
            mtime: string;
            /** @description Bytes that are not UTF-8 are shown as \xNN */
            name: string;
            /** @description The name as it is, when it is not UTF-8 */
            raw?: string;
            /** Format: int64 */
            size: number;
            /** @description Of a symlink */
            target?: string;
            /** @enum {string} */
            type: "file" | "dir" | "symlink" | "other";
        };
        Event: {
            approval?: components["schemas"]["Approval"];
            audit?: components["schemas"]["AuditRow"];
            egress?: components["schemas"]["EgressEvent"];
            rig?: components["schemas"]["Rig"];
            rigId?: string;
            /** @description The rig's egress patterns after a change */
            rules?: string[] | null;
            /** @enum {string} */
            type: "rig" | "egress" | "rules" | "approval" | "audit";
        };
        ExecArgs: {
            /** @description Program and arguments, without a shell */
            argv?: string[] | null;
            /** @description Directory; default: the user's home */
            cwd?: string;
            /** @description NAME=value, added to the login environment */
            env?: string[] | null;
            /** @description A line for /bin/sh */
            shell?: string;
            /** @description Standard input; default: none */
            stdin?: string;
            /**
             * Format: double
             * @description Seconds after which it is killed; default: 120
             */
            timeout?: number;
        };
        ExecCollect: {
            argv?: string[] | null;
            cwd?: string;
            env?: string[] | null;
            input?: string;
            /** Format: int64 */
            limit?: number;
            root?: boolean;
            shell?: string;
            size?: components["schemas"]["Size"];
            stdin?: boolean;
            /** Format: double */
            timeoutSeconds?: number;
            tty?: boolean;
        };
        ExecRequest: {
            argv?: string[] | null;
            cwd?: string;
            env?: string[] | null;
            root?: boolean;
            shell?: string;
            size?: components["schemas"]["Size"];
            stdin?: boolean;
            /** Format: double */
            timeoutSeconds?: number;
            tty?: boolean;
        };
        ExecResult: {
            /** Format: int64 */
            code: number;
            /** Format: double */
            seconds: number;
            signal?: string;
            stderr: string;
            stderrTruncated?: boolean;
            stdout: string;
            stdoutTruncated?: boolean;
            timedOut?: boolean;
        };
        FileInfo: {
            /** Format: int32 */
            mode: number;
            /** Format: date-time */
            mtime: string;
            path: string;
            /** Format: int64 */
            size: number;
            target?: string;
            type: string;
        };
        FileText: {
            content: string;
            /**
             * @description Of content: base64 when the bytes are not UTF-8 text
             * @enum {string}
             */
            encoding: "text" | "base64";
            /**
             * Format: int64
             * @description Where what follows begins; absent at the end
             */
            nextOffset?: number;
            /** Format: int64 */
            offset: number;
            path: string;
            /**
             * Format: int64
             * @description Of the whole file
             */
            size: number;
        };
        Grant: {
            /** @enum {string} */
            role: "viewer" | "member" | "admin" | "owner";
            /** @description * for all of them */
            workspace: string;
        };
        Host: {
            arch: string;
            /** Format: int64 */
            cpus: number;
            /** Format: int64 */
            diskFreeMB: number;
            /** Format: int64 */
            memoryMB: number;
            os: string;
        };
        Image: {
            /** Format: date-time */
            createdAt?: string;
            /** @description The surface's own image, used when a Spec names none */
            default: boolean;
            detail?: string;
            digest?: string;
            name: string;
            /** Format: int64 */
            sizeBytes: number;
            /** @enum {string} */
            state: "ready" | "missing" | "corrupt";
            surfaces: string[] | null;
        };
        Images: {
            images: components["schemas"]["Image"][] | null;
        };
        ListDirArgs: {
            /**
             * Format: int64
             * @description Most entries; default: 500
             */
            limit?: number;
            /** @description Absolute, or relative to the user's home; default: that */
            path?: string;
        };
        Listing: {
            entries: components["schemas"]["Entry"][] | null;
            /** @description Entries were left out */
            more?: boolean;
            path: string;
        };
        MakeTemplate: {
            /** @enum {string} */
            engine?: "chromium" | "firefox" | "webkit";
            /** @description Make it again even if it is there */
            fresh?: boolean;
            image?: string;
            /** Format: int64 */
            memoryMB?: number;
            /** @enum {string} */
            surface: "terminal" | "browser" | "desktop" | "phone" | "mac";
            /** Format: int64 */
            vcpus?: number;
        };
        Members: {
            members: components["schemas"]["Membership"][] | null;
        };
        Membership: {
            principal: string;
            /** @enum {string} */
            role: "viewer" | "member" | "admin" | "owner";
        };
        Name: {
            /** @description 1 to 63 of a-z 0-9 . _ -, beginning with a letter or digit */
            name: string;
        };
        NewRole: {
            /** @enum {string} */
            role: "viewer" | "member" | "admin" | "owner";
        };
        NewRule: {
            agent?: string;
            /** @enum {string} */
            class: "enclosureControl" | "networkEgress" | "processSpawn" | "secretAccess";
            /** @enum {string} */
            effect: "allow" | "ask" | "deny";
            /** @enum {string} */
            mode?: "normal" | "readOnly";
            space?: string;
        };
        NewToken: {
            /** @enum {string} */
            kind: "person" | "agent";
            /** @description Name of the principal that bears it */
            name: string;
            /**
             * @description What the principal may do; default: a person everything, an agent what a member may
             * @enum {string}
             */
            role?: "viewer" | "member" | "admin" | "owner";
            /**
             * Format: int64
             * @description It is refused after this long; 0: never
             */
            ttlSeconds?: number;
            /** @description The only workspace that it may do it in; default: all */
            workspace?: string;
        };
        Principal: {
            /** @enum {string} */
            kind: "person" | "agent";
            name: string;
        };
        Problem: {
            /** @description Id of the approval that was asked for */
            approval?: string;
            code: string;
            detail: string;
            /** @description The field of the request that is wrong */
            field?: string;
            holder?: components["schemas"]["Principal"];
            /** Format: int64 */
            status?: number;
            title?: string;
            type?: string;
        };
        ReadFileArgs: {
            /**
             * Format: int64
             * @description Most bytes; default: 65536
             */
            limit?: number;
            /**
             * Format: int64
             * @description First byte; default: 0
             */
            offset?: number;
            /** @description Absolute, or relative to the user's home */
            path: string;
        };
        Resources: {
            /**
             * Format: int64
             * @description The most the rig can write, in MB
             */
            diskMB: number;
            /**
             * Format: int64
             * @description Unused for this long, the rig is parked; for twice as long, closed
             */
            idleSeconds: number;
            /**
             * Format: int64
             * @description Memory of the machine in MB (2^20 bytes)
             */
            memoryMB: number;
            /**
             * Format: int64
             * @description The rig is closed this long after it was opened, whatever happens inside
             */
            ttlSeconds: number;
            /**
             * Format: int64
             * @description Virtual processors
             */
            vcpus: number;
        };
        Rig: {
            /** @description kvm, tcg or hvf */
            accel?: string;
            /**
             * @description How the machine started: clone or cold
             * @enum {string}
             */
            boot?: "clone" | "cold";
            closeReason?: string;
            /** Format: date-time */
            closedAt?: string;
            /** @description Who holds control; absent when nobody does and agents may act */
            control?: components["schemas"]["Control"];
            /** @description Egress patterns admitted now */
            egress: string[] | null;
            engine?: string;
            /** @description Why it failed */
            error?: components["schemas"]["Problem"];
            /** Format: date-time */
            expiresAt: string;
            id: string;
            /** @description Image reference with digest */
            image: string;
            /** @description What counts as use right now, such as '1 command running' */
            inUse?: string[] | null;
            /** Format: date-time */
            openedAt: string;
            /** @description Principal that opened it */
            openedBy: string;
            phase: string;
            /** Format: date-time */
            readyAt?: string;
            /**
             * Format: int64
             * @description Memory of the host that it takes, measured, in MB; where it can be measured
             */
            residentMB?: number;
            resources: components["schemas"]["Resources"];
            space: string;
            /** @description What is being done, while provisioning */
            step?: components["schemas"]["Step"];
            surface: string;
            workspace: string;
        };
        Rigs: {
            rigs: components["schemas"]["Rig"][] | null;
        };
        Rule: {
            /** @description Only for the agent of this name */
            agent?: string;
            /** @enum {string} */
            class: "enclosureControl" | "networkEgress" | "processSpawn" | "secretAccess";
            /** Format: date-time */
            createdAt: string;
            createdBy: string;
            /** @enum {string} */
            effect: "allow" | "ask" | "deny";
            id: string;
            /**
             * @description Only in spaces of this mode
             * @enum {string}
             */
            mode?: "normal" | "readOnly";
            /** @description Only in this space */
            space?: string;
        };
        Rules: {
            rules: components["schemas"]["Rule"][] | null;
        };
        Screen: {
            cursor: components["schemas"]["Cursor"];
            lines: string[] | null;
            session: string;
            size: components["schemas"]["Size"];
        };
        ScreenArgs: {
            /** @description Terminal session; default: main, which is the page's */
            session?: string;
        };
        Server: {
            dataDir: string;
            /** @description Who the server takes the caller for */
            principal: components["schemas"]["Principal"];
            /** Format: date-time */
            startedAt: string;
            version: string;
        };
        SigninLink: {
            /** Format: date-time */
            expiresAt: string;
            url: string;
        };
        Size: {
            /** Format: int64 */
            cols: number;
            /** Format: int64 */
            rows: number;
        };
        Space: {
            /** Format: date-time */
            createdAt: string;
            /**
             * @description In a readOnly space agents observe and change nothing
             * @enum {string}
             */
            mode?: "normal" | "readOnly";
            name: string;
            /**
             * Format: int64
             * @description How many of its rigs are live
             */
            rigs: number;
            workspace: string;
        };
        SpaceChange: {
            /**
             * @description In a readOnly space agents observe and change nothing
             * @enum {string}
             */
            mode: "normal" | "readOnly";
        };
        Spaces: {
            spaces: components["schemas"]["Space"][] | null;
        };
        Spec: {
            /** @description Egress patterns admitted in addition to the defaults, such as example.com or *.example.com:443 */
            allow?: string[] | null;
            /** @description Boot from the image instead of cloning the template */
            cold?: boolean;
            /**
             * @description Browser engine, for surface browser
             * @enum {string}
             */
            engine?: "chromium" | "firefox" | "webkit";
            /** Format: int64 */
            idleSeconds?: number;
            /** @description Image other than the surface's own: a name from 'rigs image ls', optionally with @sha256:… */
            image?: string;
            /** Format: int64 */
            memoryMB?: number;
            /** @description Open another rig even if the space has one of this surface */
            new?: boolean;
            /** @description Start with an empty egress list instead of the surface's default */
            noDefaults?: boolean;
            /** @description Space that the rig belongs to; default 'default'. Made when it does not exist */
            space?: string;
            /**
             * @description What is driven
             * @enum {string}
             */
            surface: "terminal" | "browser" | "desktop" | "phone" | "mac";
            /** Format: int64 */
            ttlSeconds?: number;
            /** Format: int64 */
            vcpus?: number;
            /** @description Workspace; default 'default' */
            workspace?: string;
        };
        Step: {
            /** Format: int64 */
            done?: number;
            text: string;
            /** Format: int64 */
            total?: number;
            /** @enum {string} */
            unit?: "bytes" | "files" | "packages" | "steps";
        };
        Surface: {
            accel?: string;
            checks?: string[] | null;
            detail?: string;
            fix?: string;
            /** @enum {string} */
            state: "ready" | "missing" | "unsupported";
            surface: string;
        };
        SurfaceEgress: {
            /** @description Patterns that rigs opened from now on start with, too */
            add?: string[] | null;
            readonly effective?: string[] | null;
            /** @description Patterns of the default list that they start without */
            remove?: string[] | null;
            /** @enum {string} */
            surface: "terminal" | "browser" | "desktop" | "phone" | "mac";
        };
        Take: {
            /** @description Take it from another person; for admins */
            force?: boolean;
            /** @description Names the viewer, whose event stream says viewer= too: control is given back when no such stream was there for a minute */
            viewer?: string;
        };
        Template: {
            accel: string;
            /** Format: date-time */
            createdAt: string;
            detail?: string;
            engine?: string;
            image: string;
            key: string;
            /** Format: int64 */
            memoryMB: number;
            /** Format: int64 */
            sizeBytes: number;
            /** @enum {string} */
            state: "ready" | "stale" | "corrupt";
            surface: string;
            /** Format: int64 */
            vcpus: number;
        };
        Templates: {
            templates: components["schemas"]["Template"][] | null;
        };
        TerminalRequest: {
            ephemeral?: boolean;
            session: string;
            size: components["schemas"]["Size"];
        };
        Token: {
            /** Format: date-time */
            createdAt: string;
            /** Format: date-time */
            expiresAt?: string;
            id: string;
            /** @enum {string} */
            kind: "person" | "agent";
            /**
             * Format: date-time
             * @description To the minute
             */
            lastUsedAt?: string;
            name: string;
            /** @description What its principal may do, and where */
            roles: components["schemas"]["Grant"][] | null;
        };
        Tokens: {
            tokens: components["schemas"]["Token"][] | null;
        };
        Workspace: {
            /** Format: date-time */
            createdAt: string;
            name: string;
            /**
             * Format: int64
             * @description How many of its rigs are live
             */
            rigs: number;
            /**
             * Format: int64
             * @description How many spaces it holds
             */
            spaces: number;
        };
        WorkspaceEgress: {
            surfaces: components["schemas"]["SurfaceEgress"][] | null;
        };
        Workspaces: {
            workspaces: components["schemas"]["Workspace"][] | null;
        };
        WriteFileArgs: {
            /** @description Add to the end instead of replacing the file */
            append?: boolean;
            /** @description At most 1 MB */
            content: string;
            /**
             * @description Of content; default: text
             * @enum {string}
             */
            encoding?: "text" | "base64";
            /** @description Permissions in octal, such as 755; default: those of the file that is replaced, or 644 */
            mode?: string;
            /** @description Absolute, or relative to the user's home */
            path: string;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    listApprovals: {
        parameters: {
            query?: {
                /** @description Only this workspace's */
                workspace?: string;
                /** @description Only this space's */
                space?: string;
                /** @description Only this rig's, in any form that names one */
                rig?: string;
                /** @description Only those in this state */
                state?: "pending" | "approved" | "denied" | "expired" | "canceled";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Approvals"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    getApproval: {
        parameters: {
            query?: {
                /** @description Wait until it is not pending any more */
                wait?: "answer";
                /** @description How long to wait; then it is returned as it is */
                timeoutSeconds?: number;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Approval"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    approve: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ApprovalAnswer"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Approval"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    refuse: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ApprovalAnswer"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Approval"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    getServerAudit: {
        parameters: {
            query?: {
                /** @description Only rows with a higher number */
                after?: number;
                /** @description At most so many */
                limit?: number;
                /** @description The last ones instead of the first ones; without after */
                tail?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuditLog"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    exportServerAudit: {
        parameters: {
            query?: {
                /** @description Only rows with a higher number */
                after?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description One AuditRow a line */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/jsonl": string;
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    verifyServerAudit: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuditVerified"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    getDoctor: {
        parameters: {
            query?: {
                /** @description Try again instead of using what was found before */
                fresh?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Doctor"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    watchEvents: {
        parameters: {
            query?: {
                /** @description Only this workspace's */
                workspace?: string;
                /** @description Only this space's */
                space?: string;
                /** @description Only this rig's, in any form that names one */
                rig?: string;
                /** @description Names the viewer that this stream is of, as POST …/take does */
                viewer?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Server-sent events. Each property of the schema is the name of an event, its value the data of it. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": {
                        approval?: components["schemas"]["Event"];
                        audit?: components["schemas"]["Event"];
                        egress?: components["schemas"]["Event"];
                        rig?: components["schemas"]["Event"];
                        rules?: components["schemas"]["Event"];
                    };
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    listImages: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Images"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    removeImage: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    buildImage: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["BuildImage"];
            };
        };
        responses: {
            /** @description Server-sent events. Each property of the schema is the name of an event, its value the data of it. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": {
                        done?: components["schemas"]["Image"];
                        error?: components["schemas"]["Problem"];
                        step?: components["schemas"]["Step"];
                    };
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    listRigs: {
        parameters: {
            query?: {
                /** @description Only this workspace's */
                workspace?: string;
                /** @description Only this space's */
                space?: string;
                /** @description Closed ones too, newest first */
                all?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Rigs"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    openRig: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Spec"];
            };
        };
        responses: {
            /** @description The rig that the space has */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Rig"];
                };
            };
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Rig"];
                };
            };
        };
    };
    getRig: {
        parameters: {
            query?: {
                /** @description Workspace of SPACE/SURFACE; default 'default' */
                workspace?: string;
                /** @description Wait until the rig is not provisioning any more */
                wait?: "ready";
                /** @description How long to wait; then the rig is returned as it is */
                timeoutSeconds?: number;
            };
            header?: never;
            path: {
                /** @description Id, a unique prefix of it (3 characters at least), or SPACE/SURFACE[:ENGINE] with the slash as %2F */
                rig: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Rig"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    closeRig: {
        parameters: {
            query?: {
                /** @description Workspace of SPACE/SURFACE; default 'default' */
                workspace?: string;
            };
            header?: never;
            path: {
                /** @description Id, a unique prefix of it (3 characters at least), or SPACE/SURFACE[:ENGINE] with the slash as %2F */
                rig: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Rig"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    act: {
        parameters: {
            query?: {
                /** @description Workspace of SPACE/SURFACE; default 'default' */
                workspace?: string;
            };
            header?: never;
            path: {
                rig: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": ({
                    /** @enum {string} */
                    verb: "exec";
                } & components["schemas"]["ExecArgs"]) | ({
                    /** @enum {string} */
                    verb: "read_file";
                } & components["schemas"]["ReadFileArgs"]) | ({
                    /** @enum {string} */
                    verb: "write_file";
                } & components["schemas"]["WriteFileArgs"]) | ({
                    /** @enum {string} */
                    verb: "list_dir";
                } & components["schemas"]["ListDirArgs"]) | ({
                    /** @enum {string} */
                    verb: "screen";
                } & components["schemas"]["ScreenArgs"]);
            };
        };
        responses: {
            /** @description What it gave, in the field of the verb */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ActResult"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    getAudit: {
        parameters: {
            query?: {
                /** @description Workspace of SPACE/SURFACE; default 'default' */
                workspace?: string;
                /** @description Only rows with a higher number */
                after?: number;
                /** @description At most so many */
                limit?: number;
                /** @description The last ones instead of the first ones; without after */
                tail?: boolean;
            };
            header?: never;
            path: {
                /** @description Id, a unique prefix of it (3 characters at least), or SPACE/SURFACE[:ENGINE] with the slash as %2F */
                rig: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuditLog"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    exportAudit: {
        parameters: {
            query?: {
                /** @description Workspace of SPACE/SURFACE; default 'default' */
                workspace?: string;
                /** @description Only rows with a higher number */
                after?: number;
            };
            header?: never;
            path: {
                /** @description Id, a unique prefix of it (3 characters at least), or SPACE/SURFACE[:ENGINE] with the slash as %2F */
                rig: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description One AuditRow a line */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/jsonl": string;
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    verifyAudit: {
        parameters: {
            query?: {
                /** @description Workspace of SPACE/SURFACE; default 'default' */
                workspace?: string;
            };
            header?: never;
            path: {
                /** @description Id, a unique prefix of it (3 characters at least), or SPACE/SURFACE[:ENGINE] with the slash as %2F */
                rig: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuditVerified"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    getEgress: {
        parameters: {
            query?: {
                /** @description Workspace of SPACE/SURFACE; default 'default' */
                workspace?: string;
            };
            header?: never;
            path: {
                /** @description Id, a unique prefix of it (3 characters at least), or SPACE/SURFACE[:ENGINE] with the slash as %2F */
                rig: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EgressRules"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    allowEgress: {
        parameters: {
            query?: {
                /** @description Workspace of SPACE/SURFACE; default 'default' */
                workspace?: string;
            };
            header?: never;
            path: {
                /** @description Id, a unique prefix of it (3 characters at least), or SPACE/SURFACE[:ENGINE] with the slash as %2F */
                rig: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EgressChange"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EgressRules"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    askEgress: {
        parameters: {
            query?: {
                /** @description Workspace of SPACE/SURFACE; default 'default' */
                workspace?: string;
            };
            header?: never;
            path: {
                /** @description Id, a unique prefix of it (3 characters at least), or SPACE/SURFACE[:ENGINE] with the slash as %2F */
                rig: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EgressAsk"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Approval"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    denyEgress: {
        parameters: {
            query?: {
                /** @description Workspace of SPACE/SURFACE; default 'default' */
                workspace?: string;
            };
            header?: never;
            path: {
                /** @description Id, a unique prefix of it (3 characters at least), or SPACE/SURFACE[:ENGINE] with the slash as %2F */
                rig: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EgressChange"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EgressRules"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    getEgressLog: {
        parameters: {
            query?: {
                /** @description Workspace of SPACE/SURFACE; default 'default' */
                workspace?: string;
                /** @description Only events with a higher number */
                after?: number;
            };
            header?: never;
            path: {
                /** @description Id, a unique prefix of it (3 characters at least), or SPACE/SURFACE[:ENGINE] with the slash as %2F */
                rig: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EgressLog"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    execStream: {
        parameters: {
            query?: {
                /** @description Workspace of SPACE/SURFACE; default 'default' */
                workspace?: string;
            };
            header?: never;
            path: {
                rig: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Frames, in both directions; the client's first is a start frame with ExecRequest. Upgrade: rigs-stream, or a WebSocket whose binary messages carry the frames as one byte stream. */
            101: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    execCollect: {
        parameters: {
            query?: {
                /** @description Workspace of SPACE/SURFACE; default 'default' */
                workspace?: string;
            };
            header?: never;
            path: {
                /** @description Id, a unique prefix of it (3 characters at least), or SPACE/SURFACE[:ENGINE] with the slash as %2F */
                rig: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ExecCollect"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExecResult"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    readFiles: {
        parameters: {
            query: {
                /** @description Absolute, or relative to the user's home */
                path: string;
                /** @description Workspace of SPACE/SURFACE; default 'default' */
                workspace?: string;
            };
            header?: never;
            path: {
                rig: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A tar stream */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-tar": string;
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    writeFiles: {
        parameters: {
            query: {
                /** @description Absolute, or relative to the user's home */
                path: string;
                /** @description Workspace of SPACE/SURFACE; default 'default' */
                workspace?: string;
            };
            header?: never;
            path: {
                rig: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/x-tar": string;
            };
        };
        responses: {
            /** @description Written */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    giveControl: {
        parameters: {
            query?: {
                /** @description Workspace of SPACE/SURFACE; default 'default' */
                workspace?: string;
            };
            header?: never;
            path: {
                /** @description Id, a unique prefix of it (3 characters at least), or SPACE/SURFACE[:ENGINE] with the slash as %2F */
                rig: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Rig"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    parkRig: {
        parameters: {
            query?: {
                /** @description Workspace of SPACE/SURFACE; default 'default' */
                workspace?: string;
            };
            header?: never;
            path: {
                /** @description Id, a unique prefix of it (3 characters at least), or SPACE/SURFACE[:ENGINE] with the slash as %2F */
                rig: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Rig"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    statFile: {
        parameters: {
            query: {
                /** @description Workspace of SPACE/SURFACE; default 'default' */
                workspace?: string;
                path: string;
            };
            header?: never;
            path: {
                /** @description Id, a unique prefix of it (3 characters at least), or SPACE/SURFACE[:ENGINE] with the slash as %2F */
                rig: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FileInfo"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    takeControl: {
        parameters: {
            query?: {
                /** @description Workspace of SPACE/SURFACE; default 'default' */
                workspace?: string;
            };
            header?: never;
            path: {
                /** @description Id, a unique prefix of it (3 characters at least), or SPACE/SURFACE[:ENGINE] with the slash as %2F */
                rig: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Take"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Rig"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    terminalStream: {
        parameters: {
            query?: {
                /** @description Workspace of SPACE/SURFACE; default 'default' */
                workspace?: string;
            };
            header?: never;
            path: {
                rig: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Frames, in both directions; the client's first is a start frame with TerminalRequest. Upgrade: rigs-stream, or a WebSocket whose binary messages carry the frames as one byte stream. */
            101: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    wakeRig: {
        parameters: {
            query?: {
                /** @description Workspace of SPACE/SURFACE; default 'default' */
                workspace?: string;
            };
            header?: never;
            path: {
                /** @description Id, a unique prefix of it (3 characters at least), or SPACE/SURFACE[:ENGINE] with the slash as %2F */
                rig: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Rig"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    getServer: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Server"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    shedImages: {
        parameters: {
            query?: {
                /** @description How many of the newest images stay */
                keep?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description A list of messages, or an object with one in 'messages' or 'input', as Anthropic's and OpenAI's APIs take it */
        requestBody: {
            content: {
                "application/json": string;
            };
        };
        responses: {
            /** @description The conversation; what was no image is as it was, byte for byte */
            200: {
                headers: {
                    "Content-Type"?: string;
                    "Rigs-Images-Shed"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": unknown;
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    createSigninLink: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SigninLink"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    signOut: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    "Set-Cookie"?: string;
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    listTemplates: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Templates"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    makeTemplate: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MakeTemplate"];
            };
        };
        responses: {
            /** @description Server-sent events. Each property of the schema is the name of an event, its value the data of it. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": {
                        done?: components["schemas"]["Template"];
                        error?: components["schemas"]["Problem"];
                        step?: components["schemas"]["Step"];
                    };
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    removeTemplate: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    listTokens: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Tokens"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    createToken: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewToken"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CreatedToken"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    revokeToken: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    listWorkspaces: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Workspaces"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    createWorkspace: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Name"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Workspace"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    deleteWorkspace: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                workspace: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    getWorkspaceEgress: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                workspace: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WorkspaceEgress"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    putWorkspaceEgress: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                workspace: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["WorkspaceEgress"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WorkspaceEgress"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    listMembers: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description A workspace, or * for roles in all of them */
                workspace: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Members"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    putMember: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description A workspace, or * for roles in all of them */
                workspace: string;
                /** @description Name of the principal: of a token, or of an agent */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewRole"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Membership"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    deleteMember: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description A workspace, or * for roles in all of them */
                workspace: string;
                /** @description Name of the principal: of a token, or of an agent */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    listRules: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                workspace: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Rules"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    addRule: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                workspace: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewRule"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Rule"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    deleteRule: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                workspace: string;
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    listSpaces: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                workspace: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Spaces"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    createSpace: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                workspace: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Name"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Space"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    deleteSpace: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                workspace: string;
                space: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    changeSpace: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                workspace: string;
                space: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SpaceChange"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Space"];
                };
            };
            /** @description Error */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
}
