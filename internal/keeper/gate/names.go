package gate

import (
	"container/list"
	"encoding/binary"
	"net/netip"
	"sync"
)

// pool is where synthetic addresses come from: the benchmarking range of
// RFC 2544, which nobody routes.
var pool = netip.MustParsePrefix("198.18.0.0/15")

// poolSize leaves out the first and the last address of the pool.
const poolSize = 1<<17 - 2

// names is the table of synthetic addresses: one for every name a guest looks
// up, so that a connection carries its name with it.
//
// The table is bounded, so old entries go. Two rules keep a flood of lookups
// from harming more than itself: names that the policy knows and names that it
// does not are kept in two lists that do not displace each other, and addresses
// are taken in turn, so a forgotten one means something else only after the
// whole pool was used (and a connection to it is refused until then). An address
// with an open connection is never forgotten.
type names struct {
	mu     sync.Mutex
	limit  int // entries in each of the lists
	next   uint32
	byName map[string]*list.Element
	byAddr map[netip.Addr]*list.Element
	lists  [2]*list.List // of *handedOut, least recently used last; [1]: admitted
}

type handedOut struct {
	name  string
	addr  netip.Addr
	known int // index of its list
	open  int // connections that are open to it
}

func newNames(limit int) *names {
	return &names{
		limit: limit, byName: map[string]*list.Element{}, byAddr: map[netip.Addr]*list.Element{},
		lists: [2]*list.List{list.New(), list.New()},
	}
}

// assign returns the address of name, handing one out when it has none. admitted
// says which list it is kept in.
func (n *names) assign(name string, admitted bool) netip.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := 0
	if admitted {
		known = 1
	}
	if e, ok := n.byName[name]; ok {
		h := e.Value.(*handedOut)
		if h.known == known {
			n.lists[known].MoveToFront(e)
			return h.addr
		}
		n.lists[h.known].Remove(e)
		h.known = known
		n.add(h)
		return h.addr
	}
	h := &handedOut{name: name, addr: n.free(), known: known}
	n.add(h)
	return h.addr
}

// add puts h at the front of its list and forgets the oldest entry without an
// open connection when that makes the list too long.
func (n *names) add(h *handedOut) {
	l := n.lists[h.known]
	e := l.PushFront(h)
	n.byName[h.name], n.byAddr[h.addr] = e, e
	if l.Len() <= n.limit {
		return
	}
	for e := l.Back(); e != nil && e != l.Front(); e = e.Prev() {
		if old := e.Value.(*handedOut); old.open == 0 {
			l.Remove(e)
			delete(n.byName, old.name)
			delete(n.byAddr, old.addr)
			return
		}
	}
}

// free returns the next address of the pool that nobody has. There is always
// one: the lists together are much shorter than the pool.
func (n *names) free() netip.Addr {
	base := pool.Addr().As4()
	for {
		n.next = n.next%poolSize + 1
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(base[:])+n.next)
		a := netip.AddrFrom4(b)
		if _, taken := n.byAddr[a]; !taken {
			return a
		}
	}
}

// name returns the name that a was handed out for, "" when it was not.
func (n *names) name(a netip.Addr) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e, ok := n.byAddr[a]; ok {
		return e.Value.(*handedOut).name
	}
	return ""
}

// hold keeps a and its name together while a connection to it is open. The
// caller must call release once for every hold that returned a name.
func (n *names) hold(a netip.Addr) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	e, ok := n.byAddr[a]
	if !ok {
		return ""
	}
	h := e.Value.(*handedOut)
	h.open++
	n.lists[h.known].MoveToFront(e)
	return h.name
}

func (n *names) release(a netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e, ok := n.byAddr[a]; ok {
		e.Value.(*handedOut).open--
	}
}
