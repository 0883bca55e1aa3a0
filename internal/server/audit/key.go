package audit

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"rigs/internal/rig"
)

// key is a secret of 256 bits.
type key [sha256.Size]byte

// mac is HMAC-SHA-256 of msg.
func (k key) mac(msg []byte) hash {
	m := hmac.New(sha256.New, k[:])
	m.Write(msg)
	return hash(m.Sum(nil))
}

// derive makes a key for one purpose, from which neither this one nor those for
// others can be told.
func (k key) derive(purpose ...string) key { return key(k.mac(netstrings(purpose...))) }

// id names the key without telling it.
func (k key) id() string { return k.derive("id").hex()[:16] }

func (k key) hex() string { return hex.EncodeToString(k[:]) }

// readKey reads the key at path; ok is false when there is none.
func readKey(path string) (k key, ok bool, err error) {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return k, false, nil
	}
	if err != nil {
		return k, false, err
	}
	if !fi.Mode().IsRegular() || fi.Mode().Perm()&0o077 != 0 {
		return k, false, rig.Errorf(rig.CodeIntegrity, "the audit key %s has mode %v: others may have read it, and the logs prove nothing against them: take their rights with 'chmod 600', or remove it to go on with a new one", path, fi.Mode())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return k, false, err
	}
	raw, err := hex.DecodeString(strings.TrimSpace(string(b)))
	if err != nil || len(raw) != len(k) {
		return k, false, rig.Errorf(rig.CodeIntegrity, "the audit key %s is not one of %d hex digits: put it back from a copy, or remove it to go on with a new one", path, 2*len(k))
	}
	return key(raw), true, nil
}

// drawKey makes a new key.
func drawKey() key {
	var k key
	rand.Read(k[:]) // never fails since Go 1.24
	return k
}

// writeKey puts k at path, whole or not at all.
func writeKey(path string, k key) (err error) {
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(k.hex() + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("the audit key cannot be written: %w", err), os.Remove(tmp))
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// shortText is up to how many bytes a text gets a salt. A person types a key at a
// time, and equal hashes of equal keys would be a cipher that newspapers print for
// their readers to break.
const shortText = 16

// Redact is what may be written of a text that was typed, or of what a clipboard
// held: its length in bytes, and a hash from which someone with the server's key
// can tell whether it was a text that they have already. The same text gives another
// hash in another rig; one of less than 16 bytes gives another each time, with a
// salt before it.
func (l *Log) Redact(rigID string, content []byte) map[string]string {
	k := l.redact.derive("redact", rigID)
	if len(content) >= shortText {
		return map[string]string{"bytes": number(int64(len(content))), "hmac": k.mac(append(netstrings(""), content...)).String()}
	}
	salt := rand.Text()
	return map[string]string{"bytes": number(int64(len(content))), "hmac": salt + "." + k.mac(append(netstrings(salt), content...)).String()}
}
