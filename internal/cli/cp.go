package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"rigs/client"
	"rigs/internal/cli/transfer"
	"rigs/internal/rig"
)

// location is one side of a copy.
type location struct {
	ref  string // empty: this host
	path string // "-": a tar on standard input or output
}

var prefixPattern = regexp.MustCompile(`^[0-9a-z]{3,10}$`)

// parseLocation understands RIG:PATH and local paths. A local name with a colon
// is written with a leading "./".
func parseLocation(s string) location {
	if ref, p, ok := strings.Cut(s, ":"); ok {
		if prefixPattern.MatchString(ref) {
			return location{ref, p}
		}
		if spec, ok := parseRef(ref); ok {
			// SPACE/browser:ENGINE:PATH
			if engine, rest, more := strings.Cut(p, ":"); more && spec.Surface == rig.Browser && isEngine(engine) {
				return location{ref + ":" + engine, rest}
			}
			return location{ref, p}
		}
	}
	return location{"", s}
}

func isEngine(s string) bool {
	for _, e := range rig.Engines {
		if string(e) == s {
			return true
		}
	}
	return false
}

func (a *app) cpCmd() *cobra.Command {
	return &cobra.Command{
		Use: "cp SRC DST", Short: "Copy files and directories in and out",
		Long: `Copies a file or a directory between this host and a rig; one of SRC and DST is RIG:PATH.
Paths in a rig are relative to the user's home. As with docker cp: into DST when that is a
directory, otherwise as DST; "SRC/." means the contents of a directory; "-" is a tar on
standard input or output.

What a rig sends is not trusted. Names that lead out of DST, links that point out of the
copy, and devices are refused by name; the rest is copied, and the exit status is 1.`,
		Example: `  rigs cp demo/terminal:out/report.html .
  rigs cp ./src demo/terminal:work
  rigs cp demo/terminal:work - | tar t`,
		Args:              args(2, 2, "SRC and DST"),
		ValidArgsFunction: a.completeLocation,
		RunE: func(cmd *cobra.Command, words []string) error {
			src, dst := parseLocation(words[0]), parseLocation(words[1])
			if (src.ref == "") == (dst.ref == "") {
				return usagef("one of SRC and DST must be in a rig (RIG:PATH), and the other on this host: see 'rigs cp --help'")
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			p := a.progress()
			defer p.Wait()
			defer p.Stop()
			if dst.ref != "" {
				return a.copyIn(cmd.Context(), c, src.path, dst, p)
			}
			return a.copyOut(cmd.Context(), c, src, dst.path, p)
		},
	}
}

func (a *app) completeLocation(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, n := range a.rigNames(cmd.Context(), toComplete) {
		name, what, _ := strings.Cut(n, "\t")
		names = append(names, name+":\t"+what)
	}
	return names, cobra.ShellCompDirectiveNoSpace
}

// meter turns counts into steps of one bar.
func meter(p *progress, text string, total int64) func(int64, int) {
	p.Step(rig.Step{Text: text, Total: total, Unit: "bytes"})
	return func(bytes int64, files int) {
		t := text
		if total == 0 && files > 1 {
			p.Step(rig.Step{Text: t, Done: int64(files), Unit: "files"})
			return
		}
		p.Step(rig.Step{Text: t, Done: bytes, Total: total, Unit: "bytes"})
	}
}

// copyIn sends a local file or tree into a rig.
func (a *app) copyIn(ctx context.Context, c *client.Client, src string, dst location, p *progress) error {
	if src == "-" {
		return c.WriteFiles(ctx, dst.ref, orHome(dst.path), a.in)
	}
	fi, err := os.Stat(src)
	if err != nil {
		return fmt.Errorf("cannot look at %q: %w", src, errors.Unwrap(err))
	}
	contents := fi.IsDir() && isContents(src)
	abs, err := filepath.Abs(src)
	if err != nil {
		return err
	}
	dir, name, err := a.targetIn(ctx, c, dst, filepath.Base(abs), fi.IsDir(), contents)
	if err != nil {
		return err
	}
	total, _, err := transfer.Measure(ctx, abs)
	if err != nil {
		return err
	}
	count := meter(p, fmt.Sprintf("copying %s to %s:%s", src, dst.ref, dst.path), total)

	pr, pw := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := transfer.Pack(ctx, pw, abs, name, count)
		var refused *transfer.Refused
		if errors.As(err, &refused) {
			pw.Close() // the rest is whole
		} else {
			pw.CloseWithError(err)
		}
		packed <- err
	}()
	err = c.WriteFiles(ctx, dst.ref, dir, pr)
	pr.CloseWithError(errors.New("the rig takes no more"))
	perr := <-packed
	p.Stop()
	var refused *transfer.Refused
	switch {
	case errors.As(perr, &refused):
		return errors.Join(err, refused)
	case err != nil:
		// A packing error reaches us through the pipe, inside the transport's.
		if perr != nil && !errors.Is(perr, io.ErrClosedPipe) && strings.Contains(err.Error(), perr.Error()) {
			return perr
		}
		return err
	}
	return perr
}

// isContents reports whether a path ends in "/.": what is in the directory, and
// not the directory.
func isContents(p string) bool { return p == "." || strings.HasSuffix(p, "/.") }

func orHome(p string) string {
	if p == "" {
		return "."
	}
	return p
}

// targetIn decides where in the rig a copy goes: a directory there, and the
// name in it ("." for its contents).
func (a *app) targetIn(ctx context.Context, c *client.Client, dst location, base string, isDir, contents bool) (dir, name string, err error) {
	to := orHome(dst.path)
	st, err := statFollow(ctx, c, dst.ref, to)
	switch {
	case rig.CodeOf(err) == rig.CodeNotFound && st.Path == "":
		if _, err := c.Rig(ctx, dst.ref); err != nil {
			return "", "", err // it is the rig that is not there
		}
		switch {
		case isDir:
			return to, ".", nil // made there with this content
		case strings.HasSuffix(to, "/"):
			return to, base, nil
		}
		return path.Dir(to), path.Base(to), nil
	case err != nil:
		return "", "", err
	case st.Type == "dir":
		if contents || base == string(filepath.Separator) {
			return to, ".", nil
		}
		return to, base, nil
	case isDir:
		return "", "", rig.Errorf(rig.CodeConflict, "cannot copy a directory to %s:%s: it is a %s there: name a directory", dst.ref, to, st.Type)
	}
	return path.Dir(to), path.Base(to), nil
}

// statFollow is Stat that follows links, as far as a chain of them can be sane.
func statFollow(ctx context.Context, c *client.Client, ref, p string) (client.FileInfo, error) {
	for range 8 {
		st, err := c.Stat(ctx, ref, p)
		if err != nil || st.Type != "symlink" || st.Target == "" {
			return st, err
		}
		if p = st.Target; !path.IsAbs(p) {
			p = path.Join(path.Dir(st.Path), p)
		}
	}
	return client.FileInfo{}, rig.Errorf(rig.CodeInvalidRequest, "%s:%s: too many symbolic links", ref, p)
}

// copyOut fetches a file or tree from a rig.
func (a *app) copyOut(ctx context.Context, c *client.Client, src location, dst string, p *progress) error {
	from := orHome(src.path)
	if dst == "-" {
		body, err := c.ReadFiles(ctx, src.ref, from)
		if err != nil {
			return err
		}
		defer body.Close()
		if isTerminal(a.out) {
			return usagef("a tar is not for a terminal: redirect it, or name a file or directory instead of '-'")
		}
		_, err = io.Copy(a.out, body)
		return err
	}
	st, err := c.Stat(ctx, src.ref, from)
	if err != nil {
		return err
	}
	base, err := transfer.Name(path.Base(st.Path))
	if err != nil || base == "." || strings.Contains(base, "/") {
		base = "files" // the root directory has no name of its own
	}
	root, rename, err := targetOut(dst, base, st.Type == "dir", isContents(from))
	if err != nil {
		return err
	}
	defer root.Close()
	body, err := c.ReadFiles(ctx, src.ref, from)
	if err != nil {
		return err
	}
	defer body.Close()
	var total int64
	if st.Type == "file" {
		total = max(st.Size, 0)
	}
	count := meter(p, fmt.Sprintf("copying %s:%s to %s", src.ref, from, dst), total)
	err = transfer.Extract(ctx, root, body, transfer.Options{Rename: rename, Progress: count})
	p.Stop()
	return err
}

// targetOut decides where on this host a copy goes, and opens that directory:
// nothing outside of it can be written. Whatever the stream calls its top, it
// becomes the one name that the user asked for.
func targetOut(dst, base string, isDir, contents bool) (*os.Root, func(string) string, error) {
	drop := func(string) string { return "" }
	named := func(name string) func(string) string { return func(string) string { return name } }
	fi, err := os.Stat(dst)
	switch {
	case err == nil && fi.IsDir():
		root, err := os.OpenRoot(dst)
		if isDir && contents {
			return root, drop, err
		}
		return root, named(base), err
	case err == nil && isDir:
		return nil, nil, fmt.Errorf("cannot copy a directory to %s: there is a file of that name: name a directory", dst)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return nil, nil, err
	case err != nil && isDir:
		if err := os.Mkdir(dst, 0o755); err != nil {
			return nil, nil, err
		}
		root, err := os.OpenRoot(dst)
		return root, drop, err
	case err != nil && strings.HasSuffix(dst, "/"):
		return nil, nil, fmt.Errorf("cannot copy to %s: there is no such directory: make it first", dst)
	}
	root, err := os.OpenRoot(filepath.Dir(dst))
	return root, named(filepath.Base(dst)), err
}
