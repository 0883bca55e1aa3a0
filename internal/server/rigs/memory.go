package rigs

import (
	"sync"
	"time"

	"rigs/internal/rig"
)

// measureEvery is how old a measurement of memory may be that is shown. Reading it
// costs the kernel some milliseconds for each machine.
const measureEvery = 5 * time.Second

// measured is what the rigs' processes take, as of a moment.
type measured struct {
	mu    sync.Mutex
	at    time.Time
	bytes map[string]int64
}

// Measure adds to rigs how much of the host's memory each takes. What cannot be
// measured is left out.
func (m *Manager) Measure(rigs []rig.Rig) {
	live := false
	for i := range rigs {
		live = live || rigs[i].Phase.Live()
	}
	if !live {
		return
	}
	m.memory.mu.Lock()
	defer m.memory.mu.Unlock()
	if now := m.now(); m.memory.bytes == nil || now.Sub(m.memory.at).Abs() >= measureEvery {
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
