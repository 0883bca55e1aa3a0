package transfer

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Measure returns how many bytes and entries Pack would send for src.
func Measure(ctx context.Context, src string) (bytes int64, entries int, err error) {
	err = filepath.WalkDir(src, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		entries++
		if d.Type().IsRegular() {
			fi, err := d.Info()
			if err != nil {
				return err
			}
			bytes += fi.Size()
		}
		return nil
	})
	return bytes, entries, err
}

// Pack writes the file or tree at src to w as a tar whose first component is
// name; with name ".", the contents of the directory src. Links are sent as
// links. What is neither file, directory nor link is left out and reported at
// the end as a *Refused. progress may be nil.
func Pack(ctx context.Context, w io.Writer, src, name string, progress func(bytes int64, files int)) error {
	p := &packing{ctx: ctx, tw: tar.NewWriter(w), refused: new(Refused), progress: progress}
	// The user's own name for it may be a link: that one is followed.
	root, err := filepath.EvalSymlinks(src)
	if err != nil {
		return err
	}
	err = filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, at)
		if err != nil {
			return err
		}
		as := filepath.ToSlash(filepath.Join(name, rel))
		if as == "." {
			return nil
		}
		if err := p.add(at, as, d); err != nil {
			return fmt.Errorf("%q: %w", at, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := p.tw.Close(); err != nil {
		return err
	}
	if len(p.refused.Names) > 0 {
		return p.refused
	}
	return nil
}

type packing struct {
	ctx      context.Context //nolint:containedctx // lives for one call of Pack
	tw       *tar.Writer
	refused  *Refused
	bytes    int64
	count    int
	progress func(int64, int)
}

func (p *packing) add(at, as string, d fs.DirEntry) error {
	if p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	fi, err := d.Info()
	if err != nil {
		return err
	}
	var target string
	switch {
	case fi.Mode().IsRegular(), fi.IsDir():
	case fi.Mode()&fs.ModeSymlink != 0:
		if target, err = os.Readlink(at); err != nil {
			return err
		}
	default:
		p.refused.add(at, "it is neither a file, a directory nor a symbolic link")
		return nil
	}
	h, err := tar.FileInfoHeader(fi, target)
	if err != nil {
		return err
	}
	h.Name, h.Format = as, tar.FormatPAX
	if fi.IsDir() {
		h.Name += "/"
	}
	// Who owns it here is nobody's business in there.
	h.Uid, h.Gid, h.Uname, h.Gname = 0, 0, "", ""
	if fi.Mode().IsRegular() {
		if err := p.file(at, h); err != nil {
			return err
		}
	} else if err := p.tw.WriteHeader(h); err != nil {
		return err
	}
	p.count++
	p.report()
	return nil
}

func (p *packing) file(at string, h *tar.Header) error {
	f, err := os.Open(at)
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() {
		return errors.New("it is no longer a file")
	}
	h.Size = fi.Size()
	if err := p.tw.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.CopyBuffer(&counting{p}, io.LimitReader(f, h.Size), make([]byte, 256<<10))
	if err != nil {
		return err
	}
	if n < h.Size {
		return fmt.Errorf("it shrank from %d to %d bytes while it was read: try again", h.Size, n)
	}
	return nil
}

func (p *packing) report() {
	if p.progress != nil {
		p.progress(p.bytes, p.count)
	}
}

type counting struct{ p *packing }

func (c *counting) Write(b []byte) (int, error) {
	if c.p.ctx.Err() != nil {
		return 0, context.Cause(c.p.ctx)
	}
	n, err := c.p.tw.Write(b)
	c.p.bytes += int64(n)
	c.p.report()
	return n, err
}
