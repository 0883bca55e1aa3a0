package flatten

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"

	"github.com/Microsoft/hcsshim/ext4/tar2ext4"
)

// FSType is the file system that WriteFS makes.
const FSType = "ext4"

// WriteFS writes the tree as a file system. progress is called with the number of bytes of
// content written so far.
func (t *Tree) WriteFS(ctx context.Context, out io.ReadWriteSeeker, progress func(done int64)) error {
	pr, pw := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := t.writeTar(ctx, pw, progress)
		pw.CloseWithError(err)
		written <- err
	}()
	err := tar2ext4.Convert(pr, out, tar2ext4.MaximumDiskSize(2*MaxBytes))
	pr.CloseWithError(err)
	if werr := <-written; werr != nil && err == nil {
		err = werr
	}
	return err
}

// writeTar writes the tree as a tar stream: directories before what is in them, names in
// order, a hard link after the file.
func (t *Tree) writeTar(ctx context.Context, w io.Writer, progress func(int64)) error {
	tw := tar.NewWriter(w)
	first := map[*inode]string{} // the name under which a file was written
	var done int64
	var walk func(name string, n *inode) error
	walk = func(name string, n *inode) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		h := &tar.Header{
			Typeflag: n.kind, Name: name, Mode: n.mode, Uid: n.uid, Gid: n.gid, Size: n.size, Linkname: n.target,
			ModTime: n.mtime, AccessTime: n.mtime, ChangeTime: n.mtime, Devmajor: n.major, Devminor: n.minor, Format: tar.FormatPAX,
		}
		if prev, ok := first[n]; ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, prev, 0
		} else if n.kind != tar.TypeDir {
			first[n] = name
		}
		if n.kind == tar.TypeDir {
			h.Name += "/"
		}
		if len(n.xattrs) > 0 && h.Typeflag != tar.TypeLink {
			h.PAXRecords = map[string]string{}
			for k, v := range n.xattrs {
				h.PAXRecords[paxXattr+k] = v
			}
		}
		if err := tw.WriteHeader(h); err != nil {
			return fmt.Errorf("entry %q: %w", clip(name), err)
		}
		if h.Size > 0 {
			if _, err := io.Copy(tw, &cancelable{ctx, io.NewSectionReader(t.spool, n.offset, n.size)}); err != nil {
				return fmt.Errorf("entry %q: %w", clip(name), err)
			}
			done += n.size
			if progress != nil {
				progress(done)
			}
		}
		for _, c := range slices.Sorted(maps.Keys(n.children)) {
			if err := walk(path.Join(name, c), n.children[c]); err != nil {
				return err
			}
		}
		return nil
	}
	if err := walk(".", t.root); err != nil {
		return err
	}
	return tw.Close()
}
