package image

import (
	"context"
	"errors"
	"syscall"

	"rigs/internal/rig"
	"rigs/internal/seal"
)

// ErrNotBuilt says that an image has a definition but was not built here, or not with
// the digest that was asked for.
var ErrNotBuilt = errors.New("it is not built")

// refused makes the error for something that is not what it was.
func refused(what, name string, err error) error {
	return rig.Errorf(rig.CodeIntegrity, "%s is refused: %w: make it again with 'rigs image build %s'", what, err, name)
}

// failed names what was done when err happened, and says what helps against a full
// disk. Errors that are already problems keep their code.
func failed(doing string, err error) error {
	var p *rig.Problem
	switch {
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return rig.Errorf(rig.CodeCapacity, "%s: %w: free some space (1 GB is enough), or move the data with RIGS_HOME or RIGS_CACHE", doing, err)
	case errors.Is(err, context.Canceled):
		return rig.Errorf(rig.CodeCanceled, "%s: %w", doing, err)
	case errors.Is(err, context.DeadlineExceeded):
		return rig.Errorf(rig.CodeTimeout, "%s: %w", doing, err)
	case errors.As(err, &p):
		return rig.Errorf(p.Code, "%s: %w", doing, err)
	case errors.Is(err, seal.ErrBroken):
		return rig.Errorf(rig.CodeIntegrity, "%s: %w", doing, err)
	}
	return &wrapped{doing, err}
}

type wrapped struct {
	doing string
	err   error
}

func (w *wrapped) Error() string { return w.doing + ": " + w.err.Error() }
func (w *wrapped) Unwrap() error { return w.err }
