package rigs

import (
	"sync"
	"time"

	"rigs/internal/rig"
)

// measureEvery is how old a measurement of memory may be that is shown, measureNew how
// old when a machine has come since. Reading it costs the kernel some milliseconds for
// each machine.
const (
	measureEvery = 5 * time.Second
	measureNew   = time.Second
)

// measured is what the rigs' processes take, as of a moment.
type measured struct {
	mu    sync.Mutex
	at    time.Time
	bytes map[string]int64
}

// Measure adds to rigs how much of the host's memory each takes. What cannot be
// measured is left out.
func (m *Manager) Measure(rigs []rig.Rig) {
	m.memory.mu.Lock()
	defer m.memory.mu.Unlock()
	live, came := false, false
	for i := range rigs {
		if p := rigs[i].Phase; p == rig.Ready || p == rig.Parked {
			live = true
			if _, ok := m.memory.bytes[rigs[i].ID]; !ok {
				came = true
			}
		}
	}
	if !live {
		return
	}
	age := m.now().Sub(m.memory.at).Abs() // the clock may have been set
	if age >= measureEvery || came && age >= measureNew {
		now := m.now()
		b, err := m.place.Resident()
		if err != nil {
			m.log.Debug("memory cannot be measured", "error", err)
			return
		}
		m.memory.at, m.memory.bytes = now, b
	}
	for i := range rigs {
		if rigs[i].Phase.Live() {
			rigs[i].ResidentMB = int(m.memory.bytes[rigs[i].ID] >> 20)
		}
	}
}
