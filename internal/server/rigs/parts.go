package rigs

import (
	"context"
	"time"

	"rigs/internal/keeperapi"
	"rigs/internal/rig"
	"rigs/internal/server/placement"
	"rigs/internal/server/store"
)

// Placement runs keepers; placement.Local is one.
type Placement interface {
	Start(ctx context.Context, cfg keeperapi.Config) (*placement.Keeper, error)
	// End kills what is left of a rig's processes and removes its directories.
	End(ctx context.Context, id string) error
	// Resident is the measured memory of every rig's processes in bytes.
	Resident() (map[string]int64, error)
}

// Prepared is everything that a machine is started from.
type Prepared struct {
	Image    string // reference with digest
	Machine  keeperapi.Machine
	Boot     keeperapi.BootFiles
	Template string // directory; empty: boot from the image
	// Egress are patterns that the image needs, such as its package mirrors'.
	// They belong to the defaults: Spec.NoDefaults leaves them out.
	Egress []string
}

// Preparer turns a specification into what a machine is started from. It may
// take long, and says what it does. What cannot be had is a *rig.Problem.
type Preparer interface {
	// Supports is an error where no machine of that surface can ever be had here.
	Supports(rig.Surface) error
	Prepare(ctx context.Context, s rig.Spec, r rig.Resources, step func(rig.Step)) (Prepared, error)
}

// Policy knows egress patterns.
type Policy interface {
	// Canonical is the one spelling of a pattern, or says what is wrong with it.
	Canonical(pattern string) (string, error)
	Defaults(s rig.Surface) []string
	// Covers reports whether a list admits all that a pattern does.
	Covers(list []string, pattern string) bool
}

// Store keeps rigs and spaces; store.Store is one.
type Store interface {
	PutRig(ctx context.Context, r rig.Rig) error
	ClosedByPrefix(ctx context.Context, prefix string) ([]rig.Rig, error)
	HasWorkspace(ctx context.Context, name string) (bool, error)
	HasSpace(ctx context.Context, workspace, name string) (bool, error)
	AddSpace(ctx context.Context, workspace, name string, at time.Time) error
	WorkspaceEgress(ctx context.Context, workspace string) (map[rig.Surface]store.EgressChange, error)
}

// Metrics counts; metrics.Metrics does.
type Metrics interface {
	Opened(s rig.Surface)
	Ready(s rig.Surface, boot string, d time.Duration)
	Failed(s rig.Surface, c rig.Code)
	Closed(s rig.Surface, r rig.CloseReason)
}
