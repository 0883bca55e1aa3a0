//go:build linux

package guest

import (
	"bufio"
	"io"
	"net/http"
	"net/url"
	"time"

	"rigs/internal/guest/account"
	"rigs/internal/guest/files"
	"rigs/internal/guestapi"
	"rigs/internal/rig"
	"rigs/internal/wire"
)

// drainTimeout bounds the wait for the rest of a body that was refused.
const drainTimeout = 30 * time.Second

// target is the parameter "path" of a request, and the user with whose rights it is
// used.
func (a *Agent) target(r *http.Request) (account.Account, string, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return account.Account{}, "", rig.FieldErrorf("path", "cannot read the path: %w", err)
	}
	user, err := a.cfg.Lookup(guestapi.User)
	return user, q.Get("path"), err
}

func (a *Agent) stat(w http.ResponseWriter, r *http.Request) error {
	user, path, err := a.target(r)
	if err != nil {
		return err
	}
	info, err := files.Stat(user, path)
	if err != nil {
		return err
	}
	wire.WriteJSON(w, info)
	return nil
}

func (a *Agent) sendFiles(w http.ResponseWriter, r *http.Request) error {
	user, path, err := a.target(r)
	if err != nil {
		return err
	}
	began := false
	out := bufio.NewWriterSize(w, wire.MaxFrame)
	err = files.Send(user, path, func() {
		began = true
		w.Header().Set("Content-Type", "application/x-tar")
	}, out)
	if err == nil {
		err = out.Flush()
	}
	if err != nil && began {
		// The answer has begun; only breaking it off still says that it is wrong.
		panic(http.ErrAbortHandler)
	}
	return err
}

func (a *Agent) receiveFiles(w http.ResponseWriter, r *http.Request) error {
	user, path, err := a.target(r)
	if err != nil {
		return err
	}
	if err := files.Receive(user, path, r.Body); err != nil {
		// A client that is still sending would not see the answer: take the rest.
		if http.NewResponseController(w).SetReadDeadline(time.Now().Add(drainTimeout)) == nil {
			_, _ = io.Copy(io.Discard, r.Body) // it was refused already
		}
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
