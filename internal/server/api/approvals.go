package api

import (
	"context"
	"errors"
	"slices"
	"time"

	"rigs/internal/rig"
	"rigs/internal/server/approvals"
	"rigs/internal/server/authority"
	"rigs/internal/serverapi"
)

func (a *API) approvalRoutes() {
	handle(a, route{method: "GET", path: "/v1/approvals", id: "listApprovals", summary: "Questions to people, the newest first", tag: "approvals"},
		func(ctx context.Context, in *struct {
			Workspace string            `query:"workspace" maxLength:"63" doc:"Only this workspace's"`
			Space     string            `query:"space" maxLength:"63" doc:"Only this space's"`
			Rig       string            `query:"rig" maxLength:"160" doc:"Only this rig's, in any form that names one"`
			State     rig.ApprovalState `query:"state" enum:"pending,approved,denied,expired,canceled" doc:"Only those in this state"`
		}) (serverapi.Approvals, error) {
			f := approvals.Filter{Workspace: in.Workspace, Space: in.Space, State: in.State}
			if in.Rig != "" {
				r, err := a.rig(ctx, &RigIn{in.Rig, in.Workspace})
				if err != nil {
					return serverapi.Approvals{}, err
				}
				f = approvals.Filter{RigID: r.ID, State: in.State}
			}
			sees := a.sees(ctx)
			return serverapi.Approvals{Approvals: slices.DeleteFunc(a.Desk.List(f), func(q rig.Approval) bool { return !sees(q.Workspace) })}, nil
		})
	handle(a, route{method: "GET", path: "/v1/approvals/{id}", id: "getApproval", summary: "A question to people; with wait=answer, when it was answered, has expired or was canceled", tag: "approvals"},
		func(ctx context.Context, in *struct {
			ID             string `path:"id" maxLength:"64"`
			Wait           string `query:"wait" enum:"answer" doc:"Wait until it is not pending any more"`
			TimeoutSeconds int    `query:"timeoutSeconds" default:"60" minimum:"1" maximum:"600" doc:"How long to wait; then it is returned as it is"`
		}) (rig.Approval, error) {
			q, err := a.approval(ctx, in.ID)
			if err != nil || in.Wait == "" {
				return q, err
			}
			ctx, cancel := context.WithTimeout(ctx, time.Duration(in.TimeoutSeconds)*time.Second)
			defer cancel()
			q, err = a.Desk.Wait(ctx, in.ID)
			if err != nil && errors.Is(err, ctx.Err()) {
				err = nil
			}
			return q, err
		})
	type answerIn struct {
		ID   string `path:"id" maxLength:"64"`
		Body *serverapi.ApprovalAnswer
	}
	handle(a, route{method: "POST", path: "/v1/approvals/{id}/approve", id: "approve", summary: "Say yes; for people. The answer comes when what was asked is done", tag: "approvals"},
		func(ctx context.Context, in *answerIn) (rig.Approval, error) {
			return a.answer(ctx, in.ID, true, in.Body)
		})
	handle(a, route{method: "POST", path: "/v1/approvals/{id}/deny", id: "refuse", summary: "Say no; for people", tag: "approvals"},
		func(ctx context.Context, in *answerIn) (rig.Approval, error) {
			return a.answer(ctx, in.ID, false, in.Body)
		})
}

// approval is one that the caller may know of.
func (a *API) approval(ctx context.Context, id string) (rig.Approval, error) {
	q, err := a.Desk.Get(id)
	if err == nil {
		err = a.see(ctx, q.Workspace)
	}
	return q, err
}

func (a *API) answer(ctx context.Context, id string, approve bool, ans *serverapi.ApprovalAnswer) (rig.Approval, error) {
	if ans == nil {
		ans = &serverapi.ApprovalAnswer{}
	}
	q, err := a.approval(ctx, id)
	if err != nil {
		return q, err
	}
	act := authority.Refuse
	if approve {
		act = authority.Approve
	}
	act = authority.Remembering(act, ans.Remember).With("", "approval", q.ID, "remember", ans.Remember, "kind", q.Kind, "by", q.By.Name, "pattern", q.Pattern, "verb", q.Verb)
	g, err := a.Authority.Begin(ctx, who(ctx), authority.Target{Workspace: q.Workspace, Space: q.Space, RigID: q.RigID}, act)
	if err != nil {
		return rig.Approval{}, err
	}
	q, err = a.Desk.Answer(ctx, id, g.Who.Principal, approve, *ans)
	g.End(ctx, err)
	return q, err
}
