// Package seal notices when a file that a machine boots from is not what it was
// when it was made.
//
// # What it promises
//
// Write records the size and the SHA-256 of some files of a directory in a file of
// that directory, the seal. Verify succeeds only while each of them is a regular
// file with that size and that content. A byte that was flipped, a file that
// was cut short, exchanged or lost, and a seal that is missing or unreadable are all
// errors that wrap ErrBroken and name the file.
//
// Verify is cheap when nothing happened: what was hashed is remembered, in a
// second file beside the seal, as the inode, size, mtime and ctime that it had,
// and is hashed again only when one of these differs. A write changes the ctime, and no
// program can set that back. What goes unnoticed until then is a disk that
// returns other bytes than were written to it.
//
// # What it trusts
//
// The directory belongs to the same user as the program. The seal finds accidents and
// the writes of other programs to single files; who can write the directory can write
// a new seal.
package seal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Names of the package's own files in a sealed directory.
const (
	Name      = "seal.json"
	stampName = "seal.stamp.json"
)

const (
	version = 1
	maxFile = 1 << 20 // bytes of a seal or a stamp; a real one has a few hundred
)

// ErrBroken says that a sealed file is not what it was, or that nothing says what
// it should be. errors.Is finds it in what Verify returns.
var ErrBroken = errors.New("broken seal")

// Seal says what the files of a directory must be.
type Seal struct {
	Version int    `json:"version"`
	Files   []File `json:"files"` // sorted by name
}

// File is one sealed file.
type File struct {
	Name string `json:"name"` // within the directory, no slash
	Size int64  `json:"size"`
	// Exactly one of these is set. SHA256 is the plain hash of the content, as
	// sha256sum prints it. SparseSHA256 is that of a file with holes (see Sum).
	SHA256       string `json:"sha256,omitempty"`
	SparseSHA256 string `json:"sparseSha256,omitempty"`
}

// File returns the entry of a name.
func (s Seal) File(name string) (File, bool) {
	i := slices.IndexFunc(s.Files, func(f File) bool { return f.Name == name })
	if i < 0 {
		return File{}, false
	}
	return s.Files[i], true
}

// Digest is one value for the whole: "sha256:" and the hash of the seal. Two directories with
// the same files have the same digest.
func (s Seal) Digest() string {
	sum := sha256.Sum256(s.encode())
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (s Seal) encode() []byte {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(err) // strings and numbers only
	}
	return append(b, '\n')
}

// Write hashes the named files of dir and seals them. The files must be complete
// and are not to be written afterwards. The seal is on the disk when Write returns; a seal
// that was there is replaced.
func Write(ctx context.Context, dir string, files ...string) (Seal, error) {
	s := Seal{Version: version}
	names := slices.Clone(files)
	slices.Sort(names)
	stamps := stamps{Files: map[string]stamp{}}
	for i, name := range names {
		if !validName(name) || i > 0 && names[i-1] == name {
			return Seal{}, fmt.Errorf("seal %s: %q cannot be sealed: give each plain file name once", dir, name)
		}
		f, st, err := measure(ctx, filepath.Join(dir, name), auto)
		if err != nil {
			return Seal{}, fmt.Errorf("seal %s: %w", dir, err)
		}
		f.Name = name
		s.Files = append(s.Files, f)
		stamps.put(name, st)
	}
	data := s.encode()
	if err := replaceFile(filepath.Join(dir, Name), data, true); err != nil {
		return Seal{}, fmt.Errorf("seal %s: %w", dir, err)
	}
	stamps.save(dir, data)
	return s, nil
}

// Verify checks the sealed files of dir and returns their seal. Only the files that it lists
// are vouched for.
func Verify(ctx context.Context, dir string) (Seal, error) {
	s, data, err := read(dir)
	if err != nil {
		return Seal{}, err
	}
	known := loadStamps(dir, data)
	changed := false
	for _, want := range s.Files {
		path := filepath.Join(dir, want.Name)
		now, err := stat(path)
		if err != nil {
			return Seal{}, broken(path, err)
		}
		if now.Size != want.Size {
			return Seal{}, broken(path, fmt.Errorf("it has %d bytes, not %d", now.Size, want.Size))
		}
		if old, ok := known.Files[want.Name]; ok && old == now {
			continue
		}
		how := plain
		if want.SparseSHA256 != "" {
			how = sparse
		}
		got, st, err := measure(ctx, path, how)
		switch {
		case ctx.Err() != nil:
			return Seal{}, ctx.Err()
		case err != nil:
			return Seal{}, broken(path, err)
		}
		got.Name = want.Name
		if got != want {
			return Seal{}, broken(path, errors.New("its content has changed since it was made"))
		}
		known.put(want.Name, st)
		changed = true
	}
	if changed {
		known.save(dir, data)
	}
	return s, nil
}

// Read returns the seal of dir without looking at the files.
func Read(dir string) (Seal, error) {
	s, _, err := read(dir)
	return s, err
}

func read(dir string) (Seal, []byte, error) {
	path := filepath.Join(dir, Name)
	data, err := readSmall(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Seal{}, nil, fmt.Errorf("%w: %s: nothing says what the files here should be (no %s)", ErrBroken, dir, Name)
	}
	if err != nil {
		return Seal{}, nil, broken(path, err)
	}
	var s Seal
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return Seal{}, nil, broken(path, err)
	}
	if s.Version != version || !bytes.Equal(s.encode(), data) {
		return Seal{}, nil, broken(path, errors.New("it is not a seal of this version"))
	}
	for i, f := range s.Files {
		if !validName(f.Name) || i > 0 && s.Files[i-1].Name >= f.Name || (f.SHA256 == "") == (f.SparseSHA256 == "") {
			return Seal{}, nil, broken(path, fmt.Errorf("its entry %d is malformed", i))
		}
	}
	return s, data, nil
}

func broken(path string, why error) error {
	return fmt.Errorf("%w: %s: %w", ErrBroken, path, why)
}

func validName(n string) bool {
	return n != "" && n != "." && n != ".." && n != Name && n != stampName && !strings.ContainsAny(n, "/\\\x00")
}

// readSmall reads a file of ours, following no link and refusing an absurd size.
func readSmall(path string) ([]byte, error) {
	f, st, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st.Size > maxFile {
		return nil, fmt.Errorf("it has %d bytes, more than the %d that it can have", st.Size, maxFile)
	}
	buf := make([]byte, st.Size)
	if _, err := f.ReadAt(buf, 0); err != nil && st.Size > 0 {
		return nil, err
	}
	return buf, nil
}

// replaceFile writes data to path in one step, durably if asked.
func replaceFile(path string, data []byte, durable bool) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		f.Close()
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if durable {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return os.Rename(f.Name(), path)
}
