package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"rigs/internal/rig"
	"rigs/internal/serverapi"
)

type (
	// AuditRow is one row of an audit log.
	AuditRow = rig.AuditRow
	// AuditLog is a piece of an audit log, oldest first.
	AuditLog = serverapi.AuditLog
	// AuditVerified is what checking a log gave.
	AuditVerified = serverapi.AuditVerified
)

// AuditOptions say which piece of a log is wanted.
type AuditOptions struct {
	After int64 // only rows with a higher number
	Limit int   // at most so many; 0: the server's default
	Tail  bool  // the last ones instead
}

// auditPath is where a rig's log is, or the server's own for an empty ref.
func (c *Client) auditPath(ref, sub string, q url.Values) string {
	if ref != "" {
		return c.rigPath(ref, "/audit"+sub, q)
	}
	p := "/v1/audit" + sub
	if len(q) > 0 {
		p += "?" + q.Encode()
	}
	return p
}

// Audit returns rows of a rig's audit log, or of the server's own for an empty ref.
func (c *Client) Audit(ctx context.Context, ref string, o AuditOptions) (AuditLog, error) {
	q := url.Values{}
	if o.After > 0 {
		q.Set("after", strconv.FormatInt(o.After, 10))
	}
	if o.Limit > 0 {
		q.Set("limit", strconv.Itoa(o.Limit))
	}
	if o.Tail {
		q.Set("tail", "true")
	}
	return get[AuditLog](ctx, c, c.auditPath(ref, "", q))
}

// VerifyAudit checks a log. That something is wrong with it is no error.
func (c *Client) VerifyAudit(ctx context.Context, ref string) (AuditVerified, error) {
	return get[AuditVerified](ctx, c, c.auditPath(ref, "/verify", nil))
}

// ExportAudit writes a whole log as JSON Lines.
func (c *Client) ExportAudit(ctx context.Context, ref string, w io.Writer) error {
	res, err := c.do(ctx, http.MethodGet, c.auditPath(ref, "/export", nil), nil, "")
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(w, res.Body); err != nil {
		return rig.Errorf(rig.CodeUnavailable, "the export broke off: %w: what was written is not all of the log", err)
	}
	return nil
}
