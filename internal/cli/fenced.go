package cli

import (
	"io"
	"os"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"rigs/internal/fence"
)

// fencedFlag adds --fenced to a command that prints what a guest said.
func fencedFlag(f *pflag.FlagSet, fenced *bool) {
	f.BoolVar(fenced, "fenced", false, "print what the guest says inside a fence, for an agent to read")
}

// guest returns where to write what a guest said on its way to w: in a fence
// that names the source; or, where w is a terminal, without what a terminal
// would act on; or to w as it is. The caller closes it, which leaves w open.
func guest(w io.Writer, source string, fenced bool) io.WriteCloser {
	if fenced {
		return fence.NewWriter(w, source)
	}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return fence.NewCleanWriter(f)
	}
	return open{w}
}

// open is a writer whose closing is somebody else's.
type open struct{ io.Writer }

func (open) Close() error { return nil }
