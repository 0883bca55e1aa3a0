package gate

import "sync"

// What the stack may hold of one connection, in each direction. Large for a few
// connections, because that is what throughput takes at this MTU; small for many,
// because a guest that opens hundreds and reads none of them must not cost more
// than the sum below.
const (
	largestShare = 1 << 20

	// plainBuffer is for what has no share: lookups over TCP.
	plainBuffer = 64 << 10
)

// shares are the sizes that connections get, the largest that is free first. With
// the default limits: 2 × (8 MB + 7 MB + 448 × 32 KB) = 58 MB at the very most.
var shares = [...]struct {
	size  int64
	count int // -1: any number
}{{largestShare, 8}, {128 << 10, 56}, {32 << 10, -1}}

// Buffers for copying. An idle connection holds only small ones.
const (
	smallCopy  = 4 << 10
	largeCopy  = 128 << 10
	largeLimit = 24 // large ones in use at once: 3 MB
)

// buffers hands out shares of the stack's memory, and memory to copy through.
type buffers struct {
	mu    sync.Mutex
	taken [len(shares)]int

	small sync.Pool // *[smallCopy]byte
	large sync.Pool // *[largeCopy]byte
	slots chan struct{}
}

func newBuffers() *buffers {
	return &buffers{
		small: sync.Pool{New: func() any { return new([smallCopy]byte) }},
		large: sync.Pool{New: func() any { return new([largeCopy]byte) }},
		slots: make(chan struct{}, largeLimit),
	}
}

// take returns the size of the largest share that is free, and what gives it back.
func (b *buffers) take() (size int64, give func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := 0
	for shares[i].count >= 0 && b.taken[i] == shares[i].count {
		i++ // the last has no limit
	}
	b.taken[i]++
	return shares[i].size, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.taken[i]--
	}
}

// tryLarge returns a large buffer, nil when all are in use.
func (b *buffers) tryLarge() *[largeCopy]byte {
	select {
	case b.slots <- struct{}{}:
		return b.large.Get().(*[largeCopy]byte)
	default:
		return nil
	}
}

// giveLarge takes back what tryLarge returned; nil is nothing.
func (b *buffers) giveLarge(p *[largeCopy]byte) {
	if p != nil {
		b.large.Put(p)
		<-b.slots
	}
}
