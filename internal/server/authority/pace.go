package authority

import (
	"context"
	"sync"

	"golang.org/x/time/rate"

	"rigs/internal/rig"
)

// What an agent does is written down, refused or not, and input by the frame: at ten
// thousand bytes a second, each in a frame of its own, it would fill the disk, and push
// out of the log what it did before. So an agent's actions wait for their turn; a
// person's never do, not in the same rig either.
const (
	paceRate  = 1000 // rows a second
	paceBurst = 4000
	paceMost  = 1024 // agents whose pace is known
)

// pace is the pace of every agent, by its name. The zero value is ready.
type pace struct {
	mu sync.Mutex
	of map[string]*rate.Limiter
}

func (p *pace) wait(ctx context.Context, w Who) error {
	if w.Kind != rig.Agent {
		return nil
	}
	return p.limiter(w.Name).Wait(ctx)
}

func (p *pace) limiter(name string) *rate.Limiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	l, ok := p.of[name]
	if !ok {
		if p.of == nil || len(p.of) >= paceMost { // people's tools can make up names
			p.of = map[string]*rate.Limiter{}
		}
		l = rate.NewLimiter(paceRate, paceBurst)
		p.of[name] = l
	}
	return l
}
