package flatten

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// Limits on an image, all layers together.
const (
	MaxBytes   = 64 << 30 // of file content
	MaxEntries = 1 << 20
	maxName    = 255 // bytes of a name (ext4)
	maxPath    = 4096
	maxTarget  = 4095 // bytes of a symbolic link
	maxXattrs  = 3 << 10
)

// Whiteouts of the OCI image specification: a file that says what a layer removes.
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// xattrs that are kept. The rest is meant for the machine that made the layer, or, as
// trusted.overlay.*, would change how the guest's overlay reads it.
var keptXattrs = []string{"user.", "security.capability", "system.posix_acl_access", "system.posix_acl_default"}

const paxXattr = "SCHILY.xattr."

// inode is a file. Hard links share one.
type inode struct {
	kind         byte // a tar type flag
	mode         int64
	uid, gid     int
	mtime        time.Time
	target       string // of a symbolic link
	major, minor int64
	xattrs       map[string]string
	size, offset int64 // of the content in the spool

	children map[string]*inode // of a directory
	layer    int               // in which it came
}

func newDir(layer int) *inode {
	return &inode{kind: tar.TypeDir, mode: 0o755, mtime: time.Unix(0, 0), children: map[string]*inode{}, layer: layer}
}

// Tree is a merged file system. Add layers from the lowest up, then write it.
type Tree struct {
	root    *inode
	spool   Spool
	used    int64 // bytes of the spool
	entries int
	layers  int
}

// Spool holds file contents until they are written.
type Spool interface {
	io.Writer
	io.ReaderAt
}

// NewTree returns an empty tree that keeps contents in spool, which must be empty.
func NewTree(spool Spool) *Tree { return &Tree{root: newDir(0), spool: spool} }

// Files is the number of entries read so far, Bytes the content.
func (t *Tree) Files() int { return t.entries }

// Bytes is the number of bytes of content read so far.
func (t *Tree) Bytes() int64 { return t.used }

// Add puts a layer (an uncompressed tar stream) on top.
func (t *Tree) Add(ctx context.Context, layer io.Reader) error {
	t.layers++
	tr := tar.NewReader(layer)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("layer %d: it is not a sound tar stream: %w", t.layers, err)
		}
		if t.entries++; t.entries > MaxEntries {
			return fmt.Errorf("layer %d: the image has more than %d files", t.layers, MaxEntries)
		}
		if err := t.add(ctx, h, tr); err != nil {
			return fmt.Errorf("layer %d: entry %q: %w", t.layers, clip(h.Name), err)
		}
	}
}

func (t *Tree) add(ctx context.Context, h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	parts, err := split(h.Name)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		if h.Typeflag != tar.TypeDir {
			return errors.New("the root is not a directory")
		}
		n, err := t.node(h)
		if err != nil {
			return err
		}
		n.children = t.root.children
		t.root = n
		return nil
	}
	dir, err := t.parent(parts[:len(parts)-1])
	if err != nil {
		return err
	}
	name := parts[len(parts)-1]
	if hidden, ok := strings.CutPrefix(name, whiteout); ok {
		return t.hide(dir, name, hidden)
	}
	old := dir.children[name]
	if h.Typeflag == tar.TypeLink {
		src, err := t.find(h.Linkname)
		switch {
		case err != nil:
			return fmt.Errorf("hard link to %q: %w", clip(h.Linkname), err)
		case src.kind == tar.TypeDir:
			return fmt.Errorf("hard link to %q, which is a directory", clip(h.Linkname))
		case old != nil && old.kind == tar.TypeDir && old.layer == t.layers:
			return errors.New("it replaces a directory of its own layer")
		}
		dir.children[name] = src
		return nil
	}
	n, err := t.node(h)
	if err != nil {
		return err
	}
	switch {
	case n.kind == tar.TypeDir && old != nil && old.kind == tar.TypeDir:
		n.children = old.children // a directory is merged, anything else is replaced
	case n.kind == tar.TypeReg:
		if err := t.keep(ctx, n, content); err != nil {
			return err
		}
	}
	dir.children[name] = n
	return nil
}

// node makes an inode of a header.
func (t *Tree) node(h *tar.Header) (*inode, error) {
	n := &inode{
		kind: h.Typeflag, mode: h.Mode & 0o7777, uid: h.Uid, gid: h.Gid, mtime: h.ModTime.UTC().Truncate(time.Second),
		size: h.Size, layer: t.layers,
	}
	if h.Uid < 0 || h.Gid < 0 || int64(h.Uid) > 1<<32-2 || int64(h.Gid) > 1<<32-2 {
		return nil, fmt.Errorf("owner %d:%d is out of range", h.Uid, h.Gid)
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		n.kind = tar.TypeReg
	case tar.TypeDir:
		n.size, n.children = 0, map[string]*inode{}
	case tar.TypeSymlink:
		if h.Linkname == "" || len(h.Linkname) > maxTarget || strings.ContainsRune(h.Linkname, 0) {
			return nil, errors.New("a symbolic link whose target is empty or too long")
		}
		n.size, n.target = 0, h.Linkname
	case tar.TypeChar, tar.TypeBlock:
		if h.Devmajor == 0 && h.Devminor == 0 {
			return nil, errors.New("device 0/0, which the overlay takes for a deleted file")
		}
		if h.Devmajor < 0 || h.Devmajor >= 1<<12 || h.Devminor < 0 || h.Devminor >= 1<<20 {
			return nil, fmt.Errorf("device %d/%d is out of range", h.Devmajor, h.Devminor)
		}
		n.size, n.major, n.minor = 0, h.Devmajor, h.Devminor
	case tar.TypeFifo:
		n.size = 0
	default:
		return nil, fmt.Errorf("unknown type %q", h.Typeflag)
	}
	total := 0
	for key, value := range h.PAXRecords {
		attr, ok := strings.CutPrefix(key, paxXattr)
		if !ok {
			continue
		}
		if strings.HasPrefix(attr, "trusted.overlay.") || strings.HasPrefix(attr, "user.overlay.") {
			return nil, fmt.Errorf("attribute %q, which is the overlay's own", attr)
		}
		if !slices.ContainsFunc(keptXattrs, func(p string) bool { return strings.HasPrefix(attr, p) }) {
			continue
		}
		if total += len(attr) + len(value); total > maxXattrs || len(attr) > maxName {
			return nil, fmt.Errorf("extended attributes of more than %d bytes", maxXattrs)
		}
		if n.xattrs == nil {
			n.xattrs = map[string]string{}
		}
		n.xattrs[attr] = value
	}
	return n, nil
}

// keep copies the content of a file to the spool.
func (t *Tree) keep(ctx context.Context, n *inode, content io.Reader) error {
	if n.size < 0 || n.size > MaxBytes-t.used {
		return fmt.Errorf("the image has more than %d GB", MaxBytes>>30)
	}
	n.offset = t.used
	got, err := io.Copy(t.spool, io.LimitReader(&cancelable{ctx, content}, n.size))
	t.used += got
	if err == nil && got != n.size {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// hide applies a whiteout in dir. It takes away what lower layers put there,
// never what its own layer did, wherever in the layer it stands.
func (t *Tree) hide(dir *inode, name, hidden string) error {
	if name == opaque {
		maps.DeleteFunc(dir.children, func(_ string, n *inode) bool { return !t.prune(n) })
		return nil
	}
	if strings.HasPrefix(hidden, whiteout) { // such as .wh..wh.plnk, private to some builders
		return nil
	}
	if hidden == "" || hidden == "." || hidden == ".." {
		return errors.New("a whiteout of nothing")
	}
	if n := dir.children[hidden]; n != nil && !t.prune(n) {
		delete(dir.children, hidden)
	}
	return nil
}

// prune removes what lower layers put into n and reports whether anything of this layer remains.
func (t *Tree) prune(n *inode) bool {
	if n.kind != tar.TypeDir {
		return n.layer == t.layers
	}
	maps.DeleteFunc(n.children, func(_ string, c *inode) bool { return !t.prune(c) })
	return n.layer == t.layers || len(n.children) > 0
}

// parent returns the directory at parts, and makes what is missing.
func (t *Tree) parent(parts []string) (*inode, error) {
	dir := t.root
	for i, p := range parts {
		next := dir.children[p]
		if next == nil {
			next = newDir(t.layers)
			dir.children[p] = next
		}
		if next.kind != tar.TypeDir {
			return nil, fmt.Errorf("it goes through %q, which is not a directory", strings.Join(parts[:i+1], "/"))
		}
		dir = next
	}
	return dir, nil
}

// find returns what is at name, following no links.
func (t *Tree) find(name string) (*inode, error) {
	parts, err := split(name)
	if err != nil {
		return nil, err
	}
	n := t.root
	for _, p := range parts {
		if n.kind != tar.TypeDir || n.children[p] == nil {
			return nil, errors.New("it does not exist there")
		}
		n = n.children[p]
	}
	return n, nil
}

// split checks a path and returns its parts: none for the root.
func split(name string) ([]string, error) {
	switch {
	case name == "":
		return nil, errors.New("it has no name")
	case len(name) > maxPath:
		return nil, fmt.Errorf("its name has more than %d bytes", maxPath)
	case strings.HasPrefix(name, "/"):
		return nil, errors.New("its name is absolute")
	case strings.ContainsRune(name, 0):
		return nil, errors.New("its name holds a NUL")
	}
	parts := strings.Split(name, "/")
	if slices.Contains(parts, "..") {
		return nil, errors.New("its name leads out of its directory")
	}
	clean := path.Clean(name)
	if clean == "." {
		return nil, nil
	}
	parts = strings.Split(clean, "/")
	for _, p := range parts {
		if len(p) > maxName {
			return nil, fmt.Errorf("a part of its name has more than %d bytes", maxName)
		}
	}
	return parts, nil
}

func clip(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}

// cancelable ends a copy with its context.
type cancelable struct {
	ctx context.Context //nolint:containedctx // lives as long as the copy that it is passed to
	r   io.Reader
}

func (c *cancelable) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// ReadFile returns the content of a regular file of at most limit bytes. An error wraps
// fs.ErrNotExist if there is none at that path; links are not followed. The spool
// must have everything that was written to it.
func (t *Tree) ReadFile(name string, limit int64) ([]byte, error) {
	n, err := t.find(name)
	if err != nil || n.kind != tar.TypeReg {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	if n.size > limit {
		return nil, fmt.Errorf("%s: it has more than %d bytes", name, limit)
	}
	b := make([]byte, n.size)
	if _, err := t.spool.ReadAt(b, n.offset); err != nil && n.size > 0 {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b, nil
}

// List returns the names in a directory, sorted; none if there is no such directory.
func (t *Tree) List(name string) []string {
	n, err := t.find(name)
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(n.children))
}
