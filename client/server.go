package client

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"rigs/internal/serverapi"
)

// Health returns nil when the server answers. It needs no token.
func (c *Client) Health(ctx context.Context) error {
	_, err := c.call(ctx, http.MethodGet, "/healthz", nil, nil)
	return err
}

// Metrics copies the server's metrics, in Prometheus' text format, to w.
func (c *Client) Metrics(ctx context.Context, w io.Writer) error {
	return c.copyTo(ctx, "/metrics", w)
}

// OpenAPI copies the API's description to w.
func (c *Client) OpenAPI(ctx context.Context, w io.Writer) error {
	return c.copyTo(ctx, "/openapi.json", w)
}

func (c *Client) copyTo(ctx context.Context, path string, w io.Writer) error {
	res, err := c.do(ctx, http.MethodGet, path, nil, "")
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(w, res.Body)
	return err
}

// Server says what the server is and who it takes the caller for.
func (c *Client) Server(ctx context.Context) (Server, error) {
	return get[Server](ctx, c, "/v1/server")
}

// Doctor says what the server's host can boot. With fresh it is tried again.
func (c *Client) Doctor(ctx context.Context, fresh bool) (Doctor, error) {
	p := "/v1/doctor"
	if fresh {
		p += "?fresh=true"
	}
	return get[Doctor](ctx, c, p)
}

// SigninLink makes a one-time address that signs a browser in as the caller.
func (c *Client) SigninLink(ctx context.Context) (SigninLink, error) {
	return post[SigninLink](ctx, c, "/v1/signin-links", nil)
}

// Tokens lists the tokens.
func (c *Client) Tokens(ctx context.Context) ([]Token, error) {
	l, err := get[serverapi.Tokens](ctx, c, "/v1/tokens")
	return l.Tokens, err
}

// CreateToken makes a token. Its secret cannot be had again.
func (c *Client) CreateToken(ctx context.Context, t NewToken) (CreatedToken, error) {
	return post[CreatedToken](ctx, c, "/v1/tokens", t)
}

// RevokeToken makes a token worthless, by its id.
func (c *Client) RevokeToken(ctx context.Context, id string) error {
	return c.delete(ctx, "/v1/tokens/"+url.PathEscape(id))
}

// Workspaces lists the workspaces.
func (c *Client) Workspaces(ctx context.Context) ([]Workspace, error) {
	l, err := get[serverapi.Workspaces](ctx, c, "/v1/workspaces")
	return l.Workspaces, err
}

// CreateWorkspace makes a workspace.
func (c *Client) CreateWorkspace(ctx context.Context, name string) (Workspace, error) {
	return post[Workspace](ctx, c, "/v1/workspaces", serverapi.Name{Name: name})
}

// DeleteWorkspace closes the rigs of a workspace and forgets it.
func (c *Client) DeleteWorkspace(ctx context.Context, name string) error {
	return c.delete(ctx, "/v1/workspaces/"+url.PathEscape(name))
}

func (c *Client) spaces() string {
	ws := c.workspace
	if ws == "" {
		ws = serverapi.Default
	}
	return "/v1/workspaces/" + url.PathEscape(ws) + "/spaces"
}

// Spaces lists the spaces of the client's workspace.
func (c *Client) Spaces(ctx context.Context) ([]Space, error) {
	l, err := get[serverapi.Spaces](ctx, c, c.spaces())
	return l.Spaces, err
}

// CreateSpace makes a space in the client's workspace.
func (c *Client) CreateSpace(ctx context.Context, name string) (Space, error) {
	return post[Space](ctx, c, c.spaces(), serverapi.Name{Name: name})
}

// DeleteSpace closes the rigs of a space and forgets it.
func (c *Client) DeleteSpace(ctx context.Context, name string) error {
	return c.delete(ctx, c.spaces()+"/"+url.PathEscape(name))
}

// Images lists the image definitions and what was built from them.
func (c *Client) Images(ctx context.Context) ([]Image, error) {
	l, err := get[serverapi.Images](ctx, c, "/v1/images")
	return l.Images, err
}

// BuildImage builds an image on the server and reports its steps.
func (c *Client) BuildImage(ctx context.Context, name string, noCache bool, progress func(Step)) (Image, error) {
	return work[Image](ctx, c, "/v1/images/"+url.PathEscape(name)+"/build", serverapi.BuildImage{NoCache: noCache}, progress)
}

// RemoveImage removes what was built of an image.
func (c *Client) RemoveImage(ctx context.Context, name string) error {
	return c.delete(ctx, "/v1/images/"+url.PathEscape(name))
}

// Templates lists the templates.
func (c *Client) Templates(ctx context.Context) ([]Template, error) {
	l, err := get[serverapi.Templates](ctx, c, "/v1/templates")
	return l.Templates, err
}

// MakeTemplate makes a template, unless it is there, and reports the steps.
func (c *Client) MakeTemplate(ctx context.Context, t MakeTemplate, progress func(Step)) (Template, error) {
	return work[Template](ctx, c, "/v1/templates", t, progress)
}

// RemoveTemplate removes a template. Rigs that were cloned from it go on.
func (c *Client) RemoveTemplate(ctx context.Context, key string) error {
	return c.delete(ctx, "/v1/templates/"+url.PathEscape(key))
}

func (c *Client) delete(ctx context.Context, path string) error {
	_, err := c.call(ctx, http.MethodDelete, path, nil, nil)
	return err
}
