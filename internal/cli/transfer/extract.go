package transfer

import (
	"archive/tar"
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"rigs/internal/guestapi"
)

// Options bound and direct an extraction.
type Options struct {
	// Rename gives the first component of every name another name; the tar of a
	// rig's file or tree begins with its base name, and the user may want
	// another. Nil keeps names. An empty answer drops the component, and the
	// contents go straight into the root.
	Rename func(top string) string
	// MaxBytes and MaxEntries bound what is written; 0 means the defaults.
	MaxBytes   int64
	MaxEntries int
	// Progress is told the bytes written so far. May be nil.
	Progress func(bytes int64, files int)
}

// The default bounds of an extraction.
const (
	DefaultMaxBytes   = 64 << 30
	DefaultMaxEntries = 1_000_000
	maxRefusals       = 20 // named in an error; more are counted
)

// ErrTooLarge says that a stream holds more than Options allows.
var ErrTooLarge = errors.New("more than is accepted")

// Refused lists what an extraction did not write.
type Refused struct {
	Names []string // each "NAME: why"
	More  int      // how many others
}

func (r *Refused) Error() string {
	if len(r.Names) == 1 && r.More == 0 {
		return "refused, the rest is copied: " + r.Names[0]
	}
	s := fmt.Sprintf("%d refused, the rest is copied:\n%s", len(r.Names)+r.More, strings.Join(r.Names, "\n"))
	if r.More > 0 {
		s += fmt.Sprintf("\nand %d more", r.More)
	}
	return s
}

func (r *Refused) add(name, why string) {
	if len(r.Names) == maxRefusals {
		r.More++
		return
	}
	r.Names = append(r.Names, fmt.Sprintf("%q: %s", name, why))
}

// short bounds what a rig says of a file, and escapes what a terminal would obey.
func short(s string) string {
	return strings.Map(func(c rune) rune {
		if !strconv.IsPrint(c) {
			return '?'
		}
		return c
	}, s[:min(len(s), 200)])
}

// refusal is the reason why one entry is not written.
type refusal string

func (r refusal) Error() string { return string(r) }

// Extract writes the tar stream r below root. It returns a *Refused when some
// entries were refused and everything else was written; any other error ended
// the extraction early.
func Extract(ctx context.Context, root *os.Root, r io.Reader, opt Options) error {
	x := &extraction{
		ctx: ctx, root: root, opt: opt,
		left:    cmp.Or(opt.MaxBytes, DefaultMaxBytes),
		entries: cmp.Or(opt.MaxEntries, DefaultMaxEntries),
		files:   map[string]bool{},
		dirs:    map[string]dirMeta{},
	}
	tr := tar.NewReader(bufio.NewReaderSize(r, 64<<10))
	refused := new(Refused)
	for {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading the stream: %w", err)
		}
		if x.entries--; x.entries < 0 {
			return fmt.Errorf("%w: over %d entries", ErrTooLarge, cmp.Or(opt.MaxEntries, DefaultMaxEntries))
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			if name, ok := h.PAXRecords[guestapi.SkippedName]; ok {
				refused.add(short(name), short(h.PAXRecords[guestapi.SkippedReason])) // the rig's words
			}
			continue
		}
		err = x.entry(h, tr)
		var no refusal
		switch {
		case errors.As(err, &no):
			refused.add(h.Name, string(no))
		case err != nil:
			return fmt.Errorf("%q: %w", h.Name, err)
		}
	}
	if err := x.finishDirs(); err != nil {
		return err
	}
	if len(refused.Names) > 0 {
		return refused
	}
	return nil
}

type dirMeta struct {
	mode  fs.FileMode
	mtime time.Time
}

type extraction struct {
	ctx     context.Context //nolint:containedctx // lives for one call of Extract
	root    *os.Root
	opt     Options
	left    int64
	entries int
	written int64
	count   int
	files   map[string]bool    // regular files of this stream, which hard links may name
	dirs    map[string]dirMeta // what directories get when everything is in them
}

// Name checks the name of an entry and returns it cleaned, relative to the
// root. It refuses whatever is not a plain path downwards.
func Name(name string) (string, error) {
	switch {
	case name == "":
		return "", refusal("it has no name")
	case strings.ContainsRune(name, 0):
		return "", refusal("its name holds a NUL byte")
	case path.IsAbs(name):
		return "", refusal("its name is absolute")
	case len(name) > 4096:
		return "", refusal("its name is longer than 4096 bytes")
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "..":
			return "", refusal("its name leads upwards (..)")
		case len(part) > 255:
			return "", refusal("a part of its name is longer than 255 bytes")
		}
	}
	return path.Clean(name), nil
}

// rename applies Options.Rename to a clean name. above is how many components of
// the answer lie above the copy's contents: one when the copy got a name in the
// root, beside what was there before.
func (x *extraction) rename(name string) (renamed string, above int) {
	if x.opt.Rename == nil || name == "." {
		return name, 0
	}
	top, rest, _ := strings.Cut(name, "/")
	to := x.opt.Rename(top)
	if to != "" {
		above = 1
	}
	return path.Join(".", to, rest), above
}

func (x *extraction) entry(h *tar.Header, r io.Reader) error {
	name, err := Name(h.Name)
	if err != nil {
		return err
	}
	name, above := x.rename(name)
	if name == "." {
		if h.Typeflag == tar.TypeDir {
			return nil // the target itself, which the user made
		}
		return refusal("it would replace the target directory")
	}
	if err := x.parents(name); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		err = x.dir(name, h)
	case tar.TypeReg, tar.TypeGNUSparse:
		err = x.file(name, h, r)
	case tar.TypeSymlink:
		err = x.symlink(name, above, h.Linkname)
	case tar.TypeLink:
		err = x.hardlink(name, h.Linkname)
	case tar.TypeChar, tar.TypeBlock:
		return refusal("it is a device")
	case tar.TypeFifo:
		return refusal("it is a pipe")
	default:
		return refusal(fmt.Sprintf("it is of an unknown type %q", h.Typeflag))
	}
	if err == nil {
		x.count++
		x.progress()
	}
	return err
}

func (x *extraction) progress() {
	if x.opt.Progress != nil {
		x.opt.Progress(x.written, x.count)
	}
}

// parents makes the directories above name. A symbolic link among them is
// refused even when it stays inside: nothing is ever written through a link.
func (x *extraction) parents(name string) error {
	dir := path.Dir(name)
	if dir == "." {
		return nil
	}
	var at string
	for part := range strings.SplitSeq(dir, "/") {
		at = path.Join(at, part)
		if _, ours := x.dirs[at]; ours {
			continue
		}
		fi, err := x.root.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err := x.root.Mkdir(at, 0o755); err != nil {
				return err
			}
		case err != nil:
			return err
		case fi.Mode()&fs.ModeSymlink != 0:
			return refusal(fmt.Sprintf("it goes through the symbolic link %q", at))
		case !fi.IsDir():
			return refusal(fmt.Sprintf("%q is not a directory", at))
		}
	}
	return nil
}

// clear removes what is at name, unless it is a directory.
func (x *extraction) clear(name string) error {
	fi, err := x.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if fi.IsDir() {
		return refusal("a directory is in its place")
	}
	delete(x.files, name)
	return x.root.Remove(name)
}

func (x *extraction) dir(name string, h *tar.Header) error {
	fi, err := x.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// Writable for us until everything is in it.
		if err := x.root.Mkdir(name, 0o700); err != nil {
			return err
		}
	case err != nil:
		return err
	case fi.Mode()&fs.ModeSymlink != 0:
		return refusal("a symbolic link is in its place")
	case !fi.IsDir():
		return refusal("a file is in its place")
	default:
		if _, ours := x.dirs[name]; !ours {
			return nil // the user's own directory keeps its mode
		}
	}
	x.dirs[name] = dirMeta{mode: fs.FileMode(h.Mode & 0o777), mtime: h.ModTime}
	return nil
}

func (x *extraction) file(name string, h *tar.Header, r io.Reader) error {
	if h.Size > x.left {
		return x.tooLarge()
	}
	if err := x.clear(name); err != nil {
		return err
	}
	f, err := x.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = x.copy(f, r)
	// Through the handle: the name may not be trusted twice.
	if err == nil {
		err = f.Chmod(fs.FileMode(h.Mode & 0o777))
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return errors.Join(err, x.root.Remove(name))
	}
	x.files[name] = true
	return x.chtimes(name, h.ModTime)
}

// copy counts what it really writes: a sparse entry grows while it is read.
func (x *extraction) copy(w io.Writer, r io.Reader) error {
	buf := make([]byte, 256<<10)
	for {
		if x.ctx.Err() != nil {
			return context.Cause(x.ctx)
		}
		n, err := r.Read(buf)
		if int64(n) > x.left {
			return x.tooLarge()
		}
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return werr
			}
			x.left -= int64(n)
			x.written += int64(n)
			x.progress()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the stream: %w", err)
		}
	}
}

func (x *extraction) tooLarge() error {
	return fmt.Errorf("%w: over %d bytes", ErrTooLarge, cmp.Or(x.opt.MaxBytes, DefaultMaxBytes))
}

// symlink makes a link that stays inside the copy. One that points elsewhere
// does no harm by itself, but whoever opens it later on this host would be sent
// where the rig wanted.
func (x *extraction) symlink(name string, above int, target string) error {
	if target == "" || strings.ContainsRune(target, 0) || len(target) > 4096 {
		return refusal("its target is malformed")
	}
	if path.IsAbs(target) {
		return refusal(fmt.Sprintf("it is a symbolic link to an absolute path (%q)", target))
	}
	if !staysInside(strings.Count(name, "/")-above, target) {
		return refusal(fmt.Sprintf("it is a symbolic link that leads outside (%q)", target))
	}
	if err := x.clear(name); err != nil {
		return err
	}
	return x.root.Symlink(target, name)
}

// staysInside reports whether a link that lies depth directories below the top of
// a copy leads into that copy, whatever other links the copy holds. Upwards it
// may go only from its own directory, which is a real one: in "a/.." the part a
// could be a link as well ("a" to ".", and "a/.." is above the copy).
func staysInside(depth int, target string) bool {
	down := depth < 0 // the copy is nothing but this link
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; down || depth < 0 {
				return false
			}
		default:
			down = true
		}
	}
	return depth >= 0
}

// hardlink links to a regular file of the same stream and to nothing else: a
// link to a file that was here before would let the rig write to it.
func (x *extraction) hardlink(name, target string) error {
	to, err := Name(target)
	if err != nil {
		return refusal(fmt.Sprintf("it is a hard link to %q, and %v", target, err))
	}
	to, _ = x.rename(to)
	if !x.files[to] {
		return refusal(fmt.Sprintf("it is a hard link to %q, which is not a file of this copy", target))
	}
	if to == name {
		return nil
	}
	if err := x.clear(name); err != nil {
		return err
	}
	if err := x.root.Link(to, name); err != nil {
		return err
	}
	x.files[name] = true
	return nil
}

func (x *extraction) chtimes(name string, t time.Time) error {
	if t.IsZero() || t.Unix() <= 0 {
		return nil
	}
	return x.root.Chtimes(name, time.Time{}, t)
}

// finishDirs sets modes and times from the deepest directory up. A mode that
// would lock the user out of its own copy is widened.
func (x *extraction) finishDirs() error {
	names := make([]string, 0, len(x.dirs))
	for name := range x.dirs {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(b, a) })
	for _, name := range names {
		m := x.dirs[name]
		if err := x.root.Chmod(name, m.mode|0o700); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
		if err := x.chtimes(name, m.mtime); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
	}
	return nil
}
