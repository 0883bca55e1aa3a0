package store

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"errors"
	"time"

	"rigs/internal/rig"
	"rigs/internal/server/store/db"
)

// Hash is the SHA-256 of a secret, which is all that is stored of it.
type Hash [sha256.Size]byte

// HashOf hashes a secret.
func HashOf(secret string) Hash { return sha256.Sum256([]byte(secret)) }

// Grant is whom a secret stands for, and since and until when.
type Grant struct {
	Principal  rig.Principal
	TokenID    string // the token, or the one that a session descends from; may be empty
	CreatedAt  time.Time
	LastUsedAt time.Time
	ExpiresAt  time.Time // zero: never
}

// Expired reports whether the grant has ended at now.
func (g Grant) Expired(now time.Time) bool { return !g.ExpiresAt.IsZero() && !now.Before(g.ExpiresAt) }

func principal(name, kind string) rig.Principal {
	return rig.Principal{Name: name, Kind: rig.PrincipalKind(kind)}
}

// AddToken stores a token's hash.
func (s *Store) AddToken(ctx context.Context, h Hash, g Grant) error {
	return s.q.InsertToken(ctx, db.InsertTokenParams{ID: g.TokenID, Name: g.Principal.Name, Kind: string(g.Principal.Kind),
		Hash: h[:], CreatedAt: millis(g.CreatedAt), ExpiresAt: millis(g.ExpiresAt)})
}

// Tokens lists the tokens that have not expired, oldest first.
func (s *Store) Tokens(ctx context.Context, now time.Time) ([]Grant, error) {
	rows, err := s.q.ListTokens(ctx, millis(now))
	if err != nil {
		return nil, err
	}
	out := make([]Grant, len(rows))
	for i, r := range rows {
		out[i] = Grant{principal(r.Name, r.Kind), r.ID, fromMillis(r.CreatedAt), fromMillis(r.LastUsedAt), fromMillis(r.ExpiresAt)}
	}
	return out, nil
}

// Token returns the token with that hash, or ErrNotFound. The index finds the
// row; the comparison that decides takes constant time.
func (s *Store) Token(ctx context.Context, h Hash) (Grant, error) {
	r, err := s.q.TokenByHash(ctx, h[:])
	if err := found(err, r.Hash, h); err != nil {
		return Grant{}, err
	}
	return Grant{principal(r.Name, r.Kind), r.ID, fromMillis(r.CreatedAt), fromMillis(r.LastUsedAt), fromMillis(r.ExpiresAt)}, nil
}

// TouchToken notes that a token was used.
func (s *Store) TouchToken(ctx context.Context, id string, at time.Time) error {
	return s.q.TouchToken(ctx, db.TouchTokenParams{LastUsedAt: millis(at), ID: id})
}

// RevokeToken removes a token with the sessions and links that came from it,
// or returns ErrNotFound.
func (s *Store) RevokeToken(ctx context.Context, id string) error {
	return s.Update(ctx, func(q *db.Queries) error {
		n, err := q.DeleteToken(ctx, id)
		return errors.Join(oneRow(n, err, ErrNotFound), q.DeleteSessionsOfToken(ctx, id), q.DeleteLinksOfToken(ctx, id))
	})
}

// AddSession stores a session's hash.
func (s *Store) AddSession(ctx context.Context, h Hash, g Grant) error {
	return s.q.InsertSession(ctx, db.InsertSessionParams{Hash: h[:], Name: g.Principal.Name, Kind: string(g.Principal.Kind),
		Token: g.TokenID, CreatedAt: millis(g.CreatedAt), ExpiresAt: millis(g.ExpiresAt)})
}

// Session returns the session with that hash, or ErrNotFound.
func (s *Store) Session(ctx context.Context, h Hash) (Grant, error) {
	r, err := s.q.SessionByHash(ctx, h[:])
	if err := found(err, r.Hash, h); err != nil {
		return Grant{}, err
	}
	return Grant{Principal: principal(r.Name, r.Kind), TokenID: r.Token, CreatedAt: fromMillis(r.CreatedAt), ExpiresAt: fromMillis(r.ExpiresAt)}, nil
}

// DeleteSession ends a session.
func (s *Store) DeleteSession(ctx context.Context, h Hash) error { return s.q.DeleteSession(ctx, h[:]) }

// AddLink stores a sign-in link's hash.
func (s *Store) AddLink(ctx context.Context, h Hash, g Grant) error {
	return s.q.InsertLink(ctx, db.InsertLinkParams{Hash: h[:], Name: g.Principal.Name, Kind: string(g.Principal.Kind),
		Token: g.TokenID, ExpiresAt: millis(g.ExpiresAt)})
}

// TakeLink returns the link with that hash and removes it, so that it works
// once, or returns ErrNotFound.
func (s *Store) TakeLink(ctx context.Context, h Hash) (Grant, error) {
	r, err := s.q.TakeLink(ctx, h[:])
	if err := found(err, r.Hash, h); err != nil {
		return Grant{}, err
	}
	return Grant{Principal: principal(r.Name, r.Kind), TokenID: r.Token, ExpiresAt: fromMillis(r.ExpiresAt)}, nil
}

func found(err error, have []byte, want Hash) error {
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNotFound
	}
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare(have, want[:]) != 1 {
		return ErrNotFound
	}
	return nil
}
