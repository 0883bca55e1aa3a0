package audit

import (
	"context"
	"database/sql"
	"errors"

	"rigs/internal/server/store/db"
)

// head says where a log begins and ends.
type head struct {
	log      string
	first    int64 // number of the first row that is kept
	anchor   hash  // hash of the row before it
	last     int64 // number of the last row; first-1: none is kept
	lastHash hash
	broken   int64 // the first row written after the head was found changed; 0: never
}

// sealer makes and checks heads and the seal.
type sealer struct {
	key key
	id  string // names the key
}

func (h *head) rows() int64 { return h.last - h.first + 1 }

func (k *sealer) head(h *head) hash {
	return k.key.mac(netstrings("rigs audit head 1", h.log, number(h.first), h.anchor.String(), number(h.last), h.lastHash.String(), number(h.broken), k.id))
}

// parseHead reads a head and reports whether its MAC is right.
func (k *sealer) parseHead(d *db.AuditHead) (head, bool) {
	h := head{log: d.Log, first: d.FirstSeq, last: d.LastSeq, broken: d.BrokenAt}
	ok := copyHash(&h.anchor, d.Anchor) && copyHash(&h.lastHash, d.LastHash)
	var mac hash
	return h, copyHash(&mac, d.Mac) && ok && d.KeyID == k.id && mac == k.head(&h)
}

func copyHash(into *hash, b []byte) bool {
	return copy(into[:], b) == len(into) && len(b) == len(into)
}

func (k *sealer) putHead(ctx context.Context, q *db.Queries, h *head) (mac hash, err error) {
	mac = k.head(h)
	return mac, q.PutAuditHead(ctx, db.PutAuditHeadParams{
		Log: h.log, FirstSeq: h.first, Anchor: h.anchor[:], LastSeq: h.last, LastHash: h.lastHash[:], BrokenAt: h.broken, KeyID: k.id, Mac: mac[:],
	})
}

// seal is what all heads come to: the sum of their MACs, modulo 2^256. A head that
// was taken away, or replaced by an older one with its own right MAC, is missed
// in it.
type seal struct {
	commits int64
	sum     hash
	bad     bool // it was found changed; it stays so
}

func (k *sealer) seal(s *seal) hash {
	if s.bad {
		return hash{} // right for no seal
	}
	return k.key.mac(netstrings("rigs audit seal 1", number(s.commits), s.sum.String()))
}

func (k *sealer) readSeal(ctx context.Context, q *db.Queries) (seal, error) {
	d, err := q.AuditSeal(ctx, k.id)
	if errors.Is(err, sql.ErrNoRows) {
		return seal{bad: true}, nil // it was written before the key was
	}
	s := seal{commits: d.Commits}
	var mac hash
	s.bad = !copyHash(&s.sum, d.Sum) || !copyHash(&mac, d.Mac)
	s.bad = s.bad || mac != k.seal(&s)
	return s, err
}

func (k *sealer) putSeal(ctx context.Context, q *db.Queries, s *seal) error {
	mac := k.seal(s)
	return q.PutAuditSeal(ctx, db.PutAuditSealParams{KeyID: k.id, Commits: s.commits, Sum: s.sum[:], Mac: mac[:]})
}

func (h *hash) add(o hash) {
	carry := 0
	for i := len(h) - 1; i >= 0; i-- {
		n := int(h[i]) + int(o[i]) + carry
		h[i], carry = byte(n), n>>8
	}
}

func (h *hash) sub(o hash) {
	borrow := 0
	for i := len(h) - 1; i >= 0; i-- {
		n := int(h[i]) - int(o[i]) - borrow
		borrow = 0
		if n < 0 {
			borrow = 1
		}
		h[i] = byte(n)
	}
}
