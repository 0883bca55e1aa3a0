package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"rigs/internal/keeperapi"
	"rigs/internal/rig"
	"rigs/internal/serverapi"
)

// What is asked of people, and what a workspace decides about egress.
type (
	// Approval is a question to a person.
	Approval = rig.Approval
	// ApprovalAnswer answers one.
	ApprovalAnswer = serverapi.ApprovalAnswer
	// EgressAsk asks a person to admit a pattern.
	EgressAsk = serverapi.EgressAsk
	// WorkspaceEgress is what a workspace changes in the default egress lists.
	WorkspaceEgress = serverapi.WorkspaceEgress
	// SurfaceEgress is what it changes in one surface's.
	SurfaceEgress = serverapi.SurfaceEgress
)

// AllowFor admits a pattern for a time; 0: as long as the rig lives.
func (c *Client) AllowFor(ctx context.Context, ref, pattern string, ttl time.Duration) (EgressRules, error) {
	return post[EgressRules](ctx, c, c.rigPath(ref, "/egress/allow", nil), keeperapi.EgressChange{Pattern: pattern, TTLSeconds: int(ttl / time.Second)})
}

// AskEgress asks a person to admit a pattern and returns the pending question.
func (c *Client) AskEgress(ctx context.Context, ref string, ask EgressAsk) (Approval, error) {
	return post[Approval](ctx, c, c.rigPath(ref, "/egress/ask", nil), ask)
}

// ApprovalOptions narrow a listing. The client's workspace narrows it too.
type ApprovalOptions struct {
	Space string
	Rig   string // a rig in any form
	State rig.ApprovalState
}

// Approvals lists questions to people, the newest first.
func (c *Client) Approvals(ctx context.Context, o ApprovalOptions) ([]Approval, error) {
	q := url.Values{}
	for k, v := range map[string]string{"workspace": c.workspace, "space": o.Space, "rig": o.Rig, "state": string(o.State)} {
		if v != "" {
			q.Set(k, v)
		}
	}
	l, err := get[serverapi.Approvals](ctx, c, "/v1/approvals?"+q.Encode())
	return l.Approvals, err
}

// approvalWait is how long one request waits for an answer.
const approvalWait = 60 * time.Second

// WaitApproval returns a question when it is not pending any more.
func (c *Client) WaitApproval(ctx context.Context, id string) (Approval, error) {
	q := url.Values{"wait": {"answer"}, "timeoutSeconds": {strconv.Itoa(int(approvalWait / time.Second))}}
	for {
		a, err := get[Approval](ctx, c, "/v1/approvals/"+url.PathEscape(id)+"?"+q.Encode())
		if err != nil || a.State != rig.Pending {
			return a, err
		}
	}
}

// Approve says yes to a question. What was asked is done when it returns.
func (c *Client) Approve(ctx context.Context, id string, ans ApprovalAnswer) (Approval, error) {
	return post[Approval](ctx, c, "/v1/approvals/"+url.PathEscape(id)+"/approve", ans)
}

// Refuse says no to a question.
func (c *Client) Refuse(ctx context.Context, id string, ans ApprovalAnswer) (Approval, error) {
	return post[Approval](ctx, c, "/v1/approvals/"+url.PathEscape(id)+"/deny", ans)
}

func (c *Client) workspaceEgressPath() string {
	w := c.workspace
	if w == "" {
		w = serverapi.Default
	}
	return "/v1/workspaces/" + url.PathEscape(w) + "/egress"
}

// WorkspaceEgress returns what the client's workspace changes in the default egress
// lists, and the lists that result.
func (c *Client) WorkspaceEgress(ctx context.Context) (WorkspaceEgress, error) {
	return get[WorkspaceEgress](ctx, c, c.workspaceEgressPath())
}

// PutWorkspaceEgress replaces what the client's workspace changes.
func (c *Client) PutWorkspaceEgress(ctx context.Context, w WorkspaceEgress) (WorkspaceEgress, error) {
	var out WorkspaceEgress
	_, err := c.call(ctx, http.MethodPut, c.workspaceEgressPath(), w, &out)
	return out, err
}
