package keeper

import (
	"sync"

	"rigs/internal/keeperapi"
	"rigs/internal/rig"
)

// What is kept of the egress log. Names in it are at most 253 bytes long, so
// this is under 2 MB.
const maxEgress = 4096

// maxEgressPage bounds one answer of the log.
const maxEgressPage = 1000

// egressLog keeps the last events of the gate and numbers them from 1.
type egressLog struct {
	mu     sync.Mutex
	events []rig.EgressEvent // a ring once it is full
	last   int64             // number of the newest
}

// add numbers e, keeps it and passes it to publish, in order.
func (l *egressLog) add(e rig.EgressEvent, publish func(rig.EgressEvent)) {
	e.Host, e.Address = cut(e.Host, 256), cut(e.Address, 64)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	e.Seq = l.last
	if len(l.events) < maxEgress {
		l.events = append(l.events, e)
	} else {
		l.events[(l.last-1)%maxEgress] = e
	}
	publish(e)
}

// after returns the events that follow number seq, oldest first, and how many of them are no longer
// kept.
func (l *egressLog) after(seq int64) keeperapi.EgressLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	seq = max(seq, 0)
	oldest := max(l.last-maxEgress, 0) + 1
	res := keeperapi.EgressLog{Events: []rig.EgressEvent{}}
	if seq+1 < oldest {
		res.Lost = oldest - seq - 1
		seq = oldest - 1
	}
	for n := seq + 1; n <= l.last && len(res.Events) < maxEgressPage; n++ {
		res.Events = append(res.Events, l.events[(n-1)%maxEgress])
	}
	return res
}

func cut(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}
