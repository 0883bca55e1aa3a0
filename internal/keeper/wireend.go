package keeper

import (
	"io"

	"rigs/internal/keeper/vm"
)

// drain is the other end of the wire of a machine that has no network: frames
// are read, so that the guest's NIC does not stall, and forgotten.
func drain(m *vm.Machine) {
	go func() { _, _ = io.Copy(io.Discard, m.Net) }() // ends when the machine is closed
}
