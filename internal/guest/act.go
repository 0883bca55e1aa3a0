//go:build linux

package guest

import (
	"errors"
	"net/http"

	"rigs/internal/guest/account"
	"rigs/internal/guest/files"
	"rigs/internal/guestapi"
	"rigs/internal/rig"
	"rigs/internal/wire"
)

// asked reads a request's body and answers with what f makes of it.
func asked[I, O any](w http.ResponseWriter, r *http.Request, f func(I) (O, error)) error {
	var in I
	if err := wire.ReadJSON(r.Body, guestapi.MaxActJSON, &in); err != nil {
		if errors.Is(err, wire.ErrTooLarge) {
			return rig.Errorf(rig.CodeTooLarge, "request: %w", err)
		}
		return rig.Errorf(rig.CodeInvalidRequest, "request: %w", err)
	}
	out, err := f(in)
	if err == nil {
		wire.WriteJSON(w, out)
	}
	return err
}

// askedOfUser is asked with the user's rights.
func askedOfUser[I, O any](a *Agent, w http.ResponseWriter, r *http.Request, f func(account.Account, I) (O, error)) error {
	user, err := a.cfg.Lookup(guestapi.User)
	if err != nil {
		return err
	}
	return asked(w, r, func(in I) (O, error) { return f(user, in) })
}

func (a *Agent) readFile(w http.ResponseWriter, r *http.Request) error {
	return askedOfUser(a, w, r, files.Read)
}

func (a *Agent) writeFile(w http.ResponseWriter, r *http.Request) error {
	return askedOfUser(a, w, r, files.Write)
}

func (a *Agent) listDir(w http.ResponseWriter, r *http.Request) error {
	return askedOfUser(a, w, r, files.List)
}

func (a *Agent) screen(w http.ResponseWriter, r *http.Request) error {
	return asked(w, r, func(in guestapi.ScreenRequest) (guestapi.Screen, error) { return a.terminals.Screen(in.Session) })
}
