package client

import (
	"context"
	"net/http"
	"net/url"

	"rigs/internal/serverapi"
)

// As returns the client acting as the agent of that name: what it does is the
// agent's doing, with an agent's rights and no more than the caller's own.
func (c *Client) As(agent string) *Client {
	d := *c
	d.agent = agent
	return &d
}

// OnNotice returns the client with f called for what an agent has to be told with an
// answer: that control was taken or given back since its last action.
func (c *Client) OnNotice(f func(notice string)) *Client {
	d := *c
	d.notice = f
	return &d
}

// Take takes control of a rig: nobody else's actions change anything in it then.
func (c *Client) Take(ctx context.Context, ref string, t Take) (Rig, error) {
	return post[Rig](ctx, c, c.rigPath(ref, "/take", nil), t)
}

// Give gives control back.
func (c *Client) Give(ctx context.Context, ref string) (Rig, error) {
	return post[Rig](ctx, c, c.rigPath(ref, "/give", nil), nil)
}

func workspacePath(workspace, sub string) string {
	return "/v1/workspaces/" + url.PathEscape(workspace) + sub
}

// Rules lists a workspace's guardrails.
func (c *Client) Rules(ctx context.Context, workspace string) ([]Rule, error) {
	l, err := get[serverapi.Rules](ctx, c, workspacePath(workspace, "/rules"))
	return l.Rules, err
}

// AddRule adds a guardrail for agents.
func (c *Client) AddRule(ctx context.Context, workspace string, r NewRule) (Rule, error) {
	return post[Rule](ctx, c, workspacePath(workspace, "/rules"), r)
}

// DeleteRule removes a guardrail.
func (c *Client) DeleteRule(ctx context.Context, workspace, id string) error {
	_, err := c.call(ctx, http.MethodDelete, workspacePath(workspace, "/rules/"+url.PathEscape(id)), nil, nil)
	return err
}

// Members lists who has a role of their own in a workspace ("*": in all).
func (c *Client) Members(ctx context.Context, workspace string) ([]Membership, error) {
	l, err := get[serverapi.Members](ctx, c, workspacePath(workspace, "/members"))
	return l.Members, err
}

// PutMember gives a principal a role.
func (c *Client) PutMember(ctx context.Context, workspace string, m Membership) (Membership, error) {
	var out Membership
	_, err := c.call(ctx, http.MethodPut, workspacePath(workspace, "/members/"+url.PathEscape(m.Principal)), serverapi.NewRole{Role: m.Role}, &out)
	return out, err
}

// DeleteMember takes a principal's role away.
func (c *Client) DeleteMember(ctx context.Context, workspace, principal string) error {
	_, err := c.call(ctx, http.MethodDelete, workspacePath(workspace, "/members/"+url.PathEscape(principal)), nil, nil)
	return err
}

// ChangeSpace changes how a space is worked in.
func (c *Client) ChangeSpace(ctx context.Context, workspace, space string, s SpaceChange) (Space, error) {
	var out Space
	_, err := c.call(ctx, http.MethodPatch, workspacePath(workspace, "/spaces/"+url.PathEscape(space)), s, &out)
	return out, err
}
