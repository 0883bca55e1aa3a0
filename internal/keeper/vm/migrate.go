package vm

import (
	"context"
	"errors"
	"fmt"
	"os"

	"rigs/internal/rig"
)

// stateFD is the name under which QEMU is given the state file.
const stateFD = "state"

type capability struct {
	Capability string `json:"capability"`
	State      bool   `json:"state"`
}

// capabilities: memory in files is not copied, and the end of a migration is an
// event.
var capabilities = map[string][]capability{"capabilities": {{"x-ignore-shared", true}, {"events", true}}}

// Freeze stops a machine with Shared memory and writes its device state to a
// new file. The machine must then be closed and never run again: its memory file belongs
// to its clones.
func (m *Machine) Freeze(ctx context.Context, stateFile string) error {
	f, err := os.OpenFile(stateFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return rig.Errorf(rig.CodeCapacity, "freeze the machine: %w", err)
	}
	defer f.Close()
	calls := []*call{
		m.Monitor.send("stop", nil, nil),
		m.Monitor.send("migrate-set-capabilities", capabilities, nil),
		m.Monitor.send("getfd", map[string]string{"fdname": stateFD}, f),
		m.Monitor.send("migrate", map[string]string{"uri": "fd:" + stateFD}, nil),
	}
	if err := m.migrated(ctx, calls); err != nil {
		return fmt.Errorf("freeze the machine: %w", err)
	}
	return nil
}

// Restore loads a frozen machine's device state and lets it run. State is open for reading.
func (m *Machine) Restore(ctx context.Context, state *os.File) error {
	calls := []*call{
		m.Monitor.send("migrate-set-capabilities", capabilities, nil),
		m.Monitor.send("getfd", map[string]string{"fdname": stateFD}, state),
		m.Monitor.send("migrate-incoming", map[string]string{"uri": "fd:" + stateFD}, nil),
	}
	if err := m.migrated(ctx, calls); err != nil {
		return fmt.Errorf("restore the machine: %w", err)
	}
	return m.Resume(ctx)
}

// migrated waits for the commands and then for the end of the migration that
// the last of them began.
func (m *Machine) migrated(ctx context.Context, calls []*call) error {
	for _, c := range calls {
		if err := c.wait(ctx, nil); err != nil {
			return m.explain(ctx, err)
		}
	}
	for {
		select {
		case s := <-m.migration:
			switch s {
			case "completed":
				return nil
			case "failed", "cancelled":
				return m.explain(ctx, fmt.Errorf("QEMU's migration %s", s))
			}
		case <-m.exited:
			return m.Failure("the machine ended")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// explain prefers the words of a QEMU that is ending to those of its broken
// monitor, which comes a moment earlier.
func (m *Machine) explain(ctx context.Context, err error) error {
	var refused *QMPError
	if errors.As(err, &refused) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, killGrace)
	defer cancel()
	select {
	case <-m.exited:
		return m.Failure("the machine ended")
	case <-ctx.Done():
		return err
	}
}
